"""Workspaces that cannot be written: archived on a read-only disk, or another user's. They can be looked at.

SQLite's log must be folded in, and an older schema upgraded, before its database can be read: in a private copy.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from pathlib import Path

from trainwright.trainer.base.errors import StorageError


def is_archived(path: Path, database: str) -> bool:
    """Return whether the folder holds a workspace that nobody here can write."""
    return (path / database).is_file() and not os.access(path, os.W_OK)


def copy_database(path: Path, database: str) -> tempfile.TemporaryDirectory[str]:
    """Copy the database with its log into a temporary folder. Raises StorageError."""
    copy = tempfile.TemporaryDirectory(prefix="trainwright-")
    try:
        for name in (database, f"{database}-wal"):
            if (path / name).exists():
                shutil.copyfile(path / name, Path(copy.name) / name)
    except OSError as error:
        copy.cleanup()
        raise StorageError(
            f"The workspace {path} cannot be written, and its database cannot be copied to look at: {error.strerror}.",
            remedy="Make its files readable, and leave room for the database in the folder that TMPDIR names.",
        ) from error
    return copy
