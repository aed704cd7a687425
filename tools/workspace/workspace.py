"""Opening a workspace, its database and its folders. Several servers may have one workspace open at once."""

from __future__ import annotations

import re
from contextlib import contextmanager
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sqlalchemy import create_engine, event
from sqlalchemy.exc import DatabaseError, OperationalError
from sqlalchemy.orm import Session, sessionmaker

from trainwright.tools.workspace.schema_version import upgrade_if_needed
from trainwright.tools.workspace.settings import Settings
from trainwright.trainer.errors import ConfigurationError, IntegrityError, StorageError
from trainwright.trainer.run import RunDirectory

if TYPE_CHECKING:
    from collections.abc import Iterator

    from trainwright.tools.ledger.signing import Signer

DATABASE = "workspace.sqlite"
NAME = re.compile(r"[a-z0-9][a-z0-9_-]{0,62}")
BUSY_MILLISECONDS = 30_000
BEFORE_COMMIT, AFTER_COMMIT = "before_commit", "after_commit"
"""Keys in a session's `info`: {key: function of the workspace} to call at the end of the session, and after it."""
READ_ONLY = "read_only"
"""Option of a connection that takes no write lock."""
OPENED_BY = "workspace"
"""Key in a session's `info`: its workspace."""


class Workspace:
    """One workspace folder: `.settings`, `.session()`, and where projects and runs stand."""

    def __init__(self, path: Path, settings: Settings) -> None:
        self.path = path
        self.settings = settings
        self._engine = create_engine(f"sqlite:///{path / DATABASE}")
        event.listen(self._engine, "connect", _prepare_connection)
        event.listen(self._engine, "begin", _begin_immediately)
        self._sessions = sessionmaker(self._engine, expire_on_commit=False)

    @classmethod
    def open(cls, path: Path) -> Workspace:
        """Open the workspace, making the folder and bringing its database up to date.

        Raises:
            StorageError: the folder cannot be made or written.
            IntegrityError: the database is damaged or newer than this program.
        """
        path = path.expanduser().resolve()
        try:
            (path / "projects").mkdir(parents=True, exist_ok=True)
            settings = Settings.load(path)
        except OSError as error:
            raise StorageError(
                f"The workspace {path} cannot be made: {error.strerror}.",
                remedy="Give a writable one with --workspace DIR or TRAINWRIGHT_HOME; `trainwright doctor` checks it.",
            ) from error
        upgrade_if_needed(path / DATABASE)
        return cls(path, settings)

    def close(self) -> None:
        """Let the database go."""
        self._engine.dispose()

    @cached_property
    def signer(self) -> Signer | None:
        """The owner's signing key, if there is one. Raises NotFoundError, ConfigurationError."""
        from trainwright.tools.ledger.signing import load_signer  # the ledger is built on the workspace

        return load_signer(self.path)

    @contextmanager
    def session(self) -> Iterator[Session]:
        """Give a session that holds the write lock from its start, commits at the end, and rolls back on any error.

        Because it begins with BEGIN IMMEDIATE, what is read in it cannot change before it is written.
        """
        with _told(), self._sessions(info={OPENED_BY: self}) as session:
            with session.begin():
                session.connection()  # begins here, not at the first query: files are read and moved under the lock too
                yield session
                for act in session.info.pop(BEFORE_COMMIT, {}).values():
                    act(self)
            for act in session.info.pop(AFTER_COMMIT, {}).values():
                act(self)

    @contextmanager
    def snapshot(self) -> Iterator[Session]:
        """Give a session that reads the database as it is at its first query, and keeps nobody from writing."""
        engine = self._engine.execution_options(**{READ_ONLY: True})
        with _told(), Session(engine, expire_on_commit=False) as session:
            yield session

    def refreshed(self) -> Workspace:
        """Re-read the owner's settings: a change holds from the next call on."""
        self.settings = Settings.load(self.path)
        return self

    def project_folder(self, project: str) -> Path:
        """Return the project's folder. Raises ConfigurationError on a name that is not a plain word."""
        return self.path / "projects" / checked_name(project)

    def run_directory(self, project: str, run_id: str) -> RunDirectory:
        """Return the folder of a run, which need not exist."""
        return RunDirectory(self.project_folder(project) / "runs" / checked_name(run_id))


@contextmanager
def _told() -> Iterator[None]:
    """Tell the database's errors as ours."""
    try:
        yield
    except OperationalError as error:
        raise StorageError(
            f"The workspace database could not be written: {error.orig}.",
            remedy="Free disk space, or try again when the other server has finished; nothing was changed.",
        ) from error
    except DatabaseError as error:
        if "malformed" in str(error) or "not a database" in str(error):
            raise IntegrityError(
                f"The workspace database is damaged: {error.orig}.",
                remedy="Restore workspace.sqlite from a backup; run directories are intact beside it.",
            ) from error
        raise


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
    for pragma in ("journal_mode=WAL", "synchronous=FULL", "foreign_keys=ON", f"busy_timeout={BUSY_MILLISECONDS}"):
        connection.execute(f"PRAGMA {pragma}").close()


def _begin_immediately(connection: Any) -> None:
    reads_only = connection.get_execution_options().get(READ_ONLY)
    connection.exec_driver_sql("BEGIN" if reads_only else "BEGIN IMMEDIATE")
