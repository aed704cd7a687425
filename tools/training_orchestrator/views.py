"""Views of a run for agents: small, with the alerts and the next call."""

from __future__ import annotations

import signal
import time
from contextlib import suppress
from functools import partial
from typing import Any

from trainwright.tools import alerts
from trainwright.tools.answers import NextCall
from trainwright.tools.evaluation import STAGE, is_under_way
from trainwright.tools.gates.beside_rivals import beside_text
from trainwright.tools.gates.evidence import Evidence
from trainwright.tools.gates.figures import beside, evaluation_text
from trainwright.tools.gates.next_after_run import after_alert, onward
from trainwright.tools.gates.next_call import option_of
from trainwright.tools.ledger import Look
from trainwright.tools.training_monitor.diagnosis import diagnose
from trainwright.tools.training_orchestrator.follow import follow, followed_next, signal_worker
from trainwright.tools.training_orchestrator.observation import Observation, observe
from trainwright.tools.training_orchestrator.recorded import (
    add_measurements,
    failure_of,
    result_of,
    resumed_of,
    suggested_call,
)
from trainwright.tools.training_orchestrator.run_view import (
    FailureView,
    RunView,
    folds_of,
    leak_of,
    plan_of,
)
from trainwright.tools.versions import data_versions, version_of
from trainwright.tools.workspace import Workspace
from trainwright.tools.workspace.query_cache import Sources
from trainwright.tools.workspace.records import get_project, get_run, get_run_of
from trainwright.tools.workspace.tables import Run
from trainwright.trainer.base.errors import ConflictError, IntegrityError, TrainwrightError
from trainwright.trainer.base.file_stamps import stamps_below
from trainwright.trainer.run import RunDirectory, RunKind, RunState
from trainwright.trainer.run.corrupt_records import TornMetrics, damage_of
from trainwright.trainer.run.digests import METRICS
from trainwright.trainer.run.evidence import Data

EXPORTING = {RunKind.BASELINE, RunKind.TRIAL, RunKind.ABLATION, RunKind.FINAL, RunKind.EXPORT}
"""Kinds of runs that may export a program."""
ATTEMPTS = {RunKind.BASELINE, RunKind.ABLATION}


def view_run(workspace: Workspace, run: Run, *, with_alerts: bool = False) -> RunView:
    """Describe a run from its row and its directory; damaged records show as the run's failure.

    The view of an ended and sealed run is cached: nothing of it is read again until one of its files changes.
    """
    look = partial(describe_run, workspace, run, with_alerts=with_alerts)
    if run.sealed:
        files = partial(stamps_below, workspace.run_folder(run.project, run.id))
        what = ("run", run.id, with_alerts)
        with workspace.snapshot() as session:
            view = workspace.kept.answer(session, run.project, what, lambda _: look(), files=files).model_copy()
    else:
        view = look()
    if view.kind == RunKind.SMOKE and view.state is RunState.COMPLETED and view.is_ended:
        view.planning_closed_by, view.rows = plan_of(workspace, run)
    if view.kind == RunKind.LEAK_PRICE and view.state is RunState.COMPLETED and view.is_ended:
        view.leak = leak_of(workspace, run)
    if view.kind in ATTEMPTS and view.state is RunState.COMPLETED and view.is_ended:
        view.folds = folds_of(workspace, run)
    view.alert_history = (alerts.history(workspace, run.id) or None) if with_alerts else None
    view.next = next_for(workspace, run, view)
    return view


def describe_run(workspace: Workspace, run: Run, *, with_alerts: bool) -> RunView:
    """Describe a run as it is now, without the call that makes sense next; nothing is filed or sealed."""
    directory = workspace.run_directory(run.project, run.id)
    seen = observe(directory)
    status = seen.status
    view = RunView(
        run_id=run.id,
        project=run.project,
        kind=run.kind,
        label=run.label,
        state=seen.state,
        stage=status.stage if not seen.state.is_ended else STAGE if is_under_way(directory.path) else "",
        epoch=status.epoch,
        total_epochs=status.total_epochs,
        step=status.step,
        total_steps=status.total_steps,
        attempt=max(status.attempt, seen.launch.attempt),
        gpus=[str(gpu) for gpu in seen.launch.gpus] or None,
        stop_reason=status.stop_reason if seen.state.is_ended else None,
        failure=failure_of(directory, seen),
        seconds=round(max(0.0, status.heartbeat_at - status.started_at), 1),
        sealed=run.sealed,
    )
    try:
        add_measurements(view, directory, directory.metrics())
        view.resumed = resumed_of(directory, view)
        view.result = result_of(directory)
        view.alerts = diagnose(directory) if with_alerts else []
        _certify(view, workspace)
        view.untrusted = _untrusted(view, workspace)
        view.data_version = _data_version(workspace, directory, run.project)
        if view.best is not None and view.kind in ATTEMPTS:
            view.rival = _beside_rivals(view, workspace, directory)
    except TrainwrightError as error:
        view.failure = view.failure or FailureView.model_validate(error.as_dict() | {"last_lines": []})
        torn = TornMetrics(directory.path / METRICS)
        with suppress(TrainwrightError):
            add_measurements(view, directory, torn)
        view.damaged = damage_of(directory, torn)
    else:
        view.damaged = damage_of(directory) or None
    return view


def _certify(view: RunView, workspace: Workspace) -> None:
    """Put certified figures in place of the reported ones of a sealed run that exported a program."""
    if not view.sealed or view.kind not in EXPORTING:
        return
    with workspace.snapshot() as session:
        found = Look().facts(session, workspace, view.project, None).evaluations.get(view.run_id)
    if found is None:
        return
    view.evaluated = evaluation_text(found)
    if view.best is not None:
        view.best |= beside(found.certified().get(view.best["metric"]), view.best["value"])
    if view.result and view.result.get("test"):
        view.result["test"] = view.result["test"] | found.certified("test")


def _beside_rivals(view: RunView, workspace: Workspace, directory: RunDirectory) -> str | None:
    """Return the run beside its rivals and the user's reference: as evaluated, else as its process scored them."""
    assert view.best is not None, "it has the model's value"  # noqa: S101
    with workspace.snapshot() as session:
        found = Look().facts(session, workspace, view.project, None).evaluations.get(view.run_id)
        goal = get_project(session, view.project).goal
    return beside_text(found, directory, goal, (view.best["metric"], view.best["value"])) or None


def _untrusted(view: RunView, workspace: Workspace) -> str | None:
    if not view.sealed:
        return None
    with workspace.snapshot() as session:
        seal = Look().facts(session, workspace, view.project, None).seals.get(view.run_id)
    return (seal.problem or None) if seal is not None else None


def _data_version(workspace: Workspace, directory: RunDirectory, project: str) -> str | None:
    fingerprint = directory.part(Data).fingerprint
    if fingerprint is None:
        return None
    with workspace.snapshot() as session:
        facts = Look().facts(session, workspace, project, None)
    found = version_of(data_versions(workspace, facts, project), fingerprint)
    return f"{found.name} of {found.told}" if found is not None else None


def next_for(workspace: Workspace, run: Run, view: RunView) -> NextCall | None:
    """Return the call that makes sense after this view."""
    if not view.is_ended:
        why = "the run has ended, and is not filed yet" if view.state.is_ended else "the run goes on"
        return NextCall(tool="run_status", arguments={"run_id": run.id, "wait_seconds": 50}, why=why)
    if (parent := _parent(run)) is not None:
        return parent
    suggested = suggested_call(run.project, run.id, view.result) if view.kind == RunKind.PROBE else None
    if suggested is not None:
        return suggested
    after = _after_end(workspace, run, view) if view.state is not RunState.COMPLETED else None
    return after or followed_next(workspace, run.project)


def _after_end(workspace: Workspace, run: Run, view: RunView) -> NextCall | None:
    """Return the change that fixes the alert which ended the run, else what resumes or explains it."""
    files = partial(stamps_below, workspace.project_folder(run.project))
    with workspace.snapshot() as session:
        call = workspace.kept.answer(
            session, run.project, ("after", run.id), partial(_onward, workspace, run), files=files
        )
    if call is not None or view.state in {RunState.INTERRUPTED, RunState.STOPPED}:
        return call
    if view.kind != RunKind.EXPORT:  # an export has no curves to read
        return NextCall(tool="diagnose_run", arguments={"run_id": run.id}, why="the run failed")
    return None


def _onward(workspace: Workspace, run: Run, sources: Sources) -> NextCall | None:
    """Return the call that completes a run that did not fail, or applies a fix; None where that would be in vain."""
    with workspace.snapshot() as session:
        evidence = Evidence(session, workspace, run.project, inspection=Look(sources))
        found = evidence.run(run.id)
        try:
            if found is None:
                return None
            call = after_alert(found) if found.status.state is RunState.FAILED else onward(found)
            if not found.status.state.is_ended:  # its process never began
                own = {"project": run.project, "run_id": run.id}
                call = NextCall(tool="resume_training", arguments=own, why="the run is interrupted")
            return call if call is not None and not option_of(evidence, call).vain else None
        except IntegrityError:  # the view tells the damage itself
            return None


def _parent(run: Run) -> NextCall | None:
    """Return the call about what a run belongs to: a study, or a trial of another run's fixes."""
    if run.study is not None:
        arguments: dict[str, Any] = {"study_id": run.study, "wait_seconds": 50}
        return NextCall(tool="tuning_status", arguments=arguments, why="the run belongs to this study")
    if run.kind == RunKind.CURE:
        arguments = {"project": run.project, "run_id": run.source_run}
        return NextCall(tool="diagnose_run", arguments=arguments, why="it says what the tried fixes did")
    return None


# Stopping a run: its worker is asked to end, and hears it within five seconds at any stage, or its processes end.

HEARD_SECONDS = 5.0
DEAF_SECONDS = 3.5
"""A worker whose heartbeat has stopped for so long will not react: code that holds the interpreter keeps it busy."""
POLL_SECONDS = 0.1


def stop_run(workspace: Workspace, run_id: str, *, reason: str = "requested") -> RunView:
    """Ask the worker to save a checkpoint and stop at the next step. Asking twice does no harm.

    Raises:
        NotFoundError: there is no such run.
        ConflictError: the run has ended, or its process is not known yet.
    """
    return view_run(workspace, _ask(workspace, run_id, None, reason))


def stop_and_follow(
    workspace: Workspace, run_id: str, *, project: str | None = None, reason: str = "requested"
) -> RunView:
    """Stop a run, and return when it has ended, at the latest after five seconds. Raises as `stop_run` does.

    A run of another project than the one that is named is a ConflictError.

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
