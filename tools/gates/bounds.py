"""Bounds of a project's evaluation gate, each with the final model's certified value: on all rows, slices, groups."""

from __future__ import annotations

from typing import Any, NamedTuple

from trainwright.tools.evaluation.slices import metrics_of_targets
from trainwright.tools.gates.records import Records
from trainwright.trainer.config.schema import EvaluationGateSection
from trainwright.trainer.metrics import built_in_of

TEST = "test/"
OF_TARGET = " of "
"""Between a metric and one of several targets: `r2 of strength`."""


class Bound(NamedTuple):
    """One bound, and the value that is held to it."""

    name: str
    """`accuracy`, `test/accuracy`, `r2 of strength`, `plan=basic accuracy`, `accuracy over churn/final-1`."""
    sign: str
    """`>=` or `<=`."""
    bound: float
    value: float | None
    """None: not measured."""
    rows: int | None = None
    """Of a slice."""
    problem: str = ""
    """Why it was not measured."""
    counts: bool = True
    """Whether it can close the gate: a group of too few rows does not."""

    @property
    def holds(self) -> bool:
        """Whether the value keeps the bound, or need not."""
        if self.value is None or not self.counts:
            return not self.counts
        return self.value >= self.bound if self.sign == ">=" else self.value <= self.bound

    @property
    def shown(self) -> str:
        """The value in words."""
        measured = f"not measured{f' ({self.problem})' if self.problem else ''}"
        value = measured if self.value is None else f"{self.value:.6g}"
        return value if self.rows is None else f"{value} on {self.rows} rows"


def bounds_of(evidence: Records) -> list[Bound]:
    """Return every bound of the configuration with the final model's value; none without an evaluation gate."""
    gate = evidence.config.evaluation_gate
    if gate is None:
        return []
    found = [Bound(name, ">=", bound, _value(evidence, name)) for name, bound in gate.minimum.items()]
    found += [Bound(name, "<=", bound, _value(evidence, name)) for name, bound in gate.maximum.items()]
    found += [_gain(evidence, gate, name, bound) for name, bound in gate.least_gain.items()]
    return found + slice_bounds(evidence, gate)


def slice_bounds(evidence: Records, gate: EvaluationGateSection) -> list[Bound]:
    """Return the bounds of slices, and of every group that the clean room found among the rows."""
    found = [
        _of_slice(evidence, name, metric, bound)
        for name, bounds in gate.slices.items()
        for metric, bound in bounds.items()
    ]
    for column, bounds in gate.groups.items():
        for metric, bound in bounds.items():
            groups = [name for name in _slices(evidence, metric) if name.startswith(f"{column}=")]
            each = [_of_slice(evidence, name, metric, bound) for name in groups if name not in gate.slices]
            found += [one._replace(counts=(one.rows or 0) >= gate.least_group_rows) for one in each]
            found += [] if groups else [Bound(f"{column} {metric}", ">=", bound, None, problem="no groups were found")]
    return found


def beside_of(evidence: Records) -> dict[str, Any]:
    """Return what the ledger has of the named baseline, beside the export or else the final run; empty without."""
    for run in (evidence.export, evidence.final):
        if run is not None and run.evaluation is not None and run.evaluation.beside:
            return run.evaluation.beside
    return {}


def baseline_value(evidence: Records, metric: str) -> float | None:
    """Return a metric of the named baseline, `test/…` of the test split; None where it is not known."""
    split = "test" if metric.startswith(TEST) else "validation"
    splits = beside_of(evidence).get("splits")
    found = splits.get(split, {}) if isinstance(splits, dict) else {}
    name, _, target = metric.removeprefix(TEST).partition(OF_TARGET)
    each = {one["name"]: one["metrics"] for one in found.get("targets", [])} | {"": found.get("metrics", {})}
    value = each.get(target, {}).get(name)
    return float(value) if value is not None else None


def without_baseline(gate: EvaluationGateSection) -> dict[str, None]:
    """Return the changes that take the baseline out, with the gains over it."""
    keys = ["baseline", *(["least_gain"] if gate.least_gain else [])]
    return {f"evaluation_gate.{key}": None for key in keys}


def is_smaller_better(metric: str) -> bool:
    """Return whether a metric is to be small: a loss, or a built-in one that is; of a task by its last part."""
    name = metric.removeprefix(TEST).partition(OF_TARGET)[0]
    known = built_in_of(name)
    return known.minimize if known is not None else name == "loss" or name.endswith("_loss")


def _gain(evidence: Records, gate: EvaluationGateSection, name: str, bound: float) -> Bound:
    value, reference = _value(evidence, name), baseline_value(evidence, name)
    gain = None
    if value is not None and reference is not None:
        gain = reference - value if is_smaller_better(name) else value - reference
    problem = (
        "" if reference is not None else str(beside_of(evidence).get("problem") or "the baseline has no such figure")
    )
    return Bound(f"{name} over {gate.baseline}", ">=", bound, gain, problem="" if gain is not None else problem)


def _of_slice(evidence: Records, name: str, metric: str, bound: float) -> Bound:
    sign = "<=" if is_smaller_better(metric) else ">="
    found = _slices(evidence, metric).get(name)
    if found is None:
        return Bound(f"{name} {metric}", sign, bound, None, problem="its rows were not evaluated apart")
    value = found["metrics"].get(metric.removeprefix(TEST))
    problem = str(found.get("problem") or "the clean room does not compute it")
    return Bound(
        f"{name} {metric}", sign, bound, value, rows=int(found["rows"]), problem="" if value is not None else problem
    )


def _slices(evidence: Records, metric: str) -> dict[str, dict[str, Any]]:
    evaluation = evidence.export.evaluation if evidence.export is not None else None
    split = "test" if metric.startswith(TEST) else "validation"
    return evaluation.slices(split) if evaluation is not None else {}


def _value(evidence: Records, name: str) -> float | None:
    """Return a metric of the final model on validation; with `test/` before it, of the export's test-set access."""
    metric, _, target = name.removeprefix(TEST).partition(OF_TARGET)
    if target:  # certified alone: a run's own process reports means over the targets
        evaluation = evidence.export.evaluation if evidence.export is not None else None
        split = "test" if name.startswith(TEST) else "validation"
        return metrics_of_targets(evaluation, split).get(target, {}).get(metric)
    if not name.startswith(TEST):
        return evidence.final_value(name)
    tested = evidence.export.tested_metrics() if evidence.export is not None else {}
    return tested.get(metric)
