"""Signals that a diagnostic document may watch: each turns a run's record into samples, in order of step.

A signal knows no threshold; the documents do. An empty list means "not measured", never "fine".
Shares are dimensionless: 0.15 is 15 %.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from inspect import isfunction

from trainwright.tools.training_monitor import chance_baseline, data_findings, no_effect
from trainwright.tools.training_monitor.record import RunRecord
from trainwright.tools.training_monitor.signals import (
    adversaries,
    costs,
    layers,
    losses,
    ranges,
    scores,
    spikes,
    turns,
    updates,
)
from trainwright.trainer.run.conditions import FINDINGS, LONGEST_WINDOW, READINGS, Sample, finding_sample


def _newest(record: RunRecord, key: str) -> list[Sample]:
    return [Sample(point.step, point.value) for point in record.metrics.tail(key, LONGEST_WINDOW)]


_MODULES = (
    losses, spikes, turns, scores, ranges, layers, updates, adversaries, costs, no_effect, chance_baseline,
    data_findings,
)  # fmt: skip
SIGNALS: dict[str, Callable[[RunRecord], list[Sample]]] = {
    name: partial(_newest, key=key) for name, key in READINGS.items()
} | {
    name: each
    for module in _MODULES
    for name, each in vars(module).items()
    if isfunction(each) and each.__module__ == module.__name__ and not name.startswith("_")
    if each.__annotations__.get("return") == "list[Sample]"
}
"""By name: READINGS, and every public function of these modules that returns samples. FINDINGS depend on who reads."""
OF_PROBES = frozenset({"rate_on_curve"})
"""Signals that are measured by a probe, which trains nothing that the others could judge."""
KNOWN = frozenset({*SIGNALS, FINDINGS})


def findings(record: RunRecord, of: str) -> list[Sample]:
    """What the worker's inspectors found under a diagnostic's id: its measured value, or 1 where it has none."""
    return [found for event in record.findings.get(of, []) if (found := finding_sample(event.data, of)) is not None]


def read_signal(record: RunRecord, name: str, of: str) -> list[Sample]:
    """Return a signal's samples; `of` is the id of the diagnostic that reads them."""
    return findings(record, of) if name == FINDINGS else SIGNALS[name](record)
