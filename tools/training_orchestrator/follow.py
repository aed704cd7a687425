"""Following runs: their directories' records are filed in the database, and an ended run is sealed in the ledger.

Everything here may be done by several servers at once, any number of times, and after any crash.
"""

from __future__ import annotations

import logging
import signal
import time
from collections.abc import Sequence
from contextlib import suppress
from datetime import UTC, datetime
from functools import partial
from typing import Any

from sqlalchemy import select
from sqlalchemy.orm import Session

from trainwright.tools import alerts, evaluation, ledger, limits
from trainwright.tools.answers import NextCall
from trainwright.tools.gates.carry_over import record_carry_over
from trainwright.tools.gates.evidence import Evidence
from trainwright.tools.gates.next_call import next_call
from trainwright.tools.gates.releases import is_short_replay
from trainwright.tools.launchers import read_launch, recorded_launcher, worker_wall
from trainwright.tools.ledger.events import RunEvaluated, RunSealed
from trainwright.tools.training_orchestrator.observation import Observation, observe
from trainwright.tools.workspace import Workspace
from trainwright.tools.workspace.query_cache import Sources
from trainwright.tools.workspace.records import get_project, get_run
from trainwright.tools.workspace.tables import Run
from trainwright.trainer.base.errors import TrainwrightError
from trainwright.trainer.base.file_stamps import stamps_below
from trainwright.trainer.run import RunDirectory, RunKind, RunState
from trainwright.trainer.run.key import SIGNED

TERMINATE_AFTER_SECONDS = 60.0
"""A worker that overruns its wall-clock limit by this much ignores its own limits: SIGTERM."""
KILL_AFTER_SECONDS = 90.0
"""And by this much: SIGKILL."""
log = logging.getLogger("trainwright")


def refresh_project(workspace: Workspace, project: str) -> list[str]:
    """File and seal every run of the project that is not sealed yet; return their ids. Raises NotFoundError."""
    unsealed = select(Run).where(Run.project == project, Run.sealed.is_(False)).order_by(Run.created_at, Run.id)

    def has_unsealed() -> bool:
        with workspace.snapshot() as session:
            get_project(session, project)
            return session.scalar(unsealed.limit(1)) is not None

    if not workspace.kept.rows(("unsealed", project), has_unsealed):
        return []
    with workspace.session() as session:
        runs = list(session.scalars(unsealed))
    for run in runs:
        follow(workspace, run)
    return [run.id for run in runs]


def refresh_workspace(workspace: Workspace) -> None:
    """File and seal every run of the workspace that is not sealed yet: an ended run releases what it had reserved.

    A run that cannot be followed stays as it is, and counts as living.
    """
    with workspace.session() as session:
        runs = list(session.scalars(select(Run).where(Run.sealed.is_(False))))
    for run in runs:
        with suppress(TrainwrightError):
            follow(workspace, run)


def followed_next(workspace: Workspace, project: str, *, after: NextCall | None = None) -> NextCall | None:
    """Return the project's next call, computed once the results of its runs are filed and sealed.

    Args:
        after: the call being answered, where it changes nothing: it is not named again.
    """
    refresh_project(workspace, project)

    def look(sources: Sources) -> NextCall | None:
        with workspace.session() as session:
            return next_call(session, workspace, project, after=after, sources=sources)

    what, files = ("next", after and str(after)), partial(stamps_below, workspace.project_folder(project))
    with workspace.snapshot() as session:
        call = workspace.kept.answer(session, project, what, look, files=files)
    return call and call.model_copy()


def follow(workspace: Workspace, run: Run) -> Observation:
    """Observe one run, enforce its limits, and bring its (detached) row up to date with the database."""
    directory = workspace.run_directory(run.project, run.id)
    seen = observe(directory)
    if workspace.is_archived or (run.sealed and seen.state.is_ended):
        return seen  # otherwise another server has resumed it since the row was read
    _hold_to_limits(directory, seen)
    if seen.is_settled:
        alerts.look(workspace, run, seen.status)  # before it is sealed: afterwards nobody looks for new ones
        _seal(workspace, run, seen, directory)
    elif run.state != seen.state:
        _file(workspace, run, seen, None)
    return seen


def _seal(workspace: Workspace, run: Run, seen: Observation, directory: RunDirectory) -> None:
    """File a run that has ended, with the evaluation of the program that it exported; wait a while for a long one."""
    with workspace.session() as session:
        facts = ledger.ProjectFacts(session, run.project)
    record = _record(facts, run, seen, directory)
    attempt = evaluation.Attempt(directory.path, seen.status.attempt)
    evaluated: list[RunEvaluated] | None = []
    if seen.state is RunState.COMPLETED and record["digests"] and run.id not in facts.seals:
        sealed = evaluation.Sealed(directory, record["digests"])
        others = evaluation.compared_with(workspace, facts, run.project, run.id)
        evaluated = evaluation.evaluated_soon(attempt, partial(evaluation.evaluate_program, sealed, others))
    if evaluated is None:
        _file(workspace, run, seen, None)
        return
    _file(workspace, run, seen, record, evaluated)
    evaluation.forget(attempt)
    worker_wall.forget(directory.path)


def _record(facts: ledger.ProjectFacts, run: Run, seen: Observation, directory: RunDirectory) -> dict[str, Any]:
    """Return the digests to seal; a run whose files cannot be read or trusted has none, and is no evidence.

    The run plan counts as the ledger recorded it: `run.json` could have been replaced before the worker read it.
    """
    started = facts.started.get(run.id)
    ordered = {"run.json": started.specification} if started else {}
    keys = facts.run_keys[run.id]
    try:
        digests, problem = ledger.digests_to_seal(directory, keys[-1] if keys else None, seen.state)
        problem = problem or ledger.rows_problem(directory, started.rows_key if started else None)
        if seen.state in SIGNED:
            problem = problem or ledger.summary_problem(directory)
    except (TrainwrightError, OSError) as error:
        digests, problem = {}, f"its files could not be read ({error})"
    return {"digests": digests | ordered if digests and not problem else {}} | ({"problem": problem} if problem else {})


def _file(
    workspace: Workspace, run: Run, seen: Observation, record: dict[str, Any] | None,
    evaluated: Sequence[RunEvaluated] = (),
) -> None:  # fmt: skip
    directory = workspace.run_directory(run.project, run.id)
    with workspace.session() as session:
        row = get_run(session, run.id)
        launch = read_launch(directory.path)
        is_same = launch is None or launch.launched_at == seen.launch.launched_at
        is_sealed = run.id in ledger.ProjectFacts(session, row.project).seals  # the row could have been edited
        if is_same and not is_sealed:  # else it was resumed or sealed since
            row.state = seen.state.value
            if record is not None:
                row.summary = ledger.summary_of(directory)
                used = limits.sealed_use(session, workspace, row, record["digests"]).model_dump()
                ended_at = datetime.fromtimestamp(seen.status.heartbeat_at or time.time(), UTC)
                outcome = {"state": row.state, "attempt": seen.status.attempt, "ended_at": ended_at, "used": used}
                ledger.record(session, row.project, RunSealed(run_id=row.id, **outcome, **record))
                for event in evaluated:
                    ledger.record(session, row.project, event)
                if row.kind == RunKind.REPLAY and seen.state is RunState.COMPLETED:
                    _carry_over(session, workspace, row)
        run.state, run.sealed, run.summary, run.ended_at = row.state, row.sealed, row.summary, row.ended_at


def _carry_over(session: Session, workspace: Workspace, row: Run) -> None:
    """Record a short replay's result for a stale plan, in the transaction that seals it."""
    try:
        session.flush()
        evidence = Evidence(session, workspace, row.project)
        replay = evidence.run(row.id)
        if replay is not None and is_short_replay(replay):
            record_carry_over(evidence, replay)
    except TrainwrightError as error:  # the run is sealed all the same
        log.info("nothing is carried over by %s: %s", row.id, error)


def signal_worker(directory: RunDirectory, seen: Observation, number: signal.Signals, *, reason: str) -> bool:
    """Signal the worker of a run, or withdraw one that has none yet; return whether it could be reached."""
    launch, status = seen.launch, seen.status
    if status.process is not None and status.attempt >= launch.attempt:
        launch = launch.model_copy(update={"process": status.process})
    return recorded_launcher(launch).signal(directory, launch, number, reason=reason)


def _hold_to_limits(directory: RunDirectory, seen: Observation) -> None:
    """Signal a worker that overran the wall clock it should have enforced on itself (GATE-4)."""
    if seen.state not in {RunState.STARTING, RunState.RUNNING} or seen.status.started_at == 0.0:
        return
    elapsed_seconds = time.time() - seen.status.started_at
    if elapsed_seconds <= TERMINATE_AFTER_SECONDS:
        return
    overrun_seconds = elapsed_seconds - directory.limits().wall_clock_seconds
    if overrun_seconds > KILL_AFTER_SECONDS:
        signal_worker(directory, seen, signal.SIGKILL, reason="wall_clock_limit")
    elif overrun_seconds > TERMINATE_AFTER_SECONDS:
        signal_worker(directory, seen, signal.SIGTERM, reason="wall_clock_limit")
