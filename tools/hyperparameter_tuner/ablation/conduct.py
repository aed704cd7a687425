"""Carrying an ablation study through: its runs side by side, then estimates and report.

Run number `seed * arms + arm`, so that a seed's arms follow one another. All state is in the table and the run
directories: whatever is killed, the next conductor follows the runs that there are, and starts those that there are
not. Nothing of one run decides on another, so there is no wave to wait for.
"""

from __future__ import annotations

import math
from functools import partial
from typing import Any

from trainwright.tools import ledger
from trainwright.tools.gates.study_check import best_value, epoch_values
from trainwright.tools.hyperparameter_tuner.ablation.publishing import is_decided, publish_results, study_seeds
from trainwright.tools.hyperparameter_tuner.ablation.section import AblationSearch, recorded_search
from trainwright.tools.hyperparameter_tuner.follow_run import run_to_end, start_when_there_is_room
from trainwright.tools.hyperparameter_tuner.lost_workers import recorded_failures
from trainwright.tools.hyperparameter_tuner.start_points import earlier_runs
from trainwright.tools.hyperparameter_tuner.trials import (
    COMPLETED,
    FAILED,
    RUNNING,
    TrialRecord,
    side_by_side,
    trial_row,
    trials_of,
)
from trainwright.tools.ledger.events import AblationChanged, TrialEnded
from trainwright.tools.training_orchestrator.observation import Observation
from trainwright.tools.training_orchestrator.resume import STALLED
from trainwright.tools.workspace import Workspace
from trainwright.tools.workspace.records import ACTIVE, get_study, require_active
from trainwright.tools.workspace.tables import Study, Trial, now
from trainwright.trainer.base.errors import (
    ConfigurationError,
    GateRefusedError,
    LimitReachedError,
    TrainwrightError,
    UserCodeError,
)
from trainwright.trainer.config import apply_changes, config_digest, parse_config
from trainwright.trainer.run import RunDirectory, RunKind, RunState


def conduct_ablation(workspace: Workspace, study_id: str) -> None:
    """Run what is missing, then publish the results; any failure is recorded in the study."""
    with recorded_failures(study_id, partial(_end, workspace, study_id)):
        with workspace.session() as session:
            study = get_study(session, study_id)
        if study.state not in ACTIVE:
            return
        search = recorded_search(study.search)
        for repeats in search.looks:
            numbers = range(repeats * len(search.design.arms))
            side_by_side(search.width, [partial(_carry_out_or_stop, workspace, study, search, one) for one in numbers])
            lines = _lines(workspace, study_id)[: len(numbers)]  # a conductor before may have begun a later look
            if is_decided(workspace, study, search, lines):
                break
        publish_results(workspace, study_id, lines)


def parameters_of(study: Study, search: AblationSearch, number: int) -> dict[str, Any]:
    """Return the changes of a run by its number, with its seed."""
    arms = search.design.arms
    place, arm = divmod(number, len(arms))
    return {**arms[arm].changes, "seed": study_seeds(study, search)[place]}


def _carry_out_or_stop(workspace: Workspace, study: Study, search: AblationSearch, number: int) -> None:
    """Carry out one run; where none may start any more, the study stops at once, and no further run is begun."""
    try:
        _carry_out(workspace, study, search, number)
    except (GateRefusedError, LimitReachedError) as error:
        _end(workspace, study.id, "stopped", error)
        raise


def _carry_out(workspace: Workspace, study: Study, search: AblationSearch, number: int) -> None:
    """Bring one run to its end and write its line; one that has ended is left alone."""
    trial = _begun(workspace, study, search, number)
    if trial.state != RUNNING:
        return
    changes = {key: value for key, value in trial.parameters.items() if key != "seed"}
    is_alone = search.experiment is not None  # on seeds of its own, by code of its own
    if trial.run is None and not is_alone and (earlier := _known(workspace, study, trial)) is not None:
        _settle(workspace, study, trial, earlier)
        return
    try:
        run_id = trial.run or _start(workspace, study, search, trial, changes)
    except ConfigurationError as error:  # an impossible combination of valid levels
        _settle(workspace, study, trial, {"state": FAILED, "attributes": {"cause": error.as_dict()}})
        return
    seen = run_to_end(workspace, run_id, lambda *_: None, stalled_seconds=search.stalled_seconds)
    directory = workspace.run_directory(study.project, run_id)
    _settle(workspace, study, trial, _outcome(study, directory, seen))


def _begun(workspace: Workspace, study: Study, search: AblationSearch, number: int) -> TrialRecord:
    """Return the run's line, which is added where it is missing.

    Raises:
        ConflictError: the study was stopped meanwhile.
        UserCodeError: the reference failed on a seed, so that there is nothing to compare with.
    """
    with workspace.session() as session:
        require_active(session, study.id)
        trials = {trial.number: trial for trial in trials_of(session, study.id)}
        arms = len(search.design.arms)
        for trial in trials.values():
            if trial.number % arms == 0 and trial.state == FAILED:
                raise _without_reference(study, trial)
        if number not in trials:
            parameters = parameters_of(study, search, number)
            row = Trial(
                study=study.id, number=number, parameters=parameters, attributes={}, intermediate={}, state=RUNNING
            )
            session.add(row)
            session.flush()
            trials = {trial.number: trial for trial in trials_of(session, study.id)}
    return trials[number]


def _without_reference(study: Study, trial: TrialRecord) -> UserCodeError:
    cause = trial.attributes.get("cause") or {}
    return UserCodeError(
        f"The reference failed with seed {trial.parameters['seed']}, and every level is compared with it: "
        f"{cause.get('message')}",
        remedy=str(cause.get("remedy") or f"run_status(run_id='{trial.run}') tells why."),
        details={"cause": cause, "run": trial.run, "study": study.id},
    )


def _known(workspace: Workspace, study: Study, trial: TrialRecord) -> dict[str, Any] | None:
    """Return the outcome by a run of an earlier ablation study that trained the very same; None: there is none."""
    digest = config_digest(parse_config(apply_changes(study.base_values, trial.parameters)))
    for run, directory in earlier_runs(workspace, study.project, digest, RunKind.ABLATION, study=study.id):
        values = _finite(study, directory)
        best = best_value(values, study.objective["direction"])
        if run.state == RunState.COMPLETED and best is not None:
            return {"state": COMPLETED, "value": best, "intermediate": values, "run": run.id}
    return None


def _start(
    workspace: Workspace, study: Study, search: AblationSearch, trial: TrialRecord, changes: dict[str, Any]
) -> str:
    arm = trial.number % len(search.design.arms)
    view = start_when_there_is_room(
        workspace,
        study.project,
        RunKind.ABLATION,
        base=study.base_values,
        changes=changes,
        seed=trial.parameters["seed"],
        study_id=study.id,
        idempotency_key=f"{study.id}/trial-{trial.number}",
        label=search.design.arms[arm].name[:80],
        code=search.design.arms[arm].code,
    )
    with workspace.session() as session:
        trial_row(session, study.id, trial.number).run = view.run_id
    return view.run_id


def _outcome(study: Study, directory: RunDirectory, seen: Observation) -> dict[str, Any]:
    values = _finite(study, directory)
    best = best_value(values, study.objective["direction"])
    if seen.state is RunState.COMPLETED and best is not None:
        return {"state": COMPLETED, "value": best, "intermediate": values}
    return {"state": FAILED, "intermediate": values, "attributes": {"cause": _cause(study, seen)}}


def _finite(study: Study, directory: RunDirectory) -> dict[int, float]:
    values = epoch_values(directory, study.objective["metric"])
    return {epoch: value for epoch, value in values.items() if math.isfinite(value)}


def _cause(study: Study, seen: Observation) -> dict[str, Any]:
    if seen.failure is not None and seen.status.stop_reason != STALLED:
        return seen.failure.model_dump(include={"category", "message", "remedy"})
    reason = seen.status.stop_reason or f"it recorded no finite validation {study.objective['metric']}"
    return {"category": reason, "message": f"The run is {seen.state.value}: {reason}.", "remedy": None}


def _settle(workspace: Workspace, study: Study, trial: TrialRecord, outcome: dict[str, Any]) -> None:
    with workspace.session() as session:
        row = trial_row(session, study.id, trial.number)
        row.state, row.value, row.run = outcome["state"], outcome.get("value"), outcome.get("run", row.run)
        row.intermediate = {str(epoch): value for epoch, value in outcome.get("intermediate", {}).items()}
        row.attributes = outcome.get("attributes", {})


def _lines(workspace: Workspace, study_id: str) -> list[TrialEnded]:
    """Return the runs' lines in the ledger's form."""
    with workspace.session() as session:
        trials = trials_of(session, study_id)
    return [
        TrialEnded(
            **{name: getattr(trial, name) for name in ("number", "parameters", "state", "value", "run")},
            intermediate={str(epoch): value for epoch, value in trial.intermediate.items()},
        )
        for trial in trials
    ]


def _end(workspace: Workspace, study_id: str, state: str, error: TrainwrightError) -> None:
    """End the study if it is under way. One that is stopped lists no runs: those under way may still come to an end."""
    lines = {"trials": _lines(workspace, study_id)} if state != "stopped" else {}
    with workspace.session() as session:
        study = get_study(session, study_id)
        if study.state in ACTIVE:
            ended = AblationChanged(study_id=study_id, state=state, failure=error.as_dict(), ended_at=now(), **lines)
            ledger.record(session, study.project, ended)
