"""Copying an example into a user's folder: all of its files or none, and nothing that is there is touched."""

from __future__ import annotations

import re
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path

from trainwright.tools.examples.catalogue import Example, Package
from trainwright.trainer.base.errors import ConflictError, NotFoundError, StorageError
from trainwright.trainer.run import write_generated

SUFFIXES = frozenset({".md", ".py", ".yaml"})
NAMED = 3
"""Entries of a folder in use that a refusal names."""


def copy_example(example: Example, into: Path) -> list[Path]:
    """Copy an example's files into a folder, which is made where it is not there, and return their paths.

    Raises:
        NotFoundError: a package that it needs is not installed.
        ConflictError: the folder holds something, or is a file.
        StorageError: the disk is full or the folder cannot be written.
    """
    require_packages(example)
    _require_empty(example, into)
    texts = {
        path.relative_to(example.folder).as_posix(): path.read_text(encoding="utf-8")
        for path in sorted(example.folder.rglob("*"))
        if path.suffix in SUFFIXES and path.is_file()
    }
    try:
        into.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise StorageError(
            f"{into} cannot be made: {error.strerror}.",
            remedy=f"trainwright example {example.name} --into another folder.",
        ) from error
    return write_generated(into, texts)


def _require_empty(example: Example, into: Path) -> None:
    if into.is_dir():
        found = sorted(path.name for path in into.iterdir())
        what = f"is not empty: {', '.join(found[:NAMED])}{', …' if len(found) > NAMED else ''}"
    else:
        found, what = [""] if into.exists() else [], "is a file"
    if found:
        raise ConflictError(
            f"{into} {what}. An example is copied into an empty folder only; nothing was changed.",
            remedy=f"trainwright example {example.name} --into {_free(into)}",
        )


def _free(into: Path) -> Path:
    """Return a name beside the folder's that is not taken."""
    number = 2
    while (free := into.with_name(f"{into.name}-{number}")).exists():
        number += 1
    return free


# Packages that an example needs beyond the base install: which are missing, and the command that installs them.

NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")


def missing_packages(example: Example) -> list[Package]:
    """Return the example's packages that are not installed in this environment."""
    return [package for package in example.packages if not _is_installed(package.requirement)]


def require_packages(example: Example) -> None:
    """Raise NotFoundError with the command to install them where packages are missing."""
    missing = missing_packages(example)
    if missing:
        wanted = " ".join(f"'{package.requirement}'" for package in missing)
        raise NotFoundError(
            f"The example {example.name} needs {', '.join(package.requirement for package in missing)}, which "
            f"{'is' if len(missing) == 1 else 'are'} not installed; nothing was copied.",
            remedy=f"pip install {wanted}, and make the same call again.",
            details={"missing": [package.requirement for package in missing]},
        )


def _is_installed(requirement: str) -> bool:
    found = NAME.match(requirement)
    try:
        return found is not None and bool(distribution(found[0]))
    except PackageNotFoundError:
        return False
