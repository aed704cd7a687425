"""Following a study's runs from the conductor: waiting for room, and bringing interrupted runs back."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

from trainwright.tools.training_orchestrator import RunView, resume_run, start_run
from trainwright.tools.training_orchestrator.follow import follow
from trainwright.tools.workspace.records import get_run, require_active
from trainwright.trainer.base.errors import LimitReachedError
from trainwright.trainer.run import RunState

if TYPE_CHECKING:
    from collections.abc import Callable

    from trainwright.tools.training_orchestrator.observation import Observation
    from trainwright.tools.workspace import Workspace
    from trainwright.tools.workspace.tables import Run
    from trainwright.trainer.run import RunDirectory, RunKind

POLL_SECONDS = 0.1
ROOM_SECONDS = 2.0
"""How often to try again while runs under way hold the rest of a limit."""
MOST_RESUMES = 4
"""How often a lost worker of one run is replaced before the run counts as failed."""
STUDY_STOPPED = "study_stopped"
"""The stop reason of a run that only ended because its study was stopped: it is resumed with the study."""


def start_when_there_is_room(workspace: Workspace, project: str, kind: RunKind, **order: Any) -> RunView:
    """Start a run, waiting while other runs of the project take all the places. Raises as `start_run` does."""
    return _with_room(lambda: start_run(workspace, project, kind, **order))


def run_to_end(
    workspace: Workspace,
    run_id: str,
    look: Callable[[RunDirectory, Observation], None],
    *,
    give_up: Callable[[], bool] = lambda: False,
) -> Observation:
    """Follow a run until it has ended and is sealed, resuming it when its worker is lost; return the last observation.

    Args:
        look: called at every observation with the run's directory.
        give_up: when true, an interrupted run is left as it is.

    Raises:
        ConflictError: the run would have to be resumed, and its study was stopped.
    """
    with workspace.session() as session:
        run = get_run(session, run_id)
    directory = workspace.run_directory(run.project, run.id)
    resumes = 0
    while True:
        seen = follow(workspace, run)
        look(directory, seen)
        lost = seen.state is RunState.INTERRUPTED and seen.status.stop_reason is None
        if lost or (seen.status.stop_reason == STUDY_STOPPED and run.sealed):
            if give_up() or resumes == MOST_RESUMES:
                return seen
            resumes += 1
            _require_wanted(workspace, run)
            _with_room(lambda: resume_run(workspace, run_id))
            with workspace.session() as session:
                run = get_run(session, run_id)
        elif seen.state.is_ended and run.sealed:
            return seen
        time.sleep(POLL_SECONDS)


def _require_wanted(workspace: Workspace, run: Run) -> None:
    """Raise ConflictError when the run's study was stopped: it is left as it is, for the study to go on with."""
    if run.study is not None:
        with workspace.session() as session:
            require_active(session, run.study)


def _with_room(start: Callable[[], RunView]) -> RunView:
    while True:
        try:
            return start()
        except LimitReachedError as error:
            if not error.details.get("waits"):
                raise
            time.sleep(ROOM_SECONDS)
