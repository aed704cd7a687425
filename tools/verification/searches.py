"""Every study's trial table, derived again: suggestions, values, prunings and promotions (TUNE-3, TUNE-7).

A trial follows from the search, its number and the trials before it; its values from its run. So a table in which a
parameter, a value or a state was edited does not follow any more, while the study is under way too, when no entry of
the ledger tells its trials yet.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace

from sqlalchemy import select

from trainwright.tools.gates.study_check import best_value, epoch_values, further_values
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
from trainwright.tools.verification.findings import Case, Finding, Found
from trainwright.tools.workspace.tables import Study
from trainwright.trainer.base.errors import ConfigurationError, TrainwrightError
from trainwright.trainer.base.releases import has_torch
from trainwright.trainer.config import SearchSection, apply_changes, parse_config

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
