"""Following of runs in a server: a thread that begins with the first run and ends when none is alive."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from trainwright.tools.workspace import Workspace

PATIENCE_SECONDS = 10.0


class Following:
    """The thread that follows the runs of a server's workspace."""

    def __init__(self, changed: Callable[[str, str], None]) -> None:
        """Follow nothing yet.

        Args:
            changed: called on the thread, with project and run, when something about a run has changed.
        """
        self._changed = changed
        self._lock = threading.Lock()
        self._stop = threading.Event()
        self._thread: threading.Thread | None = None
        self._idle_at: int | None = None
        """Version of the database in which no run was alive."""

    def begin(self, workspace: Workspace) -> None:
        """Follow from now on, if a run may be alive and none is followed. Nearly free where nothing was written."""
        if not self._lock.acquire(blocking=False):
            return  # another call begins it
        try:
            self._begin(workspace)
        finally:
            self._lock.release()

    def _begin(self, workspace: Workspace) -> None:
        from trainwright.tools.alerts.follower import Follower, has_unsealed

        if workspace.is_archived or (self._thread is not None and self._thread.is_alive()):
            return
        version = workspace.kept.version()
        if version == self._idle_at:
            return
        is_needed = has_unsealed(workspace)
        self._idle_at = version  # a run that is started or resumed from now on changes it
        if not is_needed:
            return
        follower = Follower(workspace, lambda project, run, _: self._changed(project, run))
        self._thread = threading.Thread(target=follower.follow, args=(self._stop,), name="follower", daemon=True)
        self._thread.start()

    def end(self) -> None:
        """Stop following; runs go on."""
        self._stop.set()
        if self._thread is not None:
            self._thread.join(PATIENCE_SECONDS)
            self._thread = None
        self._stop.clear()
