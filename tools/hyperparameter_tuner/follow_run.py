"""Following a study's runs from the conductor: waiting for room, and bringing interrupted runs back."""

from __future__ import annotations

import signal
import time
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import replace
from typing import Any

from trainwright.tools import gpus
from trainwright.tools.gpus.assign import GPUS
from trainwright.tools.hyperparameter_tuner.lost_workers import failure_by
from trainwright.tools.hyperparameter_tuner.room_notes import need_of
from trainwright.tools.launchers import is_living, read_launch
from trainwright.tools.limits import is_cut_short
from trainwright.tools.training_orchestrator import RunView, refresh_run, resume_run, start_run
from trainwright.tools.training_orchestrator.follow import follow, signal_worker
from trainwright.tools.training_orchestrator.observation import Observation
from trainwright.tools.training_orchestrator.resume import STALLED, Death, death_of
from trainwright.tools.workspace import Workspace
from trainwright.tools.workspace.records import get_run, require_active
from trainwright.tools.workspace.tables import Run
from trainwright.trainer.base.errors import ConflictError, LimitReachedError, StorageError
from trainwright.trainer.run import RUNG, RunDirectory, RunKind, RunState

POLL_SECONDS = 0.1
ROOM_SECONDS = 2.0
"""How often to try again while runs under way hold the rest of a limit."""
STUDY_STOPPED = "study_stopped"
"""The stop reason of a run that only ended because its study was stopped: it is resumed with the study."""
LONG_STAGES = frozenset({"validating data", "validating", "saving", "evaluating"})
"""Stages of a worker that may take long without any sign of it."""


class _Watch:
    """Tells whether a worker still gets on: to another step or stage. A long stage has the wall-clock limit alone."""

    def __init__(self, stalled_seconds: float | None) -> None:
        self._most = stalled_seconds
        self._place: tuple[int, int, str] | None = None
        self._since = 0.0

    def hangs(self, seen: Observation) -> bool:
        """Return whether the run has made no step and reached no stage for too long."""
        place = (seen.status.attempt, seen.status.step, seen.status.stage)
        has_process = seen.state is RunState.CREATED and seen.launch.process is not None  # none yet of one that queues
        is_living = has_process or seen.state in {RunState.STARTING, RunState.RUNNING}
        is_timed = is_living and seen.status.stage not in LONG_STAGES
        if place != self._place or not is_timed:
            self._place, self._since = place, time.monotonic()
        return self._most is not None and time.monotonic() - self._since > self._most


def start_when_there_is_room(workspace: Workspace, project: str, kind: RunKind, **order: Any) -> RunView:
    """Start a run, waiting while other runs take all the places, or all GPUs. Raises as `start_run` does."""
    return _with_room(
        workspace, project, order.get("study_id"), lambda need: start_run(workspace, project, kind, gpu=need, **order)
    )


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

    One that ended only because the project had less left of a limit than a run may use goes on too, as soon as there is
    more: what a trial is given to use must not decide its outcome.

    Args:
        look: called at every observation with the run's directory.
        give_up: when true, an interrupted run is left as it is.
        stalled_seconds: a worker that makes no step for so long is ended, and replaced once.
        until_epoch: where a resumed run is to stop; one that stopped at an earlier epoch is resumed.

    Raises:
        ConflictError: the run would have to be resumed, and its study was stopped.
        LimitReachedError: nothing is left of a limit that ended the run, and no run under way will release any.
        StorageError: the run had no room on the disk; it goes on where it is followed again.
        WorkersLostError: its workers were killed again and again, and none got any further.
    """
    with workspace.session() as session:
        run = get_run(session, run_id)
    directory = workspace.run_directory(run.project, run.id)
    watch, had_no_room = _Watch(stalled_seconds), _is_out_of_storage(follow(workspace, run))
    while True:
        seen = follow(workspace, run)
        look(directory, seen)
        if watch.hangs(seen):
            signal_worker(directory, seen, signal.SIGKILL, reason=STALLED)
        if (_is_to_go_on(seen, run, until_epoch) or _is_cut_short(workspace, run, seen)) and not give_up():
            death = death_of(directory, seen) if _is_lost(seen) else None
            if death is not None and (failure := failure_by(workspace, run, seen, death)) is not None:
                return replace(seen, failure=failure)
            run = _resumed(workspace, run, until_epoch, death)
        elif seen.state.is_ended and run.sealed:
            if not _is_out_of_storage(seen) or give_up():
                return seen
            if not had_no_room:
                raise _no_storage(run, seen)
            run, had_no_room = _resumed(workspace, run, until_epoch, None), False
        elif give_up() and seen.state.is_ended:
            return seen
        _wait(directory)


def _wait(directory: RunDirectory) -> None:
    """Wait for the next look: shorter where the worker ends meanwhile."""
    launch = read_launch(directory.path)
    if launch is not None and launch.process is not None:
        launch.process.wait(POLL_SECONDS)
    else:
        time.sleep(POLL_SECONDS)


def _is_to_go_on(seen: Observation, run: Run, until_epoch: int | None) -> bool:
    """Return whether the run ended for nothing that lies in its training, and has further to go."""
    reason = seen.status.stop_reason
    is_below = reason == RUNG and (until_epoch is None or seen.status.epoch < until_epoch)
    return _is_lost(seen) or ((reason == STUDY_STOPPED or is_below) and run.sealed)


def _is_cut_short(workspace: Workspace, run: Run, seen: Observation) -> bool:
    return seen.state.is_ended and bool(run.sealed) and is_cut_short(workspace, run, seen.status.stop_reason)


def _is_lost(seen: Observation) -> bool:
    """Return whether the worker is gone without a last record, and nobody but this study asked it to stop."""
    return seen.state is RunState.INTERRUPTED and seen.status.stop_reason in {None, STALLED}


def _is_out_of_storage(seen: Observation) -> bool:
    is_storage = seen.failure is not None and seen.failure.category == StorageError.category
    return seen.state is RunState.FAILED and is_storage


def _no_storage(run: Run, seen: Observation) -> StorageError:
    """Return the error that halts a study whose run found no room: the disk's matter, not the trial's."""
    said = seen.failure.message if seen.failure is not None else ""
    return StorageError(
        f"Run {run.id} had no room on the disk: {said}",
        remedy="Free disk space: prune_checkpoints shows which weights can go. Nothing is lost: start_tuning with the "
        "same search goes on from the last checkpoint.",
        details={"next": {"tool": "prune_checkpoints", "arguments": {"project": run.project}}, "run": run.id},
    )


def _resumed(workspace: Workspace, run: Run, until_epoch: int | None, death: Death | None) -> Run:
    """Replace a run's worker; return its row. Raises as `resume_run`, and ConflictError of a study that was stopped.

    A run that somebody else has resumed meanwhile is left to that worker.
    """

    def resume(need: gpus.Need) -> RunView:
        _require_wanted(workspace, run)
        try:
            return resume_run(workspace, run.id, until_epoch=until_epoch, death=death, gpu=need)
        except ConflictError:
            view = refresh_run(workspace, run.id)
            if is_living(workspace.run_directory(run.project, run.id)) or view.state is RunState.COMPLETED:
                return view
            raise

    _with_room(workspace, run.project, run.study, resume)
    with workspace.session() as session:
        return get_run(session, run.id)


def _require_wanted(workspace: Workspace, run: Run) -> None:
    """Raise ConflictError when the run's study was stopped: it is left as it is, for the study to go on with."""
    if run.study is not None:
        with workspace.session() as session:
            require_active(session, run.study)


def _with_room(workspace: Workspace, project: str, study: str | None, start: Callable[[gpus.Need], RunView]) -> RunView:
    """Start until there is room. Who waits for a GPU is seen by others that start, and keeps its turn."""
    need = need_of(workspace, study)
    with ExitStack() as turn:
        while True:
            try:
                return start(need)
            except LimitReachedError as error:
                if not error.details.get("waits"):
                    raise
                if error.details["limit"] != GPUS:  # it could not take a GPU now: nobody leaves it one
                    turn.close()
                    need = replace(need, since=None)
                elif need.since is None:
                    need = replace(need, since=time.time())
                    turn.enter_context(gpus.waiting(workspace, _waiter(project, study, need, error)))
                time.sleep(ROOM_SECONDS)


def _waiter(project: str, study: str | None, need: gpus.Need, error: LimitReachedError) -> gpus.Waiter:
    count, kind = error.details["count"], error.details["kind"]
    return gpus.Waiter(project, count, kind, study, need.since or 0.0, need.runs_per_gpu, need.needed_bytes)
