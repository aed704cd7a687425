"""Every study's trial table, derived again: suggestions, values, prunings and promotions (TUNE-3, TUNE-7).

A trial follows from the search, its number and the trials before it; its values from its run. So a table in which a
parameter, a value or a state was edited does not follow any more, while the study is under way too, when no entry of
the ledger tells its trials yet.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from typing import Any

from sqlalchemy import select

from trainwright.tools.gates.evidence import Evidence
from trainwright.tools.gates.study_check import best_value, epoch_values, further_values, same_figures
from trainwright.tools.hyperparameter_tuner.ablation.conduct import parameters_of
from trainwright.tools.hyperparameter_tuner.ablation.publishing import study_seeds
from trainwright.tools.hyperparameter_tuner.ablation.results import results_of
from trainwright.tools.hyperparameter_tuner.ablation.section import recorded_search
from trainwright.tools.hyperparameter_tuner.halving import PASSED, promoted, rungs
from trainwright.tools.hyperparameter_tuner.memory_study import pruned_epoch
from trainwright.tools.hyperparameter_tuner.suggest import made_by, suggest
from trainwright.tools.hyperparameter_tuner.trials import (
    COMPLETED,
    FAILED,
    PRUNED,
    TrialRecord,
    begun,
    seen_by,
    trials_of,
    wave_of,
)
from trainwright.tools.hyperparameter_tuner.warm_start import known_trials
from trainwright.tools.ledger.events import AblationChanged, TrialEnded
from trainwright.tools.verification.findings import Case, Finding, Found, derived_again
from trainwright.tools.workspace.tables import LedgerEntry, Study
from trainwright.trainer.base.errors import ConfigurationError, TrainwrightError
from trainwright.trainer.base.releases import has_torch
from trainwright.trainer.config import SearchSection, apply_changes, config_digest, parse_config

MAX_TRIALS = 500
"""Of one study, from the first, in whole waves: a suggestion takes longer the more trials it sees."""
OF_THE_PROCESSOR = frozenset({"gaussian_process", "cma_es"})
"""Methods whose linear algebra another processor computes otherwise in its last bits, and so suggests others."""


def verify_searches(case: Case) -> Found:
    """Derive every trial of every study again, from those before it and from its run."""
    count, findings = 0, list[Finding]()
    known = {body["study_id"]: body.get("made_by") for _, body in case.of("study") if body.get("search") is not None}
    studies = [study for study in case.session.scalars(select(Study)) if not study.is_ablation]
    for study in case.each("searches", studies):
        trials = trials_of(case.session, study.id)
        count += len(trials)
        is_same = _of_all(known.get(study.id)) == _of_all(made_by()) and _method(study) not in OF_THE_PROCESSOR
        for what, depends_on_version in _differences(case, study, trials):
            told = f"study {study.id}: {what}"
            if depends_on_version and not is_same:
                told = f"{told}, with the libraries, the version and the processor of now"
                findings.append(Finding(where="version", what=told, counts=False))
            else:
                findings.append(Finding(where="study", what=told))
    return count, findings


def _method(study: Study) -> str:
    return SearchSection.model_validate(study.search).method


def _of_all(made: dict[str, str] | None) -> dict[str, str] | None:
    """Return the versions that the portable methods depend on: torch and cmaes are of the others alone."""
    return None if made is None else {name: version for name, version in made.items() if name not in {"torch", "cmaes"}}


def _differences(case: Case, study: Study, trials: list[TrialRecord]) -> Iterator[tuple[str, bool]]:
    """Give a table's differences; one that cannot be read is a difference, and other studies are still derived."""
    try:
        if _method(study) == "gaussian_process" and not has_torch():
            yield "its trials cannot be derived without torch", True
            return
        wave = SearchSection.model_validate(study.search).wave
        yield from _Table(case, study, trials[: max(wave, MAX_TRIALS - MAX_TRIALS % wave)]).differences()
    except (TrainwrightError, ValueError, TypeError, LookupError, AttributeError) as error:
        yield f"its trials cannot be derived: {' '.join(str(error).split())[:200]}", False


class _Table:
    """One study's trials beside their derivation."""

    def __init__(self, case: Case, study: Study, trials: list[TrialRecord]) -> None:
        self.case, self.study, self.trials = case, study, trials
        self.search = SearchSection.model_validate(study.search)
        self.metric, self.direction = study.objective["metric"], study.objective["direction"]

    def differences(self) -> Iterator[tuple[str, bool]]:
        """Give a sentence for each difference, and whether it depends on the version that made the study."""
        base = self.study.base_values
        known = known_trials(self.case.session, self.search, base)
        for place, trial in enumerate(self.trials):
            if trial.number != place:
                yield f"trial {place} is missing", False
                return
            seen = seen_by(trial.number, self.search.wave, self.trials)
            asked, _ = suggest(self.search, self.direction, seen, base_values=base, known=known)
            if asked != trial.parameters:
                yield f"trial {place} has parameters that do not follow from the trials before it", True
            values = self._values(trial)
            if values is not None:
                yield from self._against_values(trial, seen, values)
        if self.search.pruning.bracket is not None:
            yield from self._promotions()

    def _values(self, trial: TrialRecord) -> dict[int, float] | None:
        """Return the epochs' values by the trial's run; None: it claims none, or has no run that can be read."""
        if trial.run is None or trial.state not in {COMPLETED, PRUNED, FAILED}:
            return None
        try:
            return epoch_values(self.case.workspace.run_directory(self.study.project, trial.run), self.metric)
        except (TrainwrightError, OSError):  # the comparison of runs names it
            return None

    def _further(self, trial: TrialRecord, finite: dict[int, float]) -> dict[str, float]:
        directory = self.case.workspace.run_directory(self.study.project, str(trial.run))
        return further_values(directory, finite, self.direction, self.search.objectives)

    def _against_values(
        self, trial: TrialRecord, seen: list[TrialRecord], values: dict[int, float]
    ) -> Iterator[tuple[str, bool]]:
        """Compare a trial's row with its run's values, and its pruning with the rule."""
        finite = {epoch: value for epoch, value in values.items() if math.isfinite(value)}
        last = max(trial.intermediate, default=0)
        kept = {epoch: value for epoch, value in finite.items() if trial.state == COMPLETED or epoch <= last}
        is_completed = trial.state == COMPLETED
        value = best_value(finite, self.direction) if is_completed else None
        further = self._further(trial, finite) if is_completed else {}
        if trial.intermediate != kept or trial.value != value or trial.further != further:
            yield f"trial {trial.number} has other values than its run {trial.run} recorded", False
            return
        if trial.state == FAILED or self.search.pruning.bracket is not None:
            return
        at, _ = pruned_epoch(
            self.search, self.direction, seen, begun(trial), values, epochs=self._epochs(trial)
        )  # fmt: skip
        kept_by_rule = [epoch for epoch in finite if at is not None and epoch <= at]
        if (at is None) is (trial.state == PRUNED) or (at is not None and kept_by_rule != sorted(trial.intermediate)):
            yield f"trial {trial.number} is {trial.state}, which does not follow from the trials before it", True

    def _promotions(self) -> Iterator[tuple[str, bool]]:
        """Compare who went on at each rung with the rule, by the values up to there."""
        factor = self.search.pruning.reduction_factor
        for start in range(0, len(self.trials), self.search.wave):
            wave = [trial for trial in self.trials if trial.number in wave_of(start, self.search.wave)]
            epochs = max(map(self._epochs, wave))
            for level, epoch in enumerate(rungs(self.search, start // self.search.wave, epochs)):
                went_on = {trial.number for trial in wave if _went_on(trial, level, epoch)}
                out = {t.number for t in wave if t.state == PRUNED and t.attributes.get(PASSED, 0) == level}
                waiting = [trial for trial in wave if trial.number in went_on | out]
                best = promoted([_until(trial, epoch) for trial in waiting], self.direction, factor)
                if waiting and best != went_on:
                    yield f"at epoch {epoch} other trials than the best of {start}… went on", False

    def _epochs(self, trial: TrialRecord) -> int:
        try:
            return parse_config(apply_changes(self.study.base_values, trial.parameters)).training.epochs
        except ConfigurationError:  # an impossible combination, which failed
            return 1


def _went_on(trial: TrialRecord, level: int, epoch: int) -> bool:
    """Return whether a trial was promoted at a rung, by its notes or by its epochs."""
    return trial.attributes.get(PASSED, 0) > level or max(trial.intermediate, default=0) > epoch


def _until(trial: TrialRecord, epoch: int) -> TrialRecord:
    return replace(trial, intermediate={at: value for at, value in trial.intermediate.items() if at <= epoch})


# Every completed ablation study, derived again from its sealed runs and compared with the ledger.


def verify_ablations(case: Case) -> Found:
    """Compare every run's line with its run, and derive seeds, effects and conclusion from the lines again."""
    ended = [(entry, body) for entry, body in case.of(AblationChanged.name) if body.get("results")]
    return derived_again(ended, "ablation study", partial(_of_an_ablation, case))


def _of_an_ablation(case: Case, entry: LedgerEntry, body: dict[str, Any]) -> list[str]:
    project = str(entry.project)
    study = case.project(project).rows.find(Study, body["study_id"])
    if study is None:
        return ["nothing began it"]
    evidence = Evidence(case.session, case.workspace, project, inspection=case.inspection)
    search, lines = recorded_search(study.search), [TrialEnded.model_validate(line) for line in body["trials"]]
    arms = len(search.design.arms)
    whole = {repeats * arms for repeats in search.looks}
    if [line.number for line in lines] != list(range(len(lines))) or len(lines) not in whole:
        return [f"it lists {len(lines)} runs, and its design has {search.runs}"]
    wrong = [f"run {line.number}: {what}" for line in lines if (what := _against_run(evidence, study, line))]
    if wrong:
        return wrong
    seeds = study_seeds(study, search)
    derived = results_of(evidence, search, study.objective, seeds, lines)
    recorded = body["results"]
    return [
        f"its {name} is recorded otherwise than its runs give it"
        for name in sorted(derived.keys() | recorded.keys())
        if not same_figures(derived.get(name), recorded.get(name))
    ]


def _against_run(evidence: Evidence, study: Study, line: TrialEnded) -> str:
    """Return a line's difference from its run; empty if none. A failed run claims no value."""
    if line.parameters != parameters_of(study, recorded_search(study.search), line.number):
        return "its configuration or seed is not the design's"
    if line.state != COMPLETED:
        return "" if line.value is None else "it has a value, and did not complete"
    run = evidence.run(line.run or "")
    if run is None or not run.is_complete:
        return f"run {line.run} is not complete"
    if run.differences:
        return run.differences[0]
    plan = run.directory.specification()
    expected = config_digest(parse_config(apply_changes(study.base_values, line.parameters)))
    arms = recorded_search(study.search).design.arms
    code = arms[line.number % len(arms)].code
    if config_digest(plan.config) != expected or plan.max_steps is not None or plan.snapshot != code:
        return f"run {run.id} did not train its configuration"
    best = best_value(epoch_values(run.directory, study.objective["metric"]), study.objective["direction"])
    return "" if line.value == best else f"run {run.id} recorded other values"
