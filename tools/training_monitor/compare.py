"""Comparison of runs: their results, and the differences between them. Small: equal values are left out."""

from __future__ import annotations

import math
import statistics
from collections.abc import Mapping, Sequence
from itertools import chain, zip_longest
from typing import Any

from trainwright.tools.training_monitor.no_effect import differing_keys, is_beside_training, trained_alike
from trainwright.tools.training_monitor.record import FOLLOW, TRAIN_LOSS, Basis, RunRecord, basis_of
from trainwright.trainer.base.canonical import digest_json
from trainwright.trainer.base.records import Frozen
from trainwright.trainer.base.text import cut
from trainwright.trainer.config import flatten, leaves
from trainwright.trainer.run import Goal, RunDirectory

# Groups of runs that differ in their seed alone: mean and deviation of each, and what may be claimed between two.
#
# A difference of two configurations that each ran on one seed may be chance (Bouthillier et al. 2021,
# arXiv:2103.03098).

MIN_SEEDS = 3
"""Of each configuration, before a difference of two is called one."""
ERRORS_APART = 2.0
"""Standard errors by which means must differ: about a 95 % interval."""


class SeedGroup(Frozen):
    """Runs of one configuration, data and code, on several seeds or one."""

    runs: list[str]
    seeds: int
    metric: str | None
    mean: float | None = None
    """Of the best epochs' values."""
    deviation: float | None = None
    """Sample standard deviation; None of one seed."""

    @property
    def name(self) -> str:
        """The first run's id, and how many more there are."""
        return self.runs[0] + (f" and {len(self.runs) - 1} more" if len(self.runs) > 1 else "")


def seed_groups(records: Sequence[RunRecord], basis: Basis) -> list[SeedGroup]:
    """Group runs that differ only in their seed (and in keys beside training), the best mean first."""
    groups = [_group(members, basis) for members in _by_group(records)]
    return sorted(groups, key=lambda group: -math.inf if group.mean is None else basis.sign * group.mean, reverse=True)


def _by_group(records: Sequence[RunRecord]) -> list[list[RunRecord]]:
    found: dict[str, list[RunRecord]] = {}
    for record in records:
        found.setdefault(digest_json(_identity(record)), []).append(record)
    return list(found.values())


def _identity(record: RunRecord) -> list[Any]:
    config = flatten(record.config.model_dump(mode="json"))
    kept = {key: value for key, value in config.items() if key != "seed" and not is_beside_training(key)}
    return [kept, record.config.selection.metric, record.data.fingerprint, record.code.meaning or record.code.digest]


def _group(members: list[RunRecord], basis: Basis) -> SeedGroup:
    values = [value for record in members if (value := basis.value_of(record)) is not None]
    return SeedGroup(
        runs=[record.run.run_id for record in members],
        seeds=len({record.config.seed for record in members}),
        metric=basis.key_of(members[0]),
        mean=statistics.fmean(values) if values else None,
        deviation=statistics.stdev(values) if len(values) > 1 else None,
    )


def claims(groups: Sequence[SeedGroup]) -> list[str]:
    """Return what the values of the best two groups allow to say of their difference."""
    valued = [group for group in groups if group.mean is not None]
    if len(valued) < 2 or len({group.metric for group in valued}) > 1:
        return []
    first, second = valued[:2]
    apart = abs((first.mean or 0.0) - (second.mean or 0.0))
    few = [group for group in (first, second) if group.seeds < MIN_SEEDS]
    if few:
        seeds = " and ".join(f"{group.seeds} seed{'s' if group.seeds > 1 else ''} ({group.name})" for group in few)
        return [
            f"No claim that one is better: {seeds}, and another seed may change the {apart:.4g} by which "
            f"they differ in {first.metric}. {MIN_SEEDS} seeds of each would tell."
        ]
    error = math.sqrt(sum((group.deviation or 0.0) ** 2 / len(group.runs) for group in (first, second)))
    spread = (
        f"{apart:.4g} apart in {first.metric}, {apart / error:.1f} standard errors" if error else f"{apart:.4g} apart"
    )
    if apart > ERRORS_APART * error:
        return [f"{first.name} is better than {second.name}: means {spread} ({first.seeds} and {second.seeds} seeds)."]
    return [f"No claim that {first.name} is better than {second.name}: means {spread}."]


# Differences of runs beside their configurations: packages by version, code by file, data by split, engine.

MAX_NAMED = 8
SHORT = 19
"""Characters of a digest that are shown."""


def identity_differences(records: Mapping[str, RunRecord]) -> dict[str, dict[str, str | None]]:
    """Return, by run, the digests (shortened) that must agree for results to be comparable, where they do not."""
    found: dict[str, dict[str, str | None]] = {
        "environment": {name: record.environment.fingerprint for name, record in records.items()},
        "data": {name: record.data.fingerprint for name, record in records.items()},
        "code": {name: record.code.digest for name, record in records.items()},
        "engine": {name: record.code.engine_digest for name, record in records.items()},
    }
    return unequal({what: {name: each and each[:SHORT] for name, each in one.items()} for what, one in found.items()})


def named_differences(records: Mapping[str, RunRecord]) -> dict[str, list[str]]:
    """Return what differs between the first run and any other, in words: packages, code files, data, hardware.

    At most a few of each are named, the rest is counted.
    """
    first, *others = records.values()
    found: dict[str, list[str]] = {"packages": [], "code": [], "data": [], "hardware": []}
    for other in others:
        found["packages"] += _packages(first, other)
        found["code"] += _files(_code(first), _code(other))
        found["data"] += _data(first, other)
        found["hardware"] += _hardware(first, other)
    distinct = {what: list(dict.fromkeys(lines)) for what, lines in found.items()}
    return {what: _bounded(lines) for what, lines in distinct.items() if lines}


def _bounded(lines: list[str]) -> list[str]:
    more = len(lines) - MAX_NAMED
    return lines if more <= 0 else [*lines[:MAX_NAMED], f"and {more} more"]


def _packages(first: RunRecord, other: RunRecord) -> list[str]:
    old, new = first.environment.packages, other.environment.packages
    if not (old and new):
        return []
    names = sorted(name for name in old.keys() | new.keys() if old.get(name) != new.get(name))
    return [f"{name} {old.get(name, 'absent')} -> {new.get(name, 'absent')}" for name in names]


def _code(record: RunRecord) -> dict[str, str]:
    return record.code.meanings or record.code.files


def _files(old: dict[str, str], new: dict[str, str]) -> list[str]:
    if not (old and new):
        return []
    words = {(True, True): "changed", (True, False): "gone", (False, True): "new"}
    names = sorted(name for name in old.keys() | new.keys() if old.get(name) != new.get(name))
    return [f"{name} {words[name in old, name in new]}" for name in names]


def _data(first: RunRecord, other: RunRecord) -> list[str]:
    lines = _files(first.data.files, other.data.files)
    old, new = first.data.splits, other.data.splits
    for name in old.keys() & new.keys():
        if old[name].fingerprint != new[name].fingerprint:
            lines.append(f"{name} {old[name].size} -> {new[name].size} rows, other content")
    if first.data.preprocessing_digest != other.data.preprocessing_digest:
        lines.append("preprocessing")
    return lines


def _other_facts(first: RunRecord, other: RunRecord) -> list[str]:
    old, new = first.environment.facts, other.environment.facts
    return sorted(fact for fact in old.keys() & new.keys() if old[fact] != new[fact])


def _hardware(first: RunRecord, other: RunRecord) -> list[str]:
    old, new = first.environment.facts, other.environment.facts
    return [f"{fact}: {cut(old[fact], 40)} -> {cut(new[fact], 40)}" for fact in _other_facts(first, other)]


def unequal(table: dict[str, dict[str, Any]]) -> dict[str, dict[str, Any]]:
    """Keep the rows whose values are not all the same."""
    rows = {key: list(row.values()) for key, row in table.items()}
    return {key: table[key] for key, row in rows.items() if any(value != row[0] for value in row)}


class RunRow(Frozen):
    """One run's results. Metrics are validation metrics."""

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


class RunComparison(Frozen):
    """Several runs, and their differences."""

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
    """Runs that are compared in `groups` alone: of each group the better ones are shown."""
    losses_compared: bool = True
    """Whether the runs measure their losses alike."""
    notes: list[str]


def compare_runs(runs: Sequence[RunDirectory], most: int | None = None, goal: Goal | None = None) -> RunComparison:
    """Compare runs by their records.

    Args:
        most: runs that stand side by side; of more, the best of each group by their selection metric.
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
    """Return so many of the records, by the first one's metric the best of each group, then their second; or all.

    So every arm of an ablation study, and an experiment's incumbent, is among them.
    """
    if most is None or len(records) <= most:
        return records

    def rank(record: RunRecord) -> float:
        value = basis.value_of(record)
        return -math.inf if value is None else basis.sign * value

    ranked = sorted(records, key=rank, reverse=True)
    in_turn = chain.from_iterable(zip_longest(*_by_group(ranked)))
    return [record for record in in_turn if record is not None][:most]


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
