"""Writing the parts of a deployment into a folder: all of them or none, and never over what is there."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Sequence
from itertools import count
from pathlib import Path

from trainwright.tools.integrations.final_model import FinalModel
from trainwright.tools.integrations.rendering import rendered
from trainwright.tools.integrations.signature import signature_of
from trainwright.trainer.base.errors import ConfigurationError, ConflictError, StorageError, near_matches
from trainwright.trainer.run import write_generated

PARTS = ("service", "form", "database", "client")
BEFORE = ".before"
"""End of the folder's name in which a replaced part is kept, until the next one is; `-2` behind it beside a user's."""
MODEL = "model"
"""Folder of the service with the model's files, unchanged."""


def deploy(
    folder: Path,
    into: Path,
    parts: Sequence[str] = PARTS,
    *,
    classes: Sequence[str] | None = None,
    as_samples: bool = False,
    replace: bool = False,
) -> list[Path]:
    """Write a released model's parts, each into a folder of its name below `into`; return these folders.

    Args:
        folder: `final_model/`, or the folder above it.
        classes, as_samples: as `signature_of` takes them.
        replace: whether parts that were generated before make way, and are kept beside as `service.before`.

    Raises:
        NotFoundError, IntegrityError: as `FinalModel.opened`.
        ConfigurationError: as `signature_of`; an unknown part; a text holds a secret.
        ConflictError: there is something where a part would go.
        StorageError: the disk is full or the folder cannot be written.
    """
    if unknown := [part for part in parts if part not in PARTS]:
        raise ConfigurationError(
            f"There is no part {unknown[0]!r}.{near_matches(unknown[0], PARTS)}", remedy=f"Parts: {', '.join(PARTS)}."
        )
    parts = list(dict.fromkeys(parts))
    model = FinalModel.opened(folder)
    signature = signature_of(model, classes=classes, as_samples=as_samples)
    texts = {f"{part}/{name}": text for part in parts for name, text in rendered(part, signature).items()}
    kept = {}
    for part in parts:
        names = [name.removeprefix(f"{part}/") for name in texts if name.startswith(f"{part}/")]
        if not (replace and _is_generated(into / part, names)):
            _require_free(into / part, replace)
        places = (into / f"{part}{BEFORE}{'' if one == 1 else f'-{one}'}" for one in count(1))
        kept[part] = next(one for one in places if not os.path.lexists(one) or _is_generated(one, names))
    _write(model, into, kept, texts)
    return [into / part for part in parts]


def _write(model: FinalModel, into: Path, kept: dict[str, Path], texts: dict[str, str]) -> None:
    """Write texts and the served files below `into`, whole parts or none. Raises StorageError, ConfigurationError.

    Args:
        kept: of each part, where the one that is there is kept.
    """
    was_there = into.is_dir()
    try:
        into.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(prefix=".deploy-", dir=into) as building:
            write_generated(Path(building), texts)
            if "service" in kept:
                _take_along(model, Path(building) / "service" / MODEL)
            _move(Path(building), into, kept)
    except OSError as error:
        raise StorageError(
            f"{into} cannot be written: {error.strerror or error}.", remedy="Name another folder: --into DIR."
        ) from error
    finally:
        if not was_there and into.is_dir() and not any(into.iterdir()):
            into.rmdir()


def _require_free(target: Path, replace: bool) -> None:
    if target.is_symlink() or (target.exists() and not (target.is_dir() and not any(target.iterdir()))):
        what = ", and no generated part" if replace else ""
        advised = "" if replace else "replace generated parts with --replace, "
        raise ConflictError(
            f"{target} is there already{what}; generated files never replace others.",
            remedy=f"Name another folder with --into, {advised}or move this one away.",
        )


def _is_generated(target: Path, names: Sequence[str]) -> bool:
    """Whether a folder has every file that is generated for its part: another one of the user's is never replaced."""
    return not target.is_symlink() and all((target / name).is_file() for name in names)


def _take_along(model: FinalModel, target: Path) -> None:
    """Copy the served files, which the service compares with their digests when it starts."""
    for name in model.digests:
        (target / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(model.folder / name, target / name)


def _move(building: Path, into: Path, places: dict[str, Path]) -> None:
    """Put every part in its place, those there before beside; where one fails, all is as it was. Raises OSError."""
    moved: list[Path] = []
    kept: dict[Path, Path] = {}
    try:
        for part, before in places.items():
            target = into / part
            if target.is_dir() and any(target.iterdir()):
                shutil.rmtree(before, ignore_errors=True)
                kept[target] = target.rename(before)
            moved.append(target)
            (building / part).rename(target)  # takes the place of an empty folder only
    except OSError:
        for target in moved:
            shutil.rmtree(target, ignore_errors=True)
        for target, before in kept.items():
            before.rename(target)
        raise
