"""Resuming a run: a new worker on the same directory, after the permit was checked again."""

from __future__ import annotations

import signal
import time
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from sqlalchemy import select
from sqlalchemy.orm import Session

from trainwright.tools import gpus, ledger, limits, tracking
from trainwright.tools.environments import require_kept
from trainwright.tools.gates import permits
from trainwright.tools.gates.evidence import Evidence
from trainwright.tools.launchers import Launch, Launcher, worker_wall, write_launch
from trainwright.tools.ledger.events import RunResumed
from trainwright.tools.owner.grants import accepted_alerts
from trainwright.tools.training_orchestrator.abandoned import put_back
from trainwright.tools.training_orchestrator.follow import refresh_workspace
from trainwright.tools.training_orchestrator.launch import allowed_launcher, why_no_wall
from trainwright.tools.training_orchestrator.observation import Observation, observe
from trainwright.tools.training_orchestrator.run_view import RunView
from trainwright.tools.training_orchestrator.snapshots import of_accepted_code
from trainwright.tools.training_orchestrator.views import view_run
from trainwright.tools.workspace import Workspace
from trainwright.tools.workspace.records import get_project, get_run, get_run_of
from trainwright.tools.workspace.tables import Run, Trial
from trainwright.trainer.base.errors import ConflictError, IntegrityError, TrainwrightError
from trainwright.trainer.base.exits import Exit, read_exit
from trainwright.trainer.base.records import Frozen
from trainwright.trainer.checkpoints.index import list_checkpoints
from trainwright.trainer.run import RUNG, Limits, RunDirectory, RunKey, RunKind, RunState
from trainwright.trainer.run.conditions import alert_behind

RESUMABLE_FAILURES = frozenset({"limit", "storage"})
"""Failures whose cause was outside the run: it can be resumed once there is room again."""


class CodeAwayError(ConflictError):
    """The folder of code that a run was ordered in is not there, perhaps for a moment: a study can go on later."""


def resume_run(
    workspace: Workspace,
    run_id: str,
    *,
    project: str | None = None,
    until_epoch: int | None = None,
    death: Death | None = None,
    gpu: gpus.Need | None = None,
) -> RunView:
    """Start a new worker on an interrupted or stopped run; it continues from the newest intact checkpoint.

    Its share is reserved again under the present limits, and counts all attempts together (GATE-4).

    Args:
        project: the project that the run must belong to; None for callers that have the run from its own study.
        until_epoch: stop in order after this epoch; by default the run goes on to its end.
        death: how its worker was lost, as far as the caller knows; recorded with the resuming.
        gpu: how it wants its GPU, which is another one of the same kind as before where there is one.

    Raises:
        ConflictError: the run is another project's, still runs, is completed, was pruned, or failed for a cause that
            lies in itself.
        GateRefusedError, LimitReachedError: no permit now.
        ConfigurationError: it ran in the server's own interpreter, which has no torch now.
        NotFoundError: there is no such run.
    """
    with workspace.session() as session:
        run = get_run(session, run_id) if project is None else get_run_of(session, project, run_id)
    refresh_workspace(workspace)  # seals ended runs, so that the ledger records everything in order
    directory = workspace.run_directory(run.project, run.id)
    try:
        order = _record(workspace, run_id, directory, until_epoch, death, gpu=gpu)
    except BaseException:
        with suppress(TrainwrightError), workspace.session() as session:
            put_back(directory, get_run(session, run_id))
        raise
    _tell(directory, order)
    launch = write_launch(directory.path, order.launch.model_copy(update={"former": None}))
    order.launcher.start(directory, launch, order.key)
    tracking.follow_asked(workspace, directory.specification().config)
    return view_run(workspace, order.row)


@dataclass(frozen=True)
class _Order:
    """A resuming that is in the ledger."""

    row: Run
    launch: Launch
    key: RunKey
    limits: Limits
    launcher: Launcher


def _record(
    workspace: Workspace, run_id: str, directory: RunDirectory, until_epoch: int | None, death: Death | None,
    *, gpu: gpus.Need | None,
) -> _Order:  # fmt: skip
    """Ask for the permit, reserve the share, and record the resuming.

    The only file written is the launch, since readers after the commit must see that an attempt is to come. It
    holds the former one, which is put back when the commit never comes.
    """
    with workspace.session() as session:
        row = get_run(session, run_id)
        put_back(directory, row)
        seen, evidence = observe(directory), Evidence(session, workspace, row.project)
        if directory.specification().snapshot is not None:
            evidence = of_accepted_code(evidence)
        _check_resumable(row, seen, evidence)
        _check_unchanged(session, directory, row)
        _check_place(directory, row)
        owner = get_project(session, row.project)
        kind = RunKind(row.kind)
        permit, config = (
            permits.permit(evidence, kind),
            directory.specification().config,
        )
        launcher = allowed_launcher(workspace, kind, config)
        if launcher.is_here:
            require_kept(directory.specification().runtime)
        share = limits.reserve(session, workspace, owner, kind, config, run=row, study=row.study).until(until_epoch)
        permit["reserved"] = share.model_dump()
        given = gpus.assign(session, workspace, row.project, kind, config, study=row.study, run=row, need=gpu)
        launch = Launch(
            attempt=seen.status.attempt + 1, gpus=given.gpus, runs_per_gpu=given.runs_per_gpu,
            hides_gpus=given.hides_gpus,
        )  # fmt: skip
        key = RunKey.new()
        resumed = RunResumed(
            run_id=run_id, attempt=launch.attempt, state=seen.state.value, permit=permit,
            run_key=key.public if launcher.gives_key else None,
            wall=worker_wall.held(
                directory.specification(), why_no_wall(workspace, kind, config)
            ),
            **({"gpus": [one.model_dump() for one in given.gpus]} if given.gpus else {}),
            **({} if death is None else {"died": death.model_dump()}),
        )  # fmt: skip
        ledger.record(session, row.project, resumed)
        launch = launch.model_copy(update={"former": seen.launch.model_copy(update={"former": None})})
        write_launch(directory.path, launch)
    return _Order(row, launch, key, share.limits, launcher)


def _tell(directory: RunDirectory, order: _Order) -> None:
    """Write the input of a recorded resuming's worker, or that it could not be written."""
    try:
        directory.write_limits(order.limits)
        directory.stop_reason.unlink(missing_ok=True)
    except (OSError, TrainwrightError) as error:
        with suppress(TrainwrightError):
            write_launch(directory.path, order.launch.model_copy(update={"error": f"{type(error).__name__}: {error}"}))
        raise


def _check_place(directory: RunDirectory, run: Run) -> None:
    """Refuse to resume a run whose folder of code is away: its order names that place, where no worker can begin."""
    root = Path(directory.specification().code_root)
    if root.is_dir():
        return
    anew = f"start_training(project='{run.project}', kind='{run.kind}') starts a new run where the code is now"
    if run.study is not None:
        anew = "start_tuning with another seed begins the search anew where the code is now"
    on = ": the same start_tuning goes on" if run.study is not None else ""
    raise CodeAwayError(
        f"Run {run.id} was ordered in the folder {root.name!r}, which is not where it was any more.",
        remedy=f"Bring the folder back{on}; or leave the run: {anew}. What has completed is kept.",
    )


def _check_unchanged(session: Session, directory: RunDirectory, run: Run) -> None:
    """Refuse to resume from a record that was edited since the run ended: resuming would adopt the edit."""
    facts = ledger.ProjectFacts(session, run.project)
    own = facts.run_keys[run.id], facts.pruned[run.id]
    differences = ledger.Inspection().checkpoint_problems(directory, *own)
    seal = facts.seals.get(run.id)
    if seal is not None:
        differences = ledger.seal_differences(directory, seal.digests, problem=seal.problem) + differences
    if differences or (seal is not None and seal.state == RunState.COMPLETED):
        raise IntegrityError(
            f"The record of run {run.id} was changed after it ended ({seal.state if seal else run.state}): "
            f"{'; '.join(differences[:3])}.",
            remedy=f"start_training(project='{run.project}', kind='{run.kind}') starts a new run.",
        )


def _check_not_pruned(session: Session, run: Run, seen: Observation) -> None:
    """Refuse a trial that its study gave up: while it trained, or at a rung, where its run ended in order."""
    trials = list(session.scalars(select(Trial).where(Trial.run == run.id)))
    at_rung = bool(trials) and all(trial.state == "pruned" for trial in trials)
    if seen.status.stop_reason == "pruned" or at_rung:
        study = trials[0].study if trials else run.study
        where = f" at epoch {seen.status.epoch}" if seen.status.stop_reason == RUNG else ""
        raise ConflictError(
            f"Run {run.id} was pruned by its study{where}; going on with it would falsify the study.",
            remedy=f"tuning_status(study_id='{study}') shows which trials went on; "
            f"start_training(project='{run.project}', kind='{run.kind}') starts a new run.",
            details={"next": {"tool": "tuning_status", "arguments": {"study_id": study}}},
        )


def _check_resumable(run: Run, seen: Observation, evidence: Evidence) -> None:
    follow_it = f"run_status(run_id='{run.id}', wait_seconds=50) follows it."
    start_anew = f"start_training(project='{run.project}', kind='{run.kind}') starts a new run."
    if not seen.state.is_ended:
        raise ConflictError(f"Run {run.id} is {seen.state.value}; there is nothing to resume.", remedy=follow_it)
    if seen.state is RunState.COMPLETED:
        raise ConflictError(f"Run {run.id} is completed; there is nothing to resume.", remedy=start_anew)
    _check_not_pruned(evidence.session, run, seen)
    if seen.state is RunState.FAILED and (seen.failure is None or seen.failure.category not in RESUMABLE_FAILURES):
        alert = alert_behind(seen.status)
        if alert is not None and alert in accepted_alerts(evidence.grants):
            return
        cause = seen.failure.message if seen.failure else "no cause was recorded"
        if alert is not None:
            ask = f"configure(project='{run.project}', ask_owner={{'alert': '{alert}'}})"
            start_anew += f" Once the owner accepts the alert, it can be resumed: {ask} asks for it."
        raise ConflictError(f"Run {run.id} failed and would fail again: {cause}", remedy=start_anew)


# Deaths of workers that left no last record: whether anything tells that a run ended itself.
#
# A signal from outside, a machine that stops, or a server that ends with what it started say nothing about the run.
# What does say something is recorded by the worker's parent, the only one that knows: a signal by which the kernel
# answers a fault of the process itself, memory that ran out, or an exit that the worker's own code never makes.

FAULTS = frozenset({
    signal.SIGSEGV, signal.SIGABRT, signal.SIGBUS, signal.SIGFPE, signal.SIGILL, signal.SIGSYS, signal.SIGTRAP,
})  # fmt: skip
"""Signals that a process gets for what it does itself."""
REFUSED = 2
"""Exit code of a worker that never began: it got no key, or its server ended."""
OUTSIDE, ITSELF, STALLED = "outside", "itself", "stalled"
WRITING_SECONDS, POLL_SECONDS = 1.0, 0.02
"""How long the parent of a dead worker has to record how it ended; it takes hundredths of a second."""


class Death(Frozen):
    """One death, as the ledger keeps it with the resuming that followed."""

    by: str
    """outside, itself, or stalled: it was ended here because it made no step any more."""
    why: str
    saved_step: int
    """Step of the newest checkpoint that it left, to which all later attempts go back; -1: it left none."""


def death_of(directory: RunDirectory, seen: Observation) -> Death:
    """Return how a run's worker died that is gone without a last record; waits a moment for its parent's word."""
    saved = max((record.step for record in list_checkpoints(directory)), default=-1)
    if seen.status.stop_reason == STALLED:
        return Death(by=STALLED, why="it made no step any more", saved_step=saved)
    fault = fault_of(_exit_of(directory, seen.launch))
    why = fault or "it was ended from outside, or with its machine"
    return Death(by=OUTSIDE if fault is None else ITSELF, why=why, saved_step=saved)


def fault_of(end: Exit | None) -> str | None:
    """Return what a process did that ended it; None where nothing tells that it ended itself."""
    if end is None or end.code == REFUSED:
        return None
    if end.code >= 0:
        return f"it ended with exit code {end.code} and no last record"
    number = -end.code
    if number in FAULTS:
        return f"it ended with {signal.Signals(number).name}"
    if number == signal.SIGKILL and end.took_memory:
        return "the kernel ended it for want of memory"
    return None


def _exit_of(directory: RunDirectory, launch: Launch) -> Exit | None:
    """Return the record of the latest launch's end; None where its parent left none."""
    process, deadline = launch.process, time.monotonic() + WRITING_SECONDS
    while process is not None:
        end = read_exit(directory.path)
        if end is not None and end.pid == process.pid and end.at >= launch.launched_at:
            return end
        is_coming = process.is_alive() or (launch.parent is not None and launch.parent.is_alive())
        if not is_coming or time.monotonic() > deadline:
            return None
        time.sleep(POLL_SECONDS)
    return None
