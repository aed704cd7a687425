"""Opening a workspace, its database and its folders. Several servers may have one workspace open at once."""

from __future__ import annotations

import re
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cached_property
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from sqlalchemy import create_engine, event
from sqlalchemy.exc import DatabaseError, OperationalError
from sqlalchemy.orm import Session, sessionmaker

from trainwright.tools.workspace.open_checks import copy_database, is_archived, locked, require_database
from trainwright.tools.workspace.query_cache import AFTER_COMMIT, BEFORE_COMMIT, OPENED_BY, READ_ONLY, Kept
from trainwright.tools.workspace.schema_version import make_if_missing
from trainwright.tools.workspace.settings import Settings
from trainwright.tools.workspace.signing import Signer
from trainwright.trainer.base.errors import ConfigurationError, IntegrityError, StorageError
from trainwright.trainer.data.remote.query import sqlite_url
from trainwright.trainer.run import RunDirectory

DATABASE = "workspace.sqlite"
NAME = re.compile(r"[a-z0-9][a-z0-9_-]{0,62}")
PATIENCE_SECONDS = 8.0
"""How long a call waits for a database that another program holds: an answer comes within ten seconds."""

TURN_SECONDS = 60.0
"""How long a thread waits for those of its own process before it."""


class Workspace:
    """One workspace folder: `.settings`, `.session()`, and the paths of projects and runs."""

    def __init__(
        self, path: Path, settings: Settings, *, patience_seconds: float = PATIENCE_SECONDS,
        copy: TemporaryDirectory[str] | None = None,
    ) -> None:  # fmt: skip
        self.path = path
        self.settings = settings
        self._copy = copy
        self._database = (path if copy is None else Path(copy.name)) / DATABASE
        self._engine = create_engine(sqlite_url(self._database), connect_args={"timeout": patience_seconds})
        event.listen(self._engine, "connect", _prepare_connection)
        event.listen(self._engine, "begin", _begin_immediately)
        self._sessions = sessionmaker(self._engine, expire_on_commit=False)
        self._turns = threading.Lock()
        self.kept = Kept(self._database)
        """Query results, until their sources change."""

    @classmethod
    def open(cls, path: Path, *, patience_seconds: float | None = None) -> Workspace:
        """Open the workspace, making folder and database where they are missing.

        One whose folder cannot be written is opened for reading (`is_archived`).

        Args:
            patience_seconds: how long to wait for a database that another program holds.

        Raises:
            StorageError: the folder cannot be made or written, or the database is locked.
            IntegrityError: the database is damaged, missing beside its projects, or of another schema.
        """
        path = path.expanduser().resolve()
        patience = PATIENCE_SECONDS if patience_seconds is None else patience_seconds
        if is_archived(path, DATABASE):
            copy = copy_database(path, DATABASE)
            make_if_missing(Path(copy.name) / DATABASE, patience)
            return cls(path, Settings.load(path, make=False), copy=copy)
        try:
            (path / "projects").mkdir(parents=True, exist_ok=True)
            settings = Settings.load(path)
        except OSError as error:
            raise StorageError(
                f"The workspace {path} cannot be made: {error.strerror}.",
                remedy="Give a writable one with --workspace DIR or TRAINWRIGHT_HOME; `trainwright doctor` checks it.",
            ) from error
        require_database(path / DATABASE)
        make_if_missing(path / DATABASE, patience)
        return cls(path, settings, patience_seconds=patience)

    def close(self) -> None:
        """Let the database go."""
        self.kept.close()
        self._engine.dispose()
        if self._copy is not None:
            self._copy.cleanup()

    @property
    def is_archived(self) -> bool:
        """Whether the workspace can only be read."""
        return self._copy is not None

    def require_writable(self) -> None:
        """Raise StorageError when nothing can be decided or recorded here."""
        if self.is_archived:
            raise StorageError(
                f"The workspace {self.path} cannot be written: it is archived.",
                remedy="Look at it with project_status, `trainwright verify` or read_document; to work on, copy it "
                "to a place that can be written and name that with --workspace DIR.",
            )

    @cached_property
    def signer(self) -> Signer | None:
        """The owner's signing key, if there is one. Raises NotFoundError, ConfigurationError."""
        from trainwright.tools.workspace.signing import load_signer  # the ledger is built on the workspace

        return load_signer(self.path)

    @contextmanager
    def session(self) -> Iterator[Session]:
        """Give a session that holds the write lock from its start, commits at the end, and rolls back on any error.

        Because it begins with BEGIN IMMEDIATE, what is read in it cannot change before it is written.
        """
        with self._told(), self._sessions(info={OPENED_BY: self}) as session:
            with self._turn(), session.begin():
                session.connection()  # begins here, not at the first query: files are read and moved under the lock too
                yield session
                for act in session.info.pop(BEFORE_COMMIT, {}).values():
                    act(self)
            for act in session.info.pop(AFTER_COMMIT, {}).values():
                act(self)

    @contextmanager
    def _turn(self) -> Iterator[None]:
        """Wait for this process's other threads: SQLite would let them try again unfairly, until one gives up."""
        has_turn = self._turns.acquire(timeout=TURN_SECONDS)
        try:
            yield
        finally:
            if has_turn:
                self._turns.release()

    @contextmanager
    def snapshot(self) -> Iterator[Session]:
        """Give a session that reads the database as of its first query and blocks no writer."""
        engine = self._engine.execution_options(**{READ_ONLY: True})
        with self._told(), Session(engine, expire_on_commit=False, info={OPENED_BY: self, READ_ONLY: True}) as session:
            yield session

    @contextmanager
    def _told(self) -> Iterator[None]:
        """Translate the database's errors into ours."""
        try:
            yield
        except OperationalError as error:
            if "locked" in str(error.orig) or "busy" in str(error.orig):
                raise locked(self._database) from error
            raise StorageError(
                f"The workspace database could not be written: {error.orig}.",
                remedy="Free disk space and call again; nothing was changed.",
            ) from error
        except DatabaseError as error:
            if "malformed" in str(error) or "not a database" in str(error):
                raise IntegrityError(
                    f"The workspace database is damaged: {error.orig}.",
                    remedy="Restore workspace.sqlite from a backup, or move it away and `trainwright rebuild` makes it "
                    "again from the JSONL mirrors; run directories are intact beside it.",
                ) from error
            raise

    def refreshed(self) -> Workspace:
        """Re-read the owner's settings: a change holds from the next call on."""
        self.settings = Settings.load(self.path, make=not self.is_archived)
        return self

    def project_folder(self, project: str) -> Path:
        """Return the project's folder. Raises ConfigurationError on a name that is not a plain word."""
        return self.path / "projects" / checked_name(project)

    def run_folder(self, project: str, run_id: str) -> Path:
        """Return the folder of a run, which need not exist. Raises ConfigurationError as `project_folder`."""
        return self.project_folder(project) / "runs" / checked_name(run_id)

    def run_directory(self, project: str, run_id: str) -> RunDirectory:
        """Return the record of a run, which need not exist."""
        return RunDirectory(self.run_folder(project, run_id))


def checked_name(name: str) -> str:
    """Return the name if it is safe as a folder name. Raises ConfigurationError."""
    if not NAME.fullmatch(name):
        raise ConfigurationError(
            f"{name[:80]!r} is not a valid name.",
            remedy="Use 1 to 63 of a-z, 0-9, '-' and '_', beginning with a letter or digit.",
            details={"amend": {"name": meant}}
            if "/" not in name and NAME.fullmatch(meant := _plain_name(name))
            else {},
        )
    return name


def _plain_name(name: str) -> str:
    """Return the name nearest to one that is refused: `My Project` is my-project."""
    return re.sub(r"[^a-z0-9_]+", "-", name.lower()).strip("-_")[:63]


def _prepare_connection(connection: Any, _: object) -> None:
    connection.isolation_level = None  # SQLAlchemy's `begin` event below emits BEGIN IMMEDIATE instead
    for pragma in ("journal_mode=WAL", "synchronous=FULL", "foreign_keys=ON"):
        connection.execute(f"PRAGMA {pragma}").close()


def _begin_immediately(connection: Any) -> None:
    reads_only = connection.get_execution_options().get(READ_ONLY)
    connection.exec_driver_sql("BEGIN" if reads_only else "BEGIN IMMEDIATE")
