"""Presence of a workspace: its folder and database, and archives that can only be read.

SQLite's log must be folded in, and an older schema upgraded, before its database can be read: in a private copy.
"""

from __future__ import annotations

import os
import shutil
import sqlite3
import tempfile
from contextlib import closing
from pathlib import Path

from trainwright.trainer.base.errors import ConflictError, IntegrityError, StorageError


def is_archived(path: Path, database: str) -> bool:
    """Return whether the folder holds a workspace that this user cannot write."""
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


LEDGER = "ledger.jsonl"
MAX_HOLDERS = 3


def require_database(database: Path) -> None:
    """Refuse to begin a new workspace where JSONL mirrors of an old one exist.

    Raises IntegrityError with both ways back.
    """
    folder = database.parent
    copies = [*folder.glob(f"projects/*/{LEDGER}"), folder / LEDGER]
    mirrors = [path for path in copies if path.is_file() and path.stat().st_size]
    if not mirrors or _has_entries(database):  # in this order: a mirror is written after its entry is committed
        return
    state = "empty" if database.exists() else "missing"
    raise IntegrityError(
        f"The database {database.name} is {state}, and {len(mirrors)} JSONL mirrors beside it have entries.",
        remedy=f"Restore {database.name} from a backup; or `trainwright rebuild {folder}` rebuilds it from the JSONL "
        "mirrors. Nothing was changed.",
    )


def _has_entries(database: Path) -> bool:
    if not database.exists():
        return False
    try:
        with closing(sqlite3.connect(f"{database.as_uri()}?mode=ro", uri=True)) as connection:
            return connection.execute("SELECT 1 FROM ledger LIMIT 1").fetchone() is not None
    except sqlite3.OperationalError as error:
        return "no such table" not in str(error)  # locked, or a failing disk: opening it reports that
    except sqlite3.DatabaseError:
        return True  # damaged: opening it reports that


def locked(database: Path) -> StorageError:
    """Return the error for a locked database, naming the program that holds it where that is visible."""
    found = holders(database)
    who = f"by {', '.join(found)}" if found else "by another program: a server, a backup, a viewer of databases"
    return StorageError(
        f"The workspace's database {database.name} is locked {who}. Nothing was changed.",
        remedy="Call again: a gate that reads large files may take a minute. If it stays locked, end what holds it.",
    )


def holders(database: Path) -> list[str]:
    """Return the processes that hold the database for writing, as `process 12 (python -m …)`; none where unknown."""
    files = [database, database.with_name(f"{database.name}-shm"), database.with_name(f"{database.name}-wal")]
    try:
        inodes = {str(path.stat().st_ino) for path in files if path.exists()}
        lines = [line.split() for line in Path("/proc/locks").read_text(encoding="ascii").splitlines()]
    except (OSError, ValueError):
        return []
    held = {int(line[4]) for line in lines if line[3:4] == ["WRITE"] and line[5].rpartition(":")[2] in inodes}
    return [f"process {number} ({_command(number)})" for number in sorted(held - {os.getpid()})][:MAX_HOLDERS]


def _command(number: int) -> str:
    try:
        words = Path(f"/proc/{number}/cmdline").read_bytes().decode(errors="replace").split("\0")
    except OSError:
        return "ended meanwhile"
    return " ".join(words).strip()[:80]


def require_lost(database: Path) -> None:
    """Raise ConflictError when the database is there and its ledger can be read: then nothing needs to be rebuilt."""
    if not database.exists():
        return
    try:
        with closing(sqlite3.connect(f"{database.as_uri()}?mode=ro", uri=True)) as connection:
            (count,) = connection.execute("SELECT COUNT(*) FROM ledger").fetchone()
    except sqlite3.DatabaseError as error:
        if "locked" in str(error):
            raise locked(database) from error
        return
    if count:
        raise ConflictError(
            f"{database.name} is there, and holds {count} ledger entries.",
            remedy=f"`trainwright verify {database.parent}` compares it; move it away first if it must be made anew.",
        )
