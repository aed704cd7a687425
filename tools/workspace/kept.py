"""Results of looks at a workspace, kept in memory until what they were read from differs: files, rows, settings.

For answers alone: whoever decides, or verifies, reads all of it anew.
"""

from __future__ import annotations

import sqlite3
import sys
import threading
from typing import TYPE_CHECKING, Any, TypeVar

from trainwright.trainer.base.traces import Memory, Trace, note_mark

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable
    from pathlib import Path

    from sqlalchemy.orm import Session

T = TypeVar("T")
WHOLE = "the whole workspace"
OPENED_BY = "workspace"
"""Key in a session's `info`: its workspace."""
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
"""Whatever the database says of a project."""


def note_whole_workspace() -> None:
    """Tell the present look that it follows from other projects too: any write to the database ends it."""
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
        """By project and look."""
        self._states: dict[str, tuple[int, int]] = {}

    def close(self) -> None:
        """Let the database go."""
        with self._lock:
            if self._watching is not None:
                self._watching.close()
                self._watching = None

    def answer(
        self, session: Session, project: str, what: Hashable, make: Callable[[], T], *,
        trim: Callable[[Trace], None] = _nothing,
    ) -> T:  # fmt: skip
        """Return what a look at a project came to before, where nothing that it follows from has changed; else look.

        A session that has written something itself always looks.

        Args:
            what: names the look, with its arguments.
            trim: takes out of the trace those files that are not gone by.
        """
        if session.new or session.dirty or session.info.get(BEFORE_COMMIT):
            return make()
        state, settings = self._state(project), session.info[OPENED_BY].settings

        def holds(trace: Trace) -> Hashable:
            return (state, self._version() if WHOLE in trace.marks else 0, settings, tuple(sys.path))

        return self._memory.recall((project, what), make, state=holds, trim=trim)

    def _version(self) -> int:
        """Return a number that changes with every write to the database, whoever makes it."""
        with self._lock:
            return self._written()

    def _written(self) -> int:
        if self._watching is None:
            self._watching = sqlite3.connect(self._database, check_same_thread=False, isolation_level=None)
        return int(self._watching.execute("PRAGMA data_version").fetchone()[0])

    def _state(self, project: str) -> int:
        """Return a number that changes with all that the database says of a project."""
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
