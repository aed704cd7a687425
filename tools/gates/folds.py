"""Folds of one configuration: a cross-validation out of its baseline and of ablations that change the fold alone."""

from __future__ import annotations

import json
import statistics
from collections.abc import Iterator
from typing import Any

from trainwright.tools.gates.evidence import Evidence
from trainwright.tools.gates.phase_status import phase_status_of
from trainwright.tools.gates.phases import PERMITTED
from trainwright.tools.gates.run_evidence import RunEvidence
from trainwright.trainer.config import TrainingConfig
from trainwright.trainer.data.sections import FOLDABLE, SplitSection
from trainwright.trainer.run import RunKind

KINDS = (RunKind.BASELINE.value, RunKind.ABLATION.value)
FOLD = "data.split.fold"


MIN_ORIGINS, MAX_ORIGINS = 2, 3
MIN_TRAINED = 0.3
"""Share of the rows that the earliest of several folds by time trains on at least."""
FEW_GROUPS, FEW_RARE, FEW_ROWS = 100, 300, 500
"""Of all, and of the rarer of two classes, below which validation and test measure a figure roughly."""


def folds_advice(section: SplitSection, rows: int, groups: int | None = None, rare: int | None = None) -> str:
    """Return why folds are worth their runs, before there is a result; empty where there is enough without, or none.

    Args:
        section: how the rows are split.
        rows: of all splits.
        groups: of all splits, where whole groups are in one; None: there are none.
        rare: rows of the rarer of two classes, of all splits; None: there are not two.
    """
    count, what, enough = (rows, "rows", FEW_ROWS) if groups is None else (groups, "groups", FEW_GROUPS)
    if count >= enough and rare is not None:
        count, what, enough = rare, "rows of the rarer class", FEW_RARE
    if section.folds is not None or section.by not in FOLDABLE or count >= enough:
        return ""
    left = max(round(count * section.validation), 1)
    if section.by == "time":
        origins = _origins(section)
        if origins < MIN_ORIGINS:
            return ""
        earlier = "two earlier ones" if origins > MIN_ORIGINS else "an earlier one"
        return (
            f"{count} {what} leave {left} for validation, of one origin alone: data.split.folds {origins} validates "
            f"on {earlier} too, one ablation each. The test rows stay, now or later."
        )
    return (
        f"{count} {what} leave {left} for validation, which says little: data.split.folds 5 validates on all but the "
        "test's in turn, one ablation each. The test rows stay, now or later."
    )


def _origins(section: SplitSection) -> int:
    """Return how many folds by time leave enough before the earliest to train on; 0 where dates bound the splits."""
    if section.borders is not None or not section.validation:
        return 0
    return min(int((1.0 - section.test - MIN_TRAINED) / section.validation + 1e-9), MAX_ORIGINS)


def is_fold(planned: TrainingConfig, config: TrainingConfig) -> bool:
    """Return whether a configuration is the planned one but for another fold: then it has the same test split."""
    return _folds(config) is not None and _but_fold(planned) == _but_fold(config) and planned != config


def folds_text(evidence: Evidence, config: TrainingConfig, *, with_next: bool = True) -> str | None:
    """Return mean and deviation of the goal's metric over the folds that have run, and the call for the next one.

    None where the configuration has no folds. Figures are those that the training processes reported: no fold but the
    planned one has fixed rows.
    """
    count = _folds(config)
    if count is None:
        return None
    metric, values = evidence.goal_metric, dict[int, float]()
    for fold, run in _runs(evidence, config):
        value = run.reported_value(metric) if run.is_complete else None
        if value is not None:
            values[fold] = value
    left = [fold for fold in range(count) if fold not in values]
    if not values:
        return None
    found = ", ".join(f"fold {fold} {value:.4g}" for fold, value in sorted(values.items()))
    if len(values) > 1:
        spread = statistics.stdev(values.values())
        found = f"{statistics.fmean(values.values()):.4g} ± {spread:.2g} (mean and deviation; {found})"
    text = f"{len(values)} of {count} folds: validation {metric} {found}."
    return f"{text} {_on(evidence, config)}".rstrip() if left and with_next else text


def _on(evidence: Evidence, config: TrainingConfig) -> str:
    """Return how the next fold is run: by a call, where the phase permits it and none is under way."""
    fold, running = open_fold(evidence, config) or (None, None)
    if running is not None or fold is None:
        return f"{running} is the next." if running is not None else ""
    if RunKind.ABLATION not in PERMITTED[phase_status_of(evidence).phase]:
        return "The others run once the baseline gate has passed."
    changes = json.dumps({FOLD: fold})
    return f"start_training(project={evidence.name!r}, kind='ablation', changes={changes}) adds the next."


def open_fold(evidence: Evidence, config: TrainingConfig) -> tuple[int, str | None] | None:
    """Return the next fold of which no run has ended, and its run where one is under way; None where all have run."""
    begun = dict(_runs(evidence, config))
    for fold in range(_folds(config) or 0):
        state = begun[fold].directory.status().state if fold in begun else None
        if state is None or not state.is_ended:
            return fold, begun[fold].id if state is not None else None
    return None


def _runs(evidence: Evidence, config: TrainingConfig) -> Iterator[tuple[int, RunEvidence]]:
    """Yield the runs of a configuration with the fold of each, in the order in which they were started."""
    own = _but_fold(config)
    for run_id, start in evidence.facts.started.items():
        run = evidence.run(run_id) if start.kind in KINDS else None
        other = run.directory.specification().config if run is not None else None
        if run is not None and other is not None and other.data is not None and _but_fold(other) == own:
            yield other.data.split.fold, run


def _folds(config: TrainingConfig) -> int | None:
    return config.data.split.folds if config.data is not None else None


def _but_fold(config: TrainingConfig) -> dict[str, Any]:
    values = config.model_dump(mode="json", exclude={"search"})
    if values.get("data"):
        values["data"]["split"].pop("fold", None)
    return values
