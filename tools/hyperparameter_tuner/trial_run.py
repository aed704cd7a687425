"""Carrying one trial from its suggestion to its line in the table."""

from __future__ import annotations

import math
from contextlib import suppress
from functools import cached_property
from typing import Any

from trainwright.tools.gates.study_check import best_value, epoch_values, further_values
from trainwright.tools.hyperparameter_tuner.follow_run import run_to_end, start_when_there_is_room
from trainwright.tools.hyperparameter_tuner.memory_study import pruned_epoch
from trainwright.tools.hyperparameter_tuner.start_points import earlier_runs
from trainwright.tools.hyperparameter_tuner.trials import (
    COMPLETED,
    FAILED,
    PRUNED,
    RUNNING,
    TrialRecord,
    seen_by,
    trial_row,
    trials_of,
)
from trainwright.tools.training_orchestrator import stop_run
from trainwright.tools.training_orchestrator.observation import Observation, observe
from trainwright.tools.training_orchestrator.resume import STALLED
from trainwright.tools.training_orchestrator.run_plan import CONFIRMATION
from trainwright.tools.workspace import Workspace
from trainwright.tools.workspace.records import get_run, get_study
from trainwright.tools.workspace.tables import Study
from trainwright.trainer.base.errors import ConfigurationError, ConflictError, DataError
from trainwright.trainer.config import SearchSection, apply_changes, config_digest, parse_config
from trainwright.trainer.run import RUNG, RunDirectory, RunKind, RunState

WAITS = "waits_at"
"""Attribute of a trial: the rung that it has reached."""


class _Judge:
    """Reads a trial's values whenever there are new ones, and stops it when the pruner says so."""

    def __init__(
        self,
        workspace: Workspace,
        study: Study,
        before: list[TrialRecord],
        trial: TrialRecord,
        until_epoch: int | None,
    ) -> None:
        self.workspace = workspace
        self.search = SearchSection.model_validate(study.search)
        self.metric, self.direction = study.objective["metric"], study.objective["direction"]
        self.before, self.trial, self.until_epoch = before, trial, until_epoch
        self._values = apply_changes(study.base_values, trial.parameters)
        self.values: dict[int, float] = {}
        self.pruned_at: int | None = None
        self.attributes = trial.attributes
        self.stopped_attempt = 0

    def further(self, directory: RunDirectory, finite: dict[int, float]) -> dict[str, float]:
        """Return the further objectives' values at the goal's best epoch."""
        return further_values(directory, finite, self.direction, self.search.objectives)

    def forget(self) -> None:
        """Judge another run of the same trial."""
        self.values, self.pruned_at, self.attributes = {}, None, self.trial.attributes

    @cached_property
    def epochs(self) -> int:
        """The most that the trial runs."""
        return parse_config(self._values).training.epochs

    def look(self, directory: RunDirectory, seen: Observation) -> None:
        """Decide on the epochs there are; ask a living worker to stop when one of them is the last."""
        values = epoch_values(directory, self.metric)
        if values != self.values:
            self.values = values
            self.pruned_at, self.attributes = pruned_epoch(
                self.search, self.direction, self.before, self.trial, values, epochs=self.epochs
            )
        if self.pruned_at is not None and not seen.state.is_ended and self.stopped_attempt < seen.launch.attempt:
            # A conflict means that it ended by itself just now, or is being resumed: the next look decides again.
            with suppress(ConflictError):
                stop_run(self.workspace, directory.run_id, reason="pruned")
                self.stopped_attempt = seen.launch.attempt


def carry_out(workspace: Workspace, study_id: str, trial: TrialRecord, *, until_epoch: int | None = None) -> None:
    """Run the trial (or take up its run) and write its state, value and epochs into the table.

    Args:
        until_epoch: a rung at which the trial waits; by default it is carried to its end.

    Raises:
        GateRefusedError, LimitReachedError: no permit; the trial stays in the table as running.
    """
    with workspace.session() as session:
        study = get_study(session, study_id)
        wave = SearchSection.model_validate(study.search).wave
        before = seen_by(trial.number, wave, trials_of(session, study_id))
    judge = _Judge(workspace, study, before, trial, until_epoch)
    own = _run_that_goes_on(judge, study)
    if own is None and (outcome := _known_outcome(judge, study)) is not None:
        _settle(workspace, study_id, trial, outcome)
        return
    try:
        run_id = own or _start(workspace, study, trial, until_epoch)
    except ConfigurationError as error:  # an impossible combination within a valid space
        _settle(
            workspace, study_id, trial, {"state": FAILED, "attributes": trial.attributes | {"cause": error.as_dict()}}
        )
        return
    most = judge.search.stalled_seconds
    seen = run_to_end(
        workspace,
        run_id,
        judge.look,
        give_up=lambda: judge.pruned_at is not None,
        stalled_seconds=most,
        until_epoch=until_epoch,
    )
    _settle(workspace, study_id, trial, _outcome(judge, seen, workspace.run_directory(study.project, run_id)))


def _run_that_goes_on(judge: _Judge, study: Study) -> str | None:
    """Return the trial's run; None: it has none, or one of another study that stopped at an earlier rung.

    That one is left as its study recorded it: the trial is trained by a run of its own where it goes beyond.
    """
    run_id, workspace = judge.trial.run, judge.workspace
    if run_id is None:
        return None
    with workspace.session() as session:
        run = get_run(session, run_id)
    if run.kind != RunKind.TRIAL or run.study == study.id:
        return run_id
    seen = observe(workspace.run_directory(run.project, run_id))
    return run_id if seen.state is RunState.COMPLETED or _rung(judge, seen) is not None else None


def _known_outcome(judge: _Judge, study: Study) -> dict[str, Any] | None:
    """Return the trial's outcome by a run of an earlier study that trained the very same; None: it has to be trained.

    So a study of 20 trials trains what is missing after one of 5: those 5 are suggested and judged alike. And a trial
    of the present configuration is the baseline's run.
    """
    with suppress(ConfigurationError):  # an impossible combination has no runs
        config = parse_config(apply_changes(study.base_values, judge.trial.parameters))
        kinds = (RunKind.BASELINE, RunKind.TRIAL)
        for run, directory in earlier_runs(
            judge.workspace, study.project, config_digest(config), *kinds, study=study.id
        ):
            is_own = run.kind == RunKind.TRIAL and run.study in {None, study.id}
            if is_own or run.label == CONFIRMATION:
                continue
            judge.look(directory, seen := observe(directory))
            if judge.pruned_at is not None or seen.state is RunState.COMPLETED or _rung(judge, seen) is not None:
                return _outcome(judge, seen, directory) | {"run": run.id}
            judge.forget()
    return None


def _start(workspace: Workspace, study: Study, trial: TrialRecord, until_epoch: int | None) -> str:
    view = start_when_there_is_room(
        workspace,
        study.project,
        RunKind.TRIAL,
        base=study.base_values,
        changes=trial.parameters,
        study_id=study.id,
        idempotency_key=f"{study.id}/trial-{trial.number}",
        label=f"trial {trial.number}",
        until_epoch=until_epoch,
    )
    with workspace.session() as session:
        trial_row(session, study.id, trial.number).run = view.run_id
    return view.run_id


def _outcome(judge: _Judge, seen: Observation, directory: RunDirectory) -> dict[str, Any]:
    """The trial's columns in the table: a function of its values by epoch, not of when the worker stopped.

    Finite values only: the ledger takes no others, and a pruner learns nothing from them.
    """
    finite = {epoch: value for epoch, value in judge.values.items() if math.isfinite(value)}
    if judge.pruned_at is not None:
        kept = {epoch: value for epoch, value in finite.items() if epoch <= judge.pruned_at}
        return {"state": PRUNED, "intermediate": kept, "attributes": judge.attributes}
    if (rung := _rung(judge, seen)) is not None:
        kept = {epoch: value for epoch, value in finite.items() if epoch <= rung}
        return {"state": RUNNING, "intermediate": kept, "attributes": judge.attributes | {WAITS: rung}}
    value, further = best_value(finite, judge.direction), judge.further(directory, finite)
    is_whole = value is not None and all(one.metric in further for one in judge.search.objectives)
    if seen.state is RunState.COMPLETED and is_whole:
        done = {"value": value, "intermediate": finite, "further": further, "attributes": judge.attributes}
        return {"state": COMPLETED, **done}
    cause = _cause(judge, seen, further if value is not None else None)
    return {"state": FAILED, "intermediate": finite, "attributes": judge.attributes | {"cause": cause}}


def _rung(judge: _Judge, seen: Observation) -> int | None:
    """Return the rung at which the trial waits; None: it has none to reach, or ended before it or with it."""
    until = judge.until_epoch
    if until is None:
        return None
    if seen.status.stop_reason == RUNG:
        return until if seen.status.epoch >= until else None  # below it: an earlier study's
    return until if seen.state is RunState.COMPLETED and seen.status.epoch > until else None


def _cause(judge: _Judge, seen: Observation, further: dict[str, float] | None) -> dict[str, Any]:
    """Return why a trial failed.

    Args:
        further: the further objectives' values, where the goal's metric has one.
    """
    if seen.status.stop_reason == STALLED:
        most = judge.search.stalled_seconds
        message = f"The run made no step for {most:g} s; resumed from its checkpoint, it hung again."
        remedy = "run_status shows the last stage and step; a longer bound is search.stalled_seconds."
        return {"category": STALLED, "message": message, "remedy": remedy}
    if seen.failure is not None:
        return seen.failure.model_dump(include={"category", "message", "remedy"})
    if seen.state is RunState.STOPPED:
        reason = seen.status.stop_reason
        return {"category": "stopped", "message": f"The run was stopped: {reason}.", "remedy": "Let the trials run."}
    missing = [one.metric for one in judge.search.objectives if further is not None and one.metric not in further]
    error = DataError(
        f"The run recorded no validation {(missing or [judge.metric])[0]!r}.",
        remedy="Search by metrics that the configuration computes: search.objectives."
        if missing
        else "Select by a metric that the configuration computes: selection.metric.",
    )
    return error.as_dict()


def _settle(workspace: Workspace, study_id: str, trial: TrialRecord, outcome: dict[str, Any]) -> None:
    with workspace.session() as session:
        row = trial_row(session, study_id, trial.number)
        row.state, row.value = outcome["state"], outcome.get("value")
        row.intermediate = {str(epoch): value for epoch, value in outcome.get("intermediate", {}).items()}
        row.further = outcome.get("further", {})
        row.attributes, row.run = outcome["attributes"], outcome.get("run", row.run)
