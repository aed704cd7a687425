"""Cache of query results on a workspace, valid until their sources change: files, rows, settings.

For answers alone: decisions and verification read everything again.
"""

from __future__ import annotations

import sqlite3
import sys
import threading
from collections.abc import Callable, Hashable
from pathlib import Path
from typing import Any, TypeVar

from sqlalchemy.orm import Session

from trainwright.trainer.base.read_tracking import MAX_VALUES, Memory, Trace, note_mark

T = TypeVar("T")
WHOLE = "the whole workspace"
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


def note_whole_workspace() -> None:
    """Mark the query under way as dependent on all projects: any write to the database invalidates it."""
    note_mark(WHOLE)


def _nothing(_: Trace) -> None:
    return None


class Kept:
    """Answers about the projects of one workspace, as one server keeps them."""

    def __init__(self, database: Path) -> None:
        self._database = database
        self._lock = threading.Lock()
        self._watching: sqlite3.Connection | None = None
        self._memory = Memory()
        """By project and query."""
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
        self, session: Session, project: str, what: Hashable, make: Callable[[], T], *,
        trim: Callable[[Trace], None] = _nothing,
    ) -> T:  # fmt: skip
        """Return the cached result of a query on a project while its sources are unchanged; else compute it.

        A session with writes of its own always computes.

        Args:
            what: name of the query, with its arguments.
            trim: removes from the trace the files that the result does not depend on.
        """
        if session.new or session.dirty or session.info.get(BEFORE_COMMIT):
            return make()
        state, settings = self._state(project), session.info[OPENED_BY].settings

        def holds(trace: Trace) -> Hashable:
            return (state, self.version() if WHOLE in trace.marks else 0, settings, tuple(sys.path))

        return self._memory.recall((project, what), make, state=holds, trim=trim)

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
