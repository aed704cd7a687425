"""`trainwright follow`: runs are followed without a server, for clusters and cron."""

from __future__ import annotations

import signal
import threading
from typing import TYPE_CHECKING

from trainwright.server.commands.terminal import Terminal
from trainwright.tools.alerts import life_of
from trainwright.tools.alerts.follower import Follower
from trainwright.tools.workspace import Workspace

if TYPE_CHECKING:
    from pathlib import Path

    from trainwright.tools.workspace.tables import RaisedAlert

MARKS = {"critical": "fail", "warning": "warn"}


def follow_runs(path: Path, *, once: bool) -> None:
    """Follow the workspace's runs until none is alive and nothing is owed, or look at them once. SIGTERM ends it."""
    workspace, terminal, stop = Workspace.open(path), Terminal(), threading.Event()

    def show(project: str, run: str, alert: RaisedAlert | None) -> None:
        if alert is not None and alert.severity in MARKS:
            mark = "ok" if alert.cleared_at is not None else MARKS[alert.severity]
            terminal.marked(mark, f"{project} {run}: {alert.id} {life_of(alert).value}: {alert.message}")

    signal.signal(signal.SIGTERM, lambda *_: stop.set())
    follower = Follower(workspace, show, keeps=True)
    try:
        if once:
            follower.step()
            follower.end()
        else:
            follower.follow(stop)
    finally:
        workspace.close()
