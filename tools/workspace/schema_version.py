"""Making the database in the present schema: tables.py's tables, columns and indexes, and the ledger's triggers."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

from filelock import FileLock, Timeout
from sqlalchemy import Connection, create_engine, inspect, text
from sqlalchemy.exc import OperationalError

from trainwright.tools.workspace.open_checks import locked
from trainwright.tools.workspace.tables import Base, LedgerEntry
from trainwright.trainer.base.errors import IntegrityError
from trainwright.trainer.data.remote.query import sqlite_url

SCHEMA = 5
"""The present schema; a database keeps its own in SQLite's `user_version`. Raise it with every change of tables.py."""
MAX_NAMED = 5


def make_if_missing(database: Path, patience_seconds: float) -> None:
    """Create the database where there is none, or an empty one. Several processes may call this at once.

    Raises:
        IntegrityError: the file is not a database, is another program's, or has another schema.
        StorageError: another program holds it for longer than this waits.
    """
    if _schema(database, patience_seconds) == SCHEMA:
        return
    try:
        with FileLock(database.with_suffix(".upgrade.lock"), timeout=patience_seconds):
            if (schema := _schema(database, patience_seconds)) != SCHEMA:
                _make_alone(database, schema, patience_seconds)
    except Timeout as error:
        raise locked(database) from error


def _make_alone(database: Path, schema: int, patience_seconds: float) -> None:
    engine = create_engine(
        sqlite_url(database), isolation_level="AUTOCOMMIT", connect_args={"timeout": patience_seconds}
    )
    try:
        with engine.connect() as connection:
            connection.exec_driver_sql("BEGIN IMMEDIATE")  # sqlite3 itself begins none before CREATE
            if present := inspect(connection).get_table_names():
                raise _refusal(database, schema, present)
            _make(connection)
            connection.exec_driver_sql("COMMIT")
    except OperationalError as error:
        if "locked" in str(error.orig) or "busy" in str(error.orig):
            raise locked(database) from error
        raise
    finally:
        engine.dispose()


def _make(connection: Connection) -> None:
    """Create the tables, indexes and triggers, and set the schema's number, in the connection's transaction."""
    Base.metadata.create_all(connection)
    for action in ("UPDATE", "DELETE"):
        trigger = f"CREATE TRIGGER ledger_no_{action.lower()} BEFORE {action} ON ledger"
        connection.execute(text(f"{trigger} BEGIN SELECT RAISE(ABORT, 'the ledger is append-only'); END"))
    connection.execute(text(f"PRAGMA user_version = {SCHEMA}"))


def _refusal(database: Path, schema: int, present: list[str]) -> IntegrityError:
    """Return the error for a database of these tables, whose schema is not the present one."""
    if LedgerEntry.__tablename__ not in present:
        return IntegrityError(
            f"{database.name} holds the tables {', '.join(sorted(present)[:MAX_NAMED])}, and no ledger, which every "
            "database of a workspace has: another program made it. Nothing was written.",
            remedy="Move it away, or open another folder with --workspace DIR.",
        )
    newer = "Upgrade Trainwright. Or move" if schema > SCHEMA else "Move"
    return IntegrityError(
        f"{database.name} has schema {schema}; this Trainwright reads schema {SCHEMA}. Nothing was written.",
        remedy=f"{newer} it away: `trainwright rebuild {database.parent}` makes it again from the JSONL mirrors. Or "
        "open another folder with --workspace DIR.",
    )


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
