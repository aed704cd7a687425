"""Application context of one server: its workspace, opened late and kept open, with the owner's present settings."""

from __future__ import annotations

import importlib
import logging
import threading
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mcp.server.mcpserver import Context

from trainwright.trainer.base.errors import TrainwrightError

if TYPE_CHECKING:
    from trainwright.server.dashboard.serving import Dashboard
    from trainwright.tools.tracking.pages import Page
    from trainwright.tools.workspace import Workspace

WARM_UP_AFTER_SECONDS = 0.5
OPERATIONS = (
    "trainwright.server.argument_repair",
    "trainwright.tools.projects",
    "trainwright.tools.hyperparameter_tuner",
    "trainwright.tools.checkpoint_manager",
    "trainwright.tools.training_architect",
)
"""Modules by which calls are answered. Two threads that import them at once would meet half of one that needs another,
so no call is begun before they are there."""
MAX_LISTED = 10
"""Projects, and runs, whose status the list of resources names."""


class AppContext:
    """Context that all tool calls share: the workspace, opened at the first call that needs it."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._lock = threading.Lock()
        self._workspace: Workspace | None = None
        self._warm_up: threading.Timer | None = None
        self._log: logging.Handler | None = None
        self.on_change: Callable[[str, str, str], None] = lambda _project, _run, _handle: None
        """Called with project, long id and handle when something about a run has changed, on any thread."""
        self.after_call: Callable[[], None] = lambda: None
        """Called when a call was answered, on any thread."""
        self._following = Following(self._run_changed)
        self._dashboard: Dashboard | None = None
        self._opening = threading.Lock()
        self._pages: dict[str, Page] = {}
        """Of trackers that calls have opened, by name."""
        self.is_ready = False
        """Whether the operations are imported."""
        self.given_up: dict[str, Any] = {}
        """Of clients that gave up while they heard progress: `GivenUp` by token and client."""
        self._without_news: int | None = None
        """Version of the database in which every alert had been seen."""

    def workspace(self) -> Workspace:
        """Return the open workspace with the owner's settings as they are now. Raises TrainwrightError."""
        self.import_operations()
        with self._lock:
            from trainwright.tools.checkpoint_manager import finish_pruning
            from trainwright.tools.ledger import copy_all_forward
            from trainwright.tools.owner import record_settings_grants
            from trainwright.tools.projects import finish_deletions
            from trainwright.tools.registry import follow_all
            from trainwright.tools.tracking import catch_up
            from trainwright.tools.training_orchestrator import put_back_all, remove_abandoned
            from trainwright.tools.workspace import Workspace

            if self._workspace is None:
                self._workspace = Workspace.open(self.path)
                if self._workspace.is_archived:  # nothing is finished there, and nothing logged
                    return self._workspace
                self._log = _log_to(self._workspace.path / "logs" / "server.log")
                copy_all_forward(self._workspace)
                remove_abandoned(self._workspace)
                put_back_all(self._workspace)
                finish_deletions(self._workspace)
                finish_pruning(self._workspace)
                follow_all(self._workspace)
                catch_up(self._workspace)
            workspace = self._workspace.refreshed()
            return workspace if workspace.is_archived else record_settings_grants(workspace)

    def _run_changed(self, project: str, run_id: str) -> None:
        """Tell subscribers, on the follower's thread."""
        self.on_change(project, run_id, self.with_handles({"run": run_id})["run"])

    def with_handles(self, value: Any) -> Any:
        """Return JSON values with every long id of a run or study replaced by its handle."""
        from trainwright.tools.workspace.handles import handles_of, long_ids, with_handles

        workspace = self._workspace
        if workspace is None or not (found := long_ids(_texts(value))):
            return value

        def read() -> dict[str, str]:
            with workspace.snapshot() as session:
                return handles_of(session, found)

        return with_handles(value, workspace.kept.rows(("handles", found), read))

    def newest(self, projects: tuple[str, ...] = ()) -> dict[str, str]:
        """Return the names of the newest projects, and handles of the newest runs that no study started, to their URIs.

        Args:
            projects: the only ones to look for; none: all.
        """
        from sqlalchemy import select

        from trainwright.tools.workspace.handles import handles_of
        from trainwright.tools.workspace.tables import Project, Run

        if self._workspace is None and not (self.path / "workspace.sqlite").is_file():
            return {}
        named = select(Project.name).order_by(Project.created_at.desc()).limit(MAX_LISTED)
        runs = select(Run.id).where(Run.study.is_(None)).order_by(Run.created_at.desc()).limit(MAX_LISTED)
        if projects:
            named, runs = named.where(Project.name.in_(projects)), runs.where(Run.project.in_(projects))
        with self.workspace().snapshot() as session:
            handles = handles_of(session, list(session.scalars(runs))).values()
            found = {name: f"trainwright://projects/{name}/status" for name in sorted(session.scalars(named))}
        return found | {handle: f"trainwright://runs/{handle}/status" for handle in sorted(handles)}

    def take_news(self, projects: set[str], shown: list[tuple[str, str]]) -> tuple[list[dict[str, Any]], int]:
        """Return the alerts that an answer about these projects (none: about all) should carry, and how many are left.

        They count as seen then. Where nothing was written since there were none, the database is not asked.

        Args:
            shown: (run, diagnostic) of the alerts that the answer shows anyway.
        """
        from trainwright.tools.alerts import take_news

        workspace = self._workspace
        if workspace is None or workspace.is_archived or workspace.kept.version() == self._without_news:
            return [], 0
        version = workspace.kept.version()
        found, left, waiting = take_news(workspace, projects, shown)
        if not waiting:
            self._without_news = version
        return found, left

    def dashboard_address(self) -> str:
        """Return the address of the live page, which is served from the first call on. Raises TrainwrightError."""
        from trainwright.server.dashboard.serving import Dashboard

        with self._lock:
            if self._dashboard is None:
                self._dashboard = Dashboard(self.path)
                self._dashboard.start()
            return self._dashboard.access.address

    def tracker_address(self, name: str) -> str:
        """Return the address of a tracker's page, which is served from the first call on. Raises TrainwrightError."""
        from trainwright.tools.tracking.pages import link_event_files, open_page

        workspace = self.workspace()
        with self._opening:  # not the other calls' lock: a page takes seconds to open
            page = self._pages.get(name)
            if page is None or page.has_ended:
                page = self._pages[name] = open_page(workspace, name)
            elif name == "tensorboard":  # runs that have begun since
                link_event_files(workspace)
            return page.address

    def follow_runs(self) -> None:
        """Let runs that are alive be followed while no call asks for them."""
        if self._workspace is not None:
            self._following.begin(self._workspace)

    def open_and_follow(self) -> None:
        """Follow the runs of a workspace that there is, before the first call; a failure is the first call's."""
        with suppress(TrainwrightError, OSError):
            if (self.path / "workspace.sqlite").is_file():
                self.workspace()
                self.follow_runs()

    def begin(self) -> None:
        """Import the operations in the background, soon after the first requests of a client have been answered.

        A second of imports is thus paid while the agent thinks, and not by its first call.
        """
        self._warm_up = threading.Timer(WARM_UP_AFTER_SECONDS, self.import_operations)
        self._warm_up.daemon = True
        self._warm_up.start()

    def import_operations(self) -> None:
        """Import what answers calls; one that comes meanwhile, on another thread, waits here."""
        if self.is_ready:
            return
        with self._lock:
            for name in OPERATIONS:
                importlib.import_module(name)
            self.is_ready = True

    def close(self) -> None:
        """Close the workspace's database and the log file."""
        if self._warm_up is not None:
            self._warm_up.cancel()
        self._following.end()
        with self._opening:
            for page in self._pages.values():
                page.close()
            self._pages.clear()
        with self._lock:
            if self._dashboard is not None:
                self._dashboard.stop()
                self._dashboard = None
            if self._workspace is not None:
                self._workspace.close()
                self._workspace = None
            if self._log is not None:
                logging.getLogger("trainwright").removeHandler(self._log)
                self._log.close()
                self._log = None


def _texts(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict | list):
        for item in [*value, *value.values()] if isinstance(value, dict) else value:
            yield from _texts(item)


def workspace_of(context: Context[Any, Any]) -> Workspace:
    """Return the workspace of the server that handles the call."""
    app: AppContext = context.request_context.lifespan_context
    return app.workspace()


def _log_to(path: Path) -> logging.Handler | None:
    """Send the server's log lines to the file, once per file. Returns None if that is already done."""
    logger = logging.getLogger("trainwright")
    if any(getattr(handler, "baseFilename", None) == str(path) for handler in logger.handlers):
        return None
    path.parent.mkdir(exist_ok=True)
    handler = logging.FileHandler(path, delay=True)
    handler.setFormatter(logging.Formatter("%(asctime)s pid=%(process)d %(levelname)s %(message)s"))
    logger.addHandler(handler)
    logger.propagate = False
    return handler


# Following of runs in a server: a thread that begins with the first run and ends when none is alive.

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
