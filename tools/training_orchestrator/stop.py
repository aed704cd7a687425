"""Stopping a run: its worker is asked to end, and hears it within five seconds at any stage, or its processes end."""

from __future__ import annotations

import signal
import time
from typing import TYPE_CHECKING

from trainwright.tools.training_orchestrator.follow import follow, signal_worker
from trainwright.tools.training_orchestrator.observation import Observation, observe
from trainwright.tools.training_orchestrator.run_view import RunView
from trainwright.tools.training_orchestrator.views import view_run
from trainwright.tools.workspace.records import get_run, get_run_of
from trainwright.trainer.base.errors import ConflictError

if TYPE_CHECKING:
    from trainwright.tools.workspace import Workspace
    from trainwright.tools.workspace.tables import Run

HEARD_SECONDS = 5.0
DEAF_SECONDS = 3.5
"""A worker whose heartbeat has stopped for so long will not react: code that holds the interpreter keeps it busy."""
POLL_SECONDS = 0.1


def stop_run(workspace: Workspace, run_id: str, *, project: str | None = None, reason: str = "requested") -> RunView:
    """Ask the worker to save a checkpoint and stop at the next step. Asking twice does no harm.

    Args:
        project: the project that the run must belong to; None for callers that have the run from its own study.

    Raises:
        NotFoundError: there is no such run.
        ConflictError: the run has ended, is another project's, or its process is not known yet.
    """
    return view_run(workspace, _ask(workspace, run_id, project, reason))


def stop_and_follow(
    workspace: Workspace, run_id: str, *, project: str | None = None, reason: str = "requested"
) -> RunView:
    """Stop a run, and return when it has ended, at the latest after five seconds. Raises as `stop_run` does.

    The worker ends in order where it can, and kills its processes where user code does not react. This waits for that,
    and ends a worker whose heartbeat has stopped.
    """
    run = _ask(workspace, run_id, project, reason)
    began = time.time()
    while time.time() - began < HEARD_SECONDS:
        seen = follow(workspace, run)
        if seen.state.is_ended and run.sealed:
            break
        if _is_deaf(seen, began):
            signal_worker(workspace.run_directory(run.project, run.id), seen, signal.SIGKILL, reason=reason)
        time.sleep(POLL_SECONDS)
    return view_run(workspace, run)


def _ask(workspace: Workspace, run_id: str, project: str | None, reason: str) -> Run:
    with workspace.session() as session:
        run = get_run(session, run_id) if project is None else get_run_of(session, project, run_id)
    directory = workspace.run_directory(run.project, run.id)
    seen = observe(directory)
    if seen.state.is_ended:
        raise ConflictError(
            f"Run {run_id} is {seen.state.value}; there is nothing to stop.", remedy=f"run_status(run_id='{run_id}')"
        )
    if not signal_worker(directory, seen, signal.SIGTERM, reason=reason) and not observe(directory).state.is_ended:
        raise ConflictError(
            f"Run {run_id} is just starting; its process is not known yet.",
            remedy=f"Call stop_training(project='{run.project}', run_id='{run_id}') again in a few seconds.",
        )
    return run


def _is_deaf(seen: Observation, began: float) -> bool:
    is_still = time.time() - max(began, seen.status.heartbeat_at) > DEAF_SECONDS
    return is_still and not seen.state.is_ended and seen.status.stage != "saving"
