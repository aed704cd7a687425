"""Comparison of a program's output with the targets over all rows: what is kept of each batch, and what follows."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from . import losses, metrics
from .counts import IGNORED
from .intervals import Resampling, bootstrap, wilson
from .readings import readings
from .rows import Array, RefusalError


class Kept:
    """Arrays of all batches, one behind the other: (rows, ...), or flat where rows have different shapes."""

    def __init__(self, batches: list[Array]) -> None:
        self.ends: Array | None = None
        if len({batch.shape[1:] for batch in batches}) == 1:
            self.values = np.concatenate(batches)
            return
        self.values = np.concatenate([batch.reshape(-1) for batch in batches])
        self.ends = np.cumsum([batch[0].size for batch in batches for _ in range(len(batch))])

    def at(self, rows: Array) -> Array:
        """Return the rows of these indices, (chosen,), as `values` has them."""
        if self.ends is None:
            return np.asarray(self.values[rows])
        starts = np.concatenate([[0], self.ends[:-1]])
        return np.concatenate([self.values[starts[row] : self.ends[row]] for row in rows])


@dataclass
class Comparison:
    """The only comparison, or that of one of several tasks of a model; its numbers bear the task's name in front."""

    name: str
    metrics: list[str]
    loss: Mapping[str, Any] | None
    kind: str | None = None
    """Of the loss: classification, regression, …"""
    weight: float = 1.0
    """Of its loss in the sum."""
    output: slice | None = None
    """Which columns of the program's first output; None: all."""
    target: str | None = None
    """Which of the samples' values it is, where they are named and it is none of the usual names."""
    columns: slice | None = None
    """Which columns of the targets, where tasks' stand side by side; None: all."""
    scaling: Mapping[str, Any] | None = None
    """Mean and scale of targets: the loss is of deviations from the mean."""
    groups: Array | None = None
    """Number of each row's group, (rows,), in the order of the rows; None: each row is one."""
    naive_errors: Sequence[float] = ()
    """Of a series: what the value one season before is off by on the train rows, of each target."""
    without_loss: str | None = None
    """Why there is no loss."""
    kept: dict[Any, list[Array]] = field(default_factory=dict)
    """What metrics keep of each batch, by the function that keeps it."""
    unfit: dict[str, str] = field(default_factory=dict)
    """Why metrics cannot be computed, by name."""
    whole: dict[str, Kept] = field(default_factory=dict)
    """The same of all rows, by metric, once it was asked for."""
    targets: list[Array] = field(default_factory=list)
    sums: list[Array] = field(default_factory=list)
    counts: list[Array] = field(default_factory=list)

    def __post_init__(self) -> None:
        """Choose the metrics that can be computed, and say why there is no loss where the order names none."""
        self.steps = metrics.steps_of(self.naive_errors)
        if self.loss is None:
            self.without_loss = "the loss is none of the built-in ones, or the model computes it itself"

    def add(self, outputs: Mapping[str, Array], given: Array | None) -> None:
        """Keep what is needed of one batch, first dimension rows. Raises RefusalError when outputs are not by row."""
        found = self._chosen(outputs)
        targets = self._wanted(np.asarray(given), found)
        if found.ndim == 0 or len(found) != len(targets):
            raise RefusalError(
                f"The program gives an output {found.shape} for {len(targets)} rows; its first dimension must be rows.",
                "Let the model return one prediction for each row.",
            )
        self._add_loss(found, targets)
        soft = self.kind == "classification" and targets.shape == found.shape and targets.dtype.kind == "f"
        targets = targets.argmax(1) if soft else targets
        self.targets.append(targets)
        for name in self.metrics:
            if name in self.steps and name not in self.unfit:
                self._keep(name, found, targets)

    def _chosen(self, outputs: Mapping[str, Array]) -> Array:
        first = next(iter(outputs.values()))
        return first if self.output is None else first[:, self.output]

    def _wanted(self, targets: Array, outputs: Array) -> Array:
        if self.columns is None and (self.kind != "classification" or targets.dtype.kind == "f"):
            return targets
        if self.columns is None:  # class numbers of any type, as losses/loss.py takes them
            is_column = targets.ndim == 2 and targets.shape[1] == 1 and outputs.ndim == 2
            return (targets[:, 0] if is_column else targets).astype(np.int64, copy=False)
        wide = targets.reshape(len(targets), -1)
        width = self.columns.stop - self.columns.start
        columns = wide if wide.shape[1] == width else wide[:, self.columns]
        return columns[:, 0].astype(np.int64) if self.kind == "classification" else columns

    def _keep(self, name: str, outputs: Array, targets: Array) -> None:
        keep, _ = self.steps[name]
        batches = self.kept.setdefault(keep, [])
        if len(batches) == len(self.targets):  # another metric keeps the same
            return
        try:
            batches.append(keep(outputs, targets))
        except (ValueError, IndexError) as error:
            self.unfit[name] = f"outputs {outputs.shape} and targets {targets.shape} do not fit it ({error})"

    def _add_loss(self, outputs: Array, targets: Array) -> None:
        if self.loss is None or self.without_loss is not None:
            return
        if self.scaling is not None:
            mean, scale = (np.asarray(self.scaling[name], dtype=float) for name in ("mean", "scale"))
            outputs, targets = ((_before(each, self.scaling) - mean) / scale for each in (outputs, targets))
        try:
            sums, counts = losses.terms(self.loss, outputs, targets)
        except (losses.NotComputableError, ValueError, IndexError) as error:
            self.without_loss = str(error)
            return
        self.sums.append(sums)
        self.counts.append(counts)

    def kept_for(self, name: str) -> Kept:
        """Return what a metric keeps of all rows. Raises ValueError where it is by groups, and they have none."""
        if name not in self.whole:
            found = Kept(self.kept[self.steps[name][0]])
            found.values = metrics.whole(name, found.values, Kept(self.targets).values, self.groups)
            self.whole[name] = found
        return self.whole[name]

    def mean_loss(self, rows: Array) -> float:
        """Return the mean of the loss's terms over the rows of these indices, (chosen,); NaN where none counts."""
        if len(self.sums) > 1:
            self.sums, self.counts = [np.concatenate(self.sums)], [np.concatenate(self.counts)]
        count = float(self.counts[0][rows].sum())
        return float(self.sums[0][rows].sum()) / count if count else float("nan")

    def report(self, answer: dict[str, Any], rows: Resampling) -> None:
        """Put the metrics of outputs into the answer, with their intervals.

        Raises:
            RefusalError: rows of one class number each have one that counts nowhere.
        """
        targets = Kept(self.targets)
        if self.kind == "classification" and self.columns is None and self.targets[0].ndim == 1:
            _require_counted(targets.values)
        prefix = f"{self.name}_" if self.name else ""
        for name in self.metrics:
            if name in self.steps and name not in self.unfit:
                self._report(name, targets, answer, prefix, rows)
            elif name not in metrics.OF_LOSS:
                answer["not_computed"][prefix + name] = self.unfit.get(name, _why_not(name))
        if self.name and self.without_loss is None:
            answer["metrics"][f"{prefix}loss"] = self.mean_loss(np.arange(sum(map(len, self.targets))))

    def _report(self, name: str, targets: Kept, answer: dict[str, Any], prefix: str, of: Resampling) -> None:
        value, rows = self.steps[name][1], sum(map(len, self.targets))
        try:
            kept = self.kept_for(name)
            found = float(value(kept.values, targets.values))
        except (ValueError, IndexError) as error:
            answer["not_computed"][prefix + name] = f"outputs and targets do not fit it ({error})"
            return
        answer["metrics"][prefix + name] = found
        if math.isfinite(found):
            answer["readings"][prefix + name] = readings(name, kept.values, targets.values, found)
        elif problem := metrics.problem_of(name, kept.values, targets.values):
            answer["not_computed"][prefix + name] = problem
        if name == "accuracy" and targets.values.size == rows and 0.0 <= found <= 1.0 and of.groups is None:
            between: tuple[float, float] | None = wilson(found, rows)
        else:
            between = bootstrap(lambda at: float(value(kept.at(at), targets.at(at))), kept.values.size, of)
        report_interval(prefix + name, between, kept.values.size, of, answer)


def report_interval(
    name: str, between: tuple[float, float] | None, values: int, of: Resampling, answer: dict[str, Any]
) -> None:
    """Put a number's interval into the answer; or its name among those of which the rows say nothing for others."""
    if between is not None:
        answer["intervals"][name] = list(between)
    elif not of.is_too_much(values):
        answer.setdefault("open", []).append(name)


def _require_counted(targets: Array) -> None:
    """Raise RefusalError where targets, (rows,), have the class number that counts nowhere."""
    if ignored := int(np.count_nonzero(targets == IGNORED)):
        raise RefusalError(
            f"{ignored} rows have the target {IGNORED}, which no metric counts: figures are of fewer rows.",
            "Give them their class, or leave them out of the split, then run planning's smoke run again.",
        )


def _before(numbers: Array, scaling: Mapping[str, Any]) -> Array:
    """Return numbers as they were standardized: their logarithm, where one was taken."""
    added = scaling.get("added")
    return numbers if added is None else np.log(np.maximum(numbers + float(added), np.finfo(np.float32).tiny))


def _why_not(name: str) -> str:
    if name in metrics.OF_TEXTS:
        return "it is of texts that the model writes word by word, and the program gives one step"
    if name in metrics.OF_SERIES:
        return "planning fixed no error of the value one season before, by which it divides"
    return "it is none of the built-in metrics"
