"""The user's functions that turn raw inputs into samples, and outputs into answers, and the files that they need."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from trainwright.trainer.base.imports import imported_files
from trainwright.trainer.user_code.import_record import meanings_of

CODE = "code"
"""Folder of the user's source below a final model's."""


def served_meanings(entries: Sequence[str], root: Path) -> dict[str, str]:
    """Return the digest of what each file of these functions means, those that they import included, by its name.

    A comment that was added changes none. A file that is not there is left out.
    """
    root = root.resolve()
    named = [(root / entry.partition(":")[0]).resolve() for entry in entries]
    places = [path for path in named if path.is_file() and path.is_relative_to(root)]
    files = dict.fromkeys(file for path in places for file in imported_files(path, root))
    return meanings_of({file.relative_to(root).as_posix(): file.read_bytes() for file in files})
