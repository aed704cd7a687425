"""Comparison of runs: their results, and the differences between them. Small: equal values are left out."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from pydantic import BaseModel, ConfigDict

from trainwright.tools.training_monitor.differences import identity_differences, named_differences, unequal
from trainwright.tools.training_monitor.no_effect import differing_keys, trained_alike
from trainwright.tools.training_monitor.record import FOLLOW, TRAIN_LOSS, Basis, RunRecord, basis_of
from trainwright.tools.training_monitor.seeds import SeedGroup, claims, seed_groups
from trainwright.trainer.config import leaves

if TYPE_CHECKING:
    from collections.abc import Sequence

    from trainwright.trainer.run import Goal, RunDirectory


class RunRow(BaseModel):
    """One run's results. Metrics are validation metrics."""

    model_config = ConfigDict(frozen=True)

    run_id: str
    kind: str
    state: str
    epochs: int
    seconds: float | None
    """Training time as the worker's summary states it."""
    best_epoch: int | None
    selection_metric: str | None
    best: dict[str, float]
    """Every validation metric at the best epoch; without the losses where the compared runs measure them otherwise."""
    final: dict[str, float]
    """Every validation metric at the last epoch."""


class RunComparison(BaseModel):
    """Several runs, and their differences."""

    model_config = ConfigDict(frozen=True)

    runs: list[RunRow]
    differences: dict[str, dict[str, Any]]
    """Dotted configuration key → its value by run, where they differ; None where it is absent."""
    identity_differences: dict[str, dict[str, str | None]]
    """Of environment, data, code and engine: those whose digests (shortened) differ; None: not recorded."""
    named: dict[str, list[str]]
    """Packages, code files, data and hardware in which another run differs from the first, in words."""
    groups: list[SeedGroup]
    """All compared runs, those of one configuration on several seeds together, the best first."""
    left_out: int = 0
    """Runs that are compared in `groups` alone: the others are better."""
    losses_compared: bool = True
    """Whether the runs measure their losses alike."""
    notes: list[str]


def compare_runs(runs: Sequence[RunDirectory], most: int | None = None, goal: Goal | None = None) -> RunComparison:
    """Compare runs by their records.

    Args:
        most: runs that stand side by side; of more, the best of their selection metric.
        goal: of the project; it ranks runs whose losses are of other scales.

    Raises:
        IntegrityError: a run's record is damaged.
    """
    every = [RunRecord(run) for run in runs]
    basis = basis_of(every, goal)
    shown = _best(every, most, basis)
    records = {record.run.run_id: record for record in shown}
    configs = {name: leaves(record.config.model_dump(mode="json")) for name, record in records.items()}
    keys = sorted({key for config in configs.values() for key in config})
    identity, groups = identity_differences(records), seed_groups(every, basis)
    return RunComparison(
        runs=[_row(record, basis) for record in shown],
        differences=unequal({key: {name: config.get(key) for name, config in configs.items()} for key in keys}),
        identity_differences=identity,
        named=named_differences(records),
        groups=groups,
        left_out=len(every) - len(shown),
        notes=_refusal(basis) + _notes(shown, identity) + _without_effect(shown) + claims(groups),
        losses_compared=not basis.refused,
    )


def _best(records: list[RunRecord], most: int | None, basis: Basis) -> list[RunRecord]:
    """Return so many of the records, the best by the first one's metric; all in their order where they are fewer."""
    if most is None or len(records) <= most:
        return records

    def rank(record: RunRecord) -> float:
        value = basis.value_of(record)
        return -math.inf if value is None else basis.sign * value

    return sorted(records, key=rank, reverse=True)[:most]


def _row(record: RunRecord, basis: Basis) -> RunRow:
    best, recorded = record.best, record.metrics.keys()
    series = {
        key.removeprefix("validation/"): [s for s in record.by_epoch(key) if math.isfinite(s.value)]
        for key in recorded
        if key.startswith("validation/") and not (basis.refused and key.removeprefix("validation/") in FOLLOW)
    }
    epochs = record.by_epoch(TRAIN_LOSS) or (record.by_epoch(record.selection_key) if record.selection_key else [])
    return RunRow(
        run_id=record.run.run_id,
        kind=record.specification.kind,
        state=record.status.state,
        epochs=(epochs[-1].epoch or 0) if epochs else 0,
        seconds=record.summary.train_seconds if record.summary else None,
        best_epoch=best.epoch if best else None,
        selection_metric=record.selection_key,
        best={name: s.value for name, samples in series.items() for s in samples if best and s.step == best.step},
        final={name: samples[-1].value for name, samples in series.items() if samples},
    )


def _refusal(basis: Basis) -> list[str]:
    """Return why the losses are not compared, and what is."""
    if not basis.refused:
        return []
    by = f"they are compared by {basis.key}" if basis.key else "compare the goal's metric"
    return [f"The losses are not compared: the runs differ in {basis.refused}, so a loss is of another scale; {by}."]


def _without_effect(records: list[RunRecord]) -> list[str]:
    """Return a sentence for every run that trained as an earlier one of these did, though its keys say otherwise."""
    notes = []
    for place, record in enumerate(records):
        first = next((other for other in records[:place] if trained_alike(other, record)), record)
        if keys := list(differing_keys(first, record)):
            names = f"{first.run.run_id} and {record.run.run_id}"
            notes.append(f"The losses of {names} are the same bit for bit: {', '.join(keys)} had no effect.")
    return notes


def _notes(records: list[RunRecord], different: dict[str, dict[str, str | None]]) -> list[str]:
    notes = []
    if "data" in different:
        notes.append("The data differ: metrics of these runs are not comparable.")
    if "environment" in different or "engine" in different:
        notes.append("The environment or engine differs: equal seeds need not give equal weights.")
    if len({record.config.seed for record in records}) > 1:
        notes.append("The seeds differ: part of the difference is chance.")
    if len({record.selection_key for record in records}) > 1:
        notes.append("The runs chose their best epochs by different metrics.")
    return notes
