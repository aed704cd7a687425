"""Bringing the database to the current schema. Alembic is imported only when there is something to do."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

from filelock import FileLock, Timeout

from trainwright.tools.workspace.presence import locked
from trainwright.trainer.base.errors import IntegrityError
from trainwright.trainer.data.remote.query import sqlite_url

HEAD = "0005"
"""The newest revision under migrations/versions."""


def upgrade_if_needed(database: Path, patience_seconds: float) -> None:
    """Create or migrate the database. Several processes may call this at once.

    Raises:
        IntegrityError: the file is not a database, or was written by a newer program.
        StorageError: another program holds it for longer than this waits.
    """
    if _revision(database, patience_seconds) == HEAD:
        return
    try:
        with FileLock(database.with_suffix(".upgrade.lock"), timeout=patience_seconds):
            _upgrade_alone(database, patience_seconds)
    except Timeout as error:
        raise locked(database) from error


def _upgrade_alone(database: Path, patience_seconds: float) -> None:
    revision = _revision(database, patience_seconds)
    if revision == HEAD:
        return
    if revision is not None and revision > HEAD:
        raise IntegrityError(
            f"The workspace has schema {revision}; this Trainwright knows up to {HEAD}.",
            remedy="Upgrade Trainwright, or open another workspace with --workspace DIR.",
        )
    _upgrade(database)


def _upgrade(database: Path) -> None:
    from alembic import command
    from alembic.config import Config

    config = Config()
    here = str(Path(__file__).parent / "migrations")
    config.set_main_option("script_location", here.replace("%", "%%"))  # the parser of ini files reads it
    config.attributes["url"] = sqlite_url(database)
    command.upgrade(config, HEAD)


def _revision(database: Path, patience_seconds: float) -> str | None:
    if not database.exists():
        return None
    try:
        with closing(sqlite3.connect(database, timeout=patience_seconds)) as connection:
            row = connection.execute("SELECT version_num FROM alembic_version").fetchone()
    except sqlite3.OperationalError as error:
        if "locked" in str(error) or "busy" in str(error):
            raise locked(database) from error
        return None
    except sqlite3.DatabaseError as error:
        raise IntegrityError(
            f"{database.name} is not a workspace database: {error}.",
            remedy="Restore it from a backup, or open another workspace with --workspace DIR.",
        ) from error
    return str(row[0]) if row else None
