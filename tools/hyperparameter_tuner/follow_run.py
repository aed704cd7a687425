"""Following a study's runs from the conductor: waiting for room, and bringing interrupted runs back."""

from __future__ import annotations

import signal
import time
from typing import TYPE_CHECKING, Any

from trainwright.tools.training_orchestrator import RunView, resume_run, start_run
from trainwright.tools.training_orchestrator.follow import follow, signal_worker
from trainwright.tools.workspace.records import get_run, require_active
from trainwright.trainer.base.errors import LimitReachedError
from trainwright.trainer.run import RUNG, RunState

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
STALLED = "stalled"
"""The stop reason of a run whose worker was ended because it made no step any more."""
LONG_STAGES = frozenset({"validating data", "validating", "saving", "evaluating"})
"""Stages of a worker that may take long without any sign of it."""
MOST_STALLS = 1
"""How often such a run is resumed: one that hangs again hangs by itself."""


class _Watch:
    """Tells whether a worker still gets on: to another step or stage. A long stage has the wall-clock limit alone."""

    def __init__(self, stalled_seconds: float | None) -> None:
        self._most = stalled_seconds
        self._place: tuple[int, int, str] | None = None
        self._since = 0.0

    def hangs(self, seen: Observation) -> bool:
        """Return whether the run has made no step and reached no stage for too long."""
        place = (seen.status.attempt, seen.status.step, seen.status.stage)
        is_timed = seen.state in {RunState.STARTING, RunState.RUNNING} and seen.status.stage not in LONG_STAGES
        if place != self._place or not is_timed:
            self._place, self._since = place, time.monotonic()
        return self._most is not None and time.monotonic() - self._since > self._most


def start_when_there_is_room(workspace: Workspace, project: str, kind: RunKind, **order: Any) -> RunView:
    """Start a run, waiting while other runs of the project take all the places. Raises as `start_run` does."""
    return _with_room(lambda: start_run(workspace, project, kind, **order))


def run_to_end(
    workspace: Workspace,
    run_id: str,
    look: Callable[[RunDirectory, Observation], None],
    *,
    give_up: Callable[[], bool] = lambda: False,
    stalled_seconds: float | None = None,
    until_epoch: int | None = None,
) -> Observation:
    """Follow a run until it has ended and is sealed, resuming it when its worker is lost; return the last observation.

    Args:
        look: called at every observation with the run's directory.
        give_up: when true, an interrupted run is left as it is.
        stalled_seconds: a worker that makes no step for so long is ended, and replaced once.
        until_epoch: where a resumed run is to stop; one that stopped at an earlier epoch is resumed.

    Raises:
        ConflictError: the run would have to be resumed, and its study was stopped.
    """
    with workspace.session() as session:
        run = get_run(session, run_id)
    directory = workspace.run_directory(run.project, run.id)
    watch, resumes = _Watch(stalled_seconds), dict.fromkeys((None, STALLED, STUDY_STOPPED, RUNG), 0)
    while True:
        seen = follow(workspace, run)
        look(directory, seen)
        reason = seen.status.stop_reason
        if watch.hangs(seen):
            signal_worker(directory, seen, signal.SIGKILL, reason=STALLED)
        if _is_to_go_on(seen, run, until_epoch):
            if give_up() or resumes[reason] == (MOST_STALLS if reason == STALLED else MOST_RESUMES):
                return seen
            resumes[reason] += 1
            _require_wanted(workspace, run)
            _with_room(lambda: resume_run(workspace, run_id, until_epoch=until_epoch))
            with workspace.session() as session:
                run = get_run(session, run_id)
        elif seen.state.is_ended and run.sealed:
            return seen
        time.sleep(POLL_SECONDS)


def _is_to_go_on(seen: Observation, run: Run, until_epoch: int | None) -> bool:
    """Return whether the run ended for nothing that lies in its training, and has further to go."""
    reason = seen.status.stop_reason
    is_lost = seen.state is RunState.INTERRUPTED and reason in {None, STALLED}
    is_below = reason == RUNG and (until_epoch is None or seen.status.epoch < until_epoch)
    return is_lost or ((reason == STUDY_STOPPED or is_below) and run.sealed)


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
