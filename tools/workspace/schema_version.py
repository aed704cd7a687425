"""Bringing the database to the present schema: tables.py's tables, columns and indexes, and the ledger's triggers."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

from filelock import FileLock, Timeout
from sqlalchemy import Connection, Table, create_engine, inspect, text
from sqlalchemy.exc import OperationalError
from sqlalchemy.schema import CreateColumn

from trainwright.tools.workspace.presence import locked
from trainwright.tools.workspace.tables import Base, LedgerEntry
from trainwright.trainer.base.errors import IntegrityError
from trainwright.trainer.data.remote.query import sqlite_url

SCHEMA = 5
"""The present schema; a database keeps its own in SQLite's `user_version`. Raise it with every change of tables.py."""
MOST_NAMED = 5


def upgrade_if_needed(database: Path, patience_seconds: float) -> None:
    """Create the database, or add what its schema lacks. Several processes may call this at once.

    Raises:
        IntegrityError: the file is not a database, is another program's, or was written by a newer Trainwright; or it
            lacks a column whose values nothing tells.
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
    engine = create_engine(
        sqlite_url(database), isolation_level="AUTOCOMMIT", connect_args={"timeout": patience_seconds}
    )
    try:
        with engine.connect() as connection:
            connection.exec_driver_sql("BEGIN IMMEDIATE")  # sqlite3 itself begins none before CREATE
            _upgrade(connection, database)
            connection.exec_driver_sql("COMMIT")
    except OperationalError as error:
        if "locked" in str(error.orig) or "busy" in str(error.orig):
            raise locked(database) from error
        raise
    finally:
        engine.dispose()


def _upgrade(connection: Connection, database: Path) -> None:
    """Add missing tables, columns, indexes and triggers, and the schema's number, in the connection's transaction."""
    present = inspect(connection).get_table_names()
    if present and LedgerEntry.__tablename__ not in present:
        raise IntegrityError(
            f"{database.name} holds the tables {', '.join(sorted(present)[:MOST_NAMED])}, and no ledger, which every "
            "database of a workspace has: another program made it. Nothing was written.",
            remedy="Move it away, or open another folder with --workspace DIR.",
        )
    Base.metadata.create_all(connection)
    for table in Base.metadata.sorted_tables:
        _complete(connection, table, database)
    for action in ("UPDATE", "DELETE"):
        trigger = f"CREATE TRIGGER IF NOT EXISTS ledger_no_{action.lower()} BEFORE {action} ON ledger"
        connection.execute(text(f"{trigger} BEGIN SELECT RAISE(ABORT, 'the ledger is append-only'); END"))
    connection.execute(text(f"PRAGMA user_version = {SCHEMA}"))


def _complete(connection: Connection, table: Table, database: Path) -> None:
    """Add the columns and indexes that a table lacks. Raises IntegrityError where its rows would have no value."""
    present = {column["name"] for column in inspect(connection).get_columns(table.name)}
    for column in table.columns:
        if column.name in present:
            continue
        if not column.nullable and column.server_default is None:
            raise IntegrityError(
                f"{database.name} lacks the column {table.name}.{column.name}: no row may be without a value there, "
                "and nothing says which it would be. Nothing was written.",
                remedy=f"Restore {database.name} from a backup. Or move it away: `trainwright rebuild "
                f"{database.parent}` makes it again where there are JSONL mirrors; if it is another program's, open "
                "another folder with --workspace DIR.",
            )
        definition = CreateColumn(column).compile(dialect=connection.dialect)
        connection.execute(text(f"ALTER TABLE {table.name} ADD COLUMN {definition}"))
    for index in table.indexes:
        index.create(connection, checkfirst=True)


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
