"""Stopping a run: the reason in a file, then SIGTERM to exactly the process that works on it."""

from __future__ import annotations

import signal
from typing import TYPE_CHECKING

from trainwright.tools.training_orchestrator.observation import observe
from trainwright.tools.training_orchestrator.signalling import signal_worker
from trainwright.tools.training_orchestrator.views import RunView, view_run
from trainwright.tools.workspace.process_launch import write_launch
from trainwright.tools.workspace.records import get_run, get_run_of
from trainwright.trainer.base.errors import ConflictError

if TYPE_CHECKING:
    from trainwright.tools.workspace import Workspace

WITHDRAWN = "it was withdrawn before an outer launcher had started it"


def stop_run(workspace: Workspace, run_id: str, *, project: str | None = None, reason: str = "requested") -> RunView:
    """Ask the worker to save a checkpoint and stop at the next step. Asking twice does no harm.

    Args:
        project: the project that the run must belong to; None for callers that have the run from its own study.

    Raises:
        NotFoundError: there is no such run.
        ConflictError: the run has ended, is another project's, or its process is not known yet.
    """
    with workspace.session() as session:
        run = get_run(session, run_id) if project is None else get_run_of(session, project, run_id)
    directory = workspace.run_directory(run.project, run.id)
    seen = observe(directory)
    if seen.state.is_ended:
        raise ConflictError(
            f"Run {run_id} is {seen.state.value}; there is nothing to stop.", remedy=f"run_status(run_id='{run_id}')"
        )
    if signal_worker(directory, seen, signal.SIGTERM, reason=reason):
        return view_run(workspace, run)
    if seen.launch.awaited and not directory.is_locked():  # nobody has taken it up
        write_launch(directory.path, seen.launch.model_copy(update={"awaited": False, "error": WITHDRAWN}))
        return view_run(workspace, run)
    again = observe(directory)  # it may have ended by itself just now
    if not again.state.is_ended:
        raise ConflictError(
            f"Run {run_id} is just starting; its process is not known yet.",
            remedy=f"Call stop_training(project='{run.project}', run_id='{run_id}') again in a few seconds.",
        )
    return view_run(workspace, run)
