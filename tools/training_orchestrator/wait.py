"""A bounded wait for news of a run."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection
from typing import Any

from trainwright.tools import alerts
from trainwright.tools.training_orchestrator.follow import follow
from trainwright.tools.training_orchestrator.run_view import RunView
from trainwright.tools.training_orchestrator.views import view_run
from trainwright.tools.workspace import Workspace
from trainwright.tools.workspace.records import get_run
from trainwright.tools.workspace.tables import Run
from trainwright.trainer.run import RunState

WAIT_SECONDS = 50.0
POLL_SECONDS = 0.2
LONGEST_PAUSE_SECONDS = 2.0
PAUSE_SHARE = 20
"""Looks come a twentieth of the wait so far apart, so that those of hours cost little and none ends late."""


def refresh_run(workspace: Workspace, run_id: str) -> RunView:
    """File the run's record, seal it if it has ended, and return its row. Raises NotFoundError."""
    run = _row(workspace, run_id)
    follow(workspace, run)
    return view_run(workspace, run, with_alerts=True)


def wait_for_run(
    workspace: Workspace,
    run_id: str,
    wait_seconds: float = WAIT_SECONDS,
    after_step: int | None = None,
    *,
    poll_seconds: float = POLL_SECONDS,
    should_stop: Callable[[], bool] = lambda: False,
    known: Collection[str] | None = None,
) -> RunView:
    """Return when the run has ended, has an alert that is news, or is past `after_step`; at the latest after the wait.

    The run continues however the wait ends. Polling reads a few small files; no database is held meanwhile.

    Args:
        known: alerts that are no news to the caller, beside those that an answer has carried; None: no alert ends the
            wait.
        should_stop: called before each poll, for callers on another thread that are cancelled.

    Raises:
        NotFoundError: there is no such run.
    """
    began = time.monotonic()
    deadline = began + max(wait_seconds, 0.0)
    run = _row(workspace, run_id)

    def is_over() -> bool:
        return should_stop() or time.monotonic() >= deadline

    while True:
        seen = follow(workspace, run)
        alerts.look(workspace, run, seen.status)
        ended = seen.state.is_ended and (run.sealed or seen.state is RunState.INTERRUPTED)
        news = ended or (after_step is not None and seen.status.step > after_step)
        if known is not None and not seen.state.is_ended:  # what has ended is filed within moments, and shown whole
            news = news or bool(alerts.news_of(workspace, run.id, known))
        if news or is_over():
            view = view_run(workspace, run, with_alerts=True)
            if view.is_ended or not view.state.is_ended or is_over():
                return view  # else it has ended since it was followed, and is filed in the next turn
        pause(began, deadline, poll_seconds)


def pause(began: float, deadline: float, shortest_seconds: float) -> None:
    """Sleep until the next look of a wait that began and ends at these monotonic times."""
    now = time.monotonic()
    seconds = max(shortest_seconds, min((now - began) / PAUSE_SHARE, LONGEST_PAUSE_SECONDS))
    time.sleep(max(0.0, min(seconds, deadline - now)))


def _row(workspace: Workspace, run_id: str) -> Run:
    """Return the row of a run, a copy of what was read since anything was last written. Raises NotFoundError."""

    def read() -> dict[str, Any]:
        with workspace.snapshot() as session:
            run = get_run(session, run_id)
        return {column.key: getattr(run, column.key) for column in Run.__table__.columns}

    return Run(**workspace.kept.rows(("run", run_id), read))
