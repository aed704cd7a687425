"""Bringing the database to the present schema: tables.py's tables and columns, and the triggers on the ledger."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

from filelock import FileLock, Timeout
from sqlalchemy import Connection, create_engine, inspect, text
from sqlalchemy.schema import CreateColumn

from trainwright.tools.workspace.presence import locked
from trainwright.tools.workspace.tables import Base
from trainwright.trainer.base.errors import IntegrityError
from trainwright.trainer.data.remote.query import sqlite_url

SCHEMA = 5
"""The present schema; a database keeps its own in SQLite's `user_version`. Raise it with every change of tables.py."""


def upgrade_if_needed(database: Path, patience_seconds: float) -> None:
    """Create the database, or add what its schema lacks. Several processes may call this at once.

    Raises:
        IntegrityError: the file is not a database, or was written by a newer program.
        StorageError: another program holds it for longer than this waits.
    """
    if _schema(database, patience_seconds) == SCHEMA:
        return
    try:
        with FileLock(database.with_suffix(".upgrade.lock"), timeout=patience_seconds):
            _upgrade_alone(database, patience_seconds)
    except Timeout as error:
        raise locked(database) from error


def _upgrade_alone(database: Path, patience_seconds: float) -> None:
    schema = _schema(database, patience_seconds)
    if schema == SCHEMA:
        return
    if schema > SCHEMA:
        raise IntegrityError(
            f"The workspace has schema {schema}; this Trainwright knows up to {SCHEMA}.",
            remedy="Upgrade Trainwright, or open another workspace with --workspace DIR.",
        )
    engine = create_engine(sqlite_url(database))
    with engine.begin() as connection:
        _upgrade(connection)
    engine.dispose()


def _upgrade(connection: Connection) -> None:
    """Add missing tables, columns and triggers, and last the schema's number: a killed upgrade is made again."""
    Base.metadata.create_all(connection)
    for table in Base.metadata.sorted_tables:
        present = {column["name"] for column in inspect(connection).get_columns(table.name)}
        for column in table.columns:
            if column.name not in present:
                definition = CreateColumn(column).compile(dialect=connection.dialect)
                connection.execute(text(f"ALTER TABLE {table.name} ADD COLUMN {definition}"))
    for action in ("UPDATE", "DELETE"):
        trigger = f"CREATE TRIGGER IF NOT EXISTS ledger_no_{action.lower()} BEFORE {action} ON ledger"
        connection.execute(text(f"{trigger} BEGIN SELECT RAISE(ABORT, 'the ledger is append-only'); END"))
    connection.execute(text(f"PRAGMA user_version = {SCHEMA}"))


def _schema(database: Path, patience_seconds: float) -> int:
    """Return the database's schema; 0 where there is none yet."""
    if not database.exists():
        return 0
    try:
        with closing(sqlite3.connect(database, timeout=patience_seconds)) as connection:
            return int(connection.execute("PRAGMA user_version").fetchone()[0])
    except sqlite3.OperationalError as error:
        if "locked" in str(error) or "busy" in str(error):
            raise locked(database) from error
        return 0
    except sqlite3.DatabaseError as error:
        raise IntegrityError(
            f"{database.name} is not a workspace database: {error}.",
            remedy="Restore it from a backup, or open another workspace with --workspace DIR.",
        ) from error
