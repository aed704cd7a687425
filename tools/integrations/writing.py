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
MODEL = "model"
"""Folder of the service with the model's files, unchanged."""


def deploy(
    folder: Path,
    into: Path,
    parts: Sequence[str] = PARTS,
    *,
    classes: Sequence[str] | None = None,
    as_samples: bool = False,
) -> list[Path]:
    """Write a released model's parts, each into a folder of its name below `into`; return these folders.

    Args:
        folder: `final_model/`, or the folder above it.
        classes, as_samples: as `signature_of` takes them.

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
    for part in parts:
        _require_free(into / part)
    texts = {f"{part}/{name}": text for part in parts for name, text in rendered(part, signature).items()}
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
            remedy="Name another folder with --into, or move this one away.",
        )


def _take_along(model: FinalModel, target: Path) -> None:
    """Copy the served files, which the service compares with their digests when it starts."""
    target.mkdir()
    for name in model.digests:
        shutil.copyfile(model.folder / name, target / name)


def _move(building: Path, into: Path, parts: Sequence[str]) -> None:
    """Put every part in its place; where one fails, none is left. Raises OSError."""
    moved: list[Path] = []
    try:
        for part in parts:
            (building / part).rename(into / part)  # takes the place of an empty folder only
            moved.append(into / part)
    except OSError:
        for target in moved:
            shutil.rmtree(target, ignore_errors=True)
        raise
