"""`trainwright open` and `trainwright track`: a tracker's page on the live data, and runs given to a tracker now."""

from __future__ import annotations

import signal
import time
import webbrowser
from pathlib import Path

from filelock import FileLock, Timeout

from trainwright.server.commands.terminal import Terminal
from trainwright.tools.tracking.follower import Follower
from trainwright.tools.tracking.pages import link_event_files, open_page
from trainwright.tools.tracking.process import LOCK
from trainwright.tools.workspace import Workspace
from trainwright.tools.workspace.handles import run_named
from trainwright.tools.workspace.records import get_project, runs_of
from trainwright.trainer.base.errors import ConflictError, StorageError

BEAT_SECONDS = 5.0


def open_tracker(path: Path, name: str, port: int, *, browser: bool) -> None:
    """Serve a tracker's page until Ctrl-C; one that is served elsewhere is named. Raises as `open_page` does."""
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # else the page's process would outlive this one
    workspace = Workspace.open(path)
    page = open_page(workspace, name, port=port)
    terminal = Terminal()
    try:
        terminal.line(page.address)
        if browser:
            webbrowser.open(page.address)
        if page.process is None:
            return
        terminal.line("This machine alone can open it. Ctrl-C ends it.", "dim")
        while page.process.poll() is None:
            time.sleep(BEAT_SECONDS)
            if name == "tensorboard":  # runs that have begun since
                link_event_files(workspace)
    except KeyboardInterrupt:
        terminal.line("")
    finally:
        page.close()
        workspace.close()


def track(path: Path, what: str, name: str) -> None:
    """Give a run, or a project's runs, to a tracker, whatever their configurations ask for.

    Raises:
        ConflictError: a follower is at work for this tracker.
        StorageError: the tracker does not take them.
    """
    workspace, terminal = Workspace.open(path), Terminal()
    with workspace.snapshot() as session:
        if "/" in what:
            runs = [run_named(session, what)]
        else:
            get_project(session, what)
            runs = [run.id for run in runs_of(session, what)]
    follower = Follower(workspace, name, also=runs)
    follower.folder.mkdir(parents=True, exist_ok=True)
    try:
        with FileLock(follower.folder / LOCK).acquire(timeout=0):
            is_given = follower.follow(patience_seconds=0)
    except Timeout:
        raise ConflictError(
            f"A process gives runs to {name} already.", remedy="It goes on by itself; call again when it has ended."
        ) from None
    finally:
        workspace.close()
    if not is_given:
        missing = ModuleNotFoundError.__name__ in str(follower.error)
        remedy = f"pip install 'trainwright[{name}]', then call again." if missing else "Call again when it is up."
        raise StorageError(f"{name} does not take them: {follower.error}", remedy=remedy)
    terminal.marked("ok", f"{len(runs)} run{'s' if len(runs) != 1 else ''} of {what} in {name}")
