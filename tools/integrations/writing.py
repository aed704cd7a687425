"""Writing the parts of a deployment into a folder: all of them or none, and never over what is there."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Sequence
from pathlib import Path

from trainwright.tools.integrations.final_model import FinalModel
from trainwright.tools.integrations.rendering import rendered
from trainwright.tools.integrations.signature import signature_of
from trainwright.trainer.base.errors import ConfigurationError, ConflictError, StorageError, near_matches
from trainwright.trainer.run import write_generated

PARTS = ("service", "form", "database", "client")
BEFORE = ".before"
"""End of the folder's name in which a replaced part is kept, until the next one is."""
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
    for part in parts:
        if not (replace and _is_generated(into / part, [name for name in texts if name.startswith(f"{part}/")])):
            _require_free(into / part)
    _write(model, into, parts, texts)
    return [into / part for part in parts]


def _write(model: FinalModel, into: Path, parts: Sequence[str], texts: dict[str, str]) -> None:
    """Write texts and the served files below `into`, whole parts or none. Raises StorageError, ConfigurationError."""
    was_there = into.is_dir()
    try:
        into.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(prefix=".deploy-", dir=into) as building:
            write_generated(Path(building), texts)
            if "service" in parts:
                _take_along(model, Path(building) / "service" / MODEL)
            _move(Path(building), into, parts)
    except OSError as error:
        raise StorageError(
            f"{into} cannot be written: {error.strerror or error}.", remedy="Name another folder: --into DIR."
        ) from error
    finally:
        if not was_there and into.is_dir() and not any(into.iterdir()):
            into.rmdir()


def _require_free(target: Path) -> None:
    if target.is_symlink() or (target.exists() and not (target.is_dir() and not any(target.iterdir()))):
        raise ConflictError(
            f"{target} is there already; generated files never replace others.",
            remedy="Name another folder with --into, replace generated parts with --replace, or move this one away.",
        )


def _is_generated(target: Path, names: Sequence[str]) -> bool:
    """Whether a folder has every file that is generated for its part: another one of the user's is never replaced."""
    return not target.is_symlink() and all((target.parent / name).is_file() for name in names)


def _take_along(model: FinalModel, target: Path) -> None:
    """Copy the served files, which the service compares with their digests when it starts."""
    target.mkdir()
    for name in model.digests:
        shutil.copyfile(model.folder / name, target / name)


def _move(building: Path, into: Path, parts: Sequence[str]) -> None:
    """Put every part in its place, those there before beside; where one fails, all is as it was. Raises OSError."""
    moved: list[Path] = []
    kept: list[Path] = []
    try:
        for part in parts:
            target, before = into / part, into / f"{part}{BEFORE}"
            if target.is_dir() and any(target.iterdir()):
                shutil.rmtree(before, ignore_errors=True)
                kept.append(target.rename(before))
            moved.append(target)
            (building / part).rename(target)  # takes the place of an empty folder only
    except OSError:
        for target in moved:
            shutil.rmtree(target, ignore_errors=True)
        for before in kept:
            before.rename(into / before.name.removesuffix(BEFORE))
        raise
