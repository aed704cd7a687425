"""Cache of answers about a workspace, each kept while all that it was made from is unchanged: rows, files, settings.

For answers alone: decisions and verification read everything again.
"""

from __future__ import annotations

import os
import sqlite3
import threading
import time
from collections.abc import Callable, Hashable
from pathlib import Path
from typing import Any, TypeVar

from sqlalchemy.orm import Session

from trainwright.trainer.base.file_stamps import MAX_VALUES, Stamp, are_settled, make_room, stamp_of

T = TypeVar("T")
OPENED_BY = "workspace"
"""Key in a session's `info`: its workspace."""
READ_ONLY = "read_only"
"""Option of a connection, and key in a session's `info`: it takes no write lock."""
BEFORE_COMMIT, AFTER_COMMIT = "before_commit", "after_commit"
"""Keys in a session's `info`: {key: function of the workspace} to call at the end of the session, and after it."""
ROWS = {
    "ledger": "project = :project",
    "projects": "name = :project",
    "config_versions": "project = :project",
    "runs": "project = :project",
    "studies": "project = :project",
    "trials": "study IN (SELECT id FROM studies WHERE project = :project)",
    "registered_models": "project = :project",
}
"""Table to the rows of one project."""


class Sources:
    """What an answer was made from beside its project's rows and folder, as whoever makes it notes."""

    def __init__(self) -> None:
        self.stamps: dict[str, Stamp] = {}
        """Of the files, as they were before they were read."""
        self.are_all_projects = False
        """Whether any write to the database may change it."""
        self.are_fleeting = False
        """Whether something without a stamp may change it: a process, the clock, free room."""

    def note(self, *paths: Path | str) -> None:
        """Note files, and folders by their times, before they are read; one that is missing counts as such."""
        for path in paths:
            name = os.fspath(path)
            if name not in self.stamps:
                self.stamps[name] = stamp_of(name)

    def are_unchanged(self) -> bool:
        """Return whether every noted file is as it was."""
        return all(stamp_of(path) == stamp for path, stamp in self.stamps.items())


class Kept:
    """Answers about the projects of one workspace, as one server keeps them."""

    def __init__(self, database: Path) -> None:
        self._database = database
        self._lock = threading.Lock()
        self._watching: sqlite3.Connection | None = None
        self._answers: dict[Hashable, tuple[Any, int, Sources, Any]] = {}
        """By project and query: state, version of the database, further sources, answer."""
        self._states: dict[str, tuple[int, int]] = {}
        self._read: tuple[int, dict[Hashable, tuple[Any]]] = (-1, {})
        """Version of the database, and what was read of it alone."""

    def close(self) -> None:
        """Close the connection to the database."""
        with self._lock:
            if self._watching is not None:
                self._watching.close()
                self._watching = None

    def answer(
        self, session: Session, project: str, what: Hashable, make: Callable[[Sources], T], *,
        files: Callable[[], dict[str, Stamp]] = dict,
    ) -> T:  # fmt: skip
        """Return the kept answer about a project while all that it was made from is unchanged; else make it.

        A session with writes of its own always makes it.

        Args:
            what: name of the query, with its arguments.
            make: notes further sources in those that it is given.
            files: gives the stamps of the project's files that the answer depends on; by default on none.
        """
        if session.new or session.dirty or session.info.get(BEFORE_COMMIT):
            return make(Sources())
        began, version = time.time_ns(), self.version()
        state = (self._state(project), session.info[OPENED_BY].settings, files())
        if (found := self._answers.get((project, what))) is not None:
            then, written, sources, answer = found
            is_same = state == then and (version == written or not sources.are_all_projects)
            if is_same and sources.are_unchanged():
                return answer  # type: ignore[no-any-return]
        answer = make(sources := Sources())
        if not sources.are_fleeting and are_settled([*state[2].values(), *sources.stamps.values()], began):
            make_room(self._answers)
            self._answers[project, what] = (state, version, sources, answer)
        return answer

    def rows(self, what: Hashable, read: Callable[[], T]) -> T:
        """Return the cached result of a query on the database alone until anything is written to it; else read.

        Nobody may change what is returned.

        Args:
            what: name of the query, with its arguments.
        """
        version = self.version()
        written, known = self._read
        if written != version:
            self._read = written, known = version, {}
        if (found := known.get(what)) is None:
            found = (read(),)  # never older than the version, which was looked at before
            if len(known) < MAX_VALUES:
                known[what] = found
        return found[0]

    def version(self) -> int:
        """Return a number that changes with every write to the database, whoever makes it."""
        with self._lock:
            return self._written()

    def _written(self) -> int:
        if self._watching is None:
            self._watching = sqlite3.connect(self._database, check_same_thread=False, isolation_level=None)
        return int(self._watching.execute("PRAGMA data_version").fetchone()[0])

    def _state(self, project: str) -> int:
        """Return a number that changes with every row of a project."""
        with self._lock:
            version, known = self._written(), self._states.get(project)
            if known is None or known[0] != version:
                known = self._states[project] = (version, hash(self._rows(project)))
            return known[1]

    def _rows(self, project: str) -> tuple[Any, ...]:
        if self._watching is None:
            return ()
        return tuple(
            tuple(self._watching.execute(f"SELECT * FROM {table} WHERE {which}", {"project": project}))  # noqa: S608
            for table, which in ROWS.items()
        )
