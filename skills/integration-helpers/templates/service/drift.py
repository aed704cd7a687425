"""Drift: counts of inputs that differ from the training data. Values themselves are never kept or written."""

from __future__ import annotations

import asyncio
import json
import math
import sys
from collections import Counter, defaultdict
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from prometheus_client import Counter as Metric
from prometheus_client import Gauge

FAR = 4.0
"""Deviations of the train split from which on a number counts as far."""
UNNAMED = {
    "mask": "mask",
    "labels": "labels",
    "text": "text",
    "forecast": "forecast",
    "value": "number",
    "values": "number",
}
"""What an answer that is no class is counted as, by its key."""
ODD = Metric("inputs_odd", "Values that differ from the training data", ["field", "what"])
SHIFT = Gauge("input_shift", "Mean of a number since the last line, in deviations from that of training", ["field"])
PREDICTED = Metric("predictions", "Rows predicted", ["label"])

Field = dict[str, Any]


def odd(fields: Sequence[Field], statistics: dict[str, Any], values: Sequence[float]) -> list[tuple[Field, str]]:
    """Return which values of a table's row, one a field, are `missing`, `unseen` or `far`."""
    found = []
    for field, value in zip(fields, values, strict=True):
        known = statistics.get(field["name"])
        if math.isnan(value):
            found.append((field, "missing"))
        elif field["kind"] == "category" and value < 0:
            found.append((field, "unseen"))
        elif known is not None and abs(value - known["mean"]) > FAR * (known["scale"] or 1.0):
            found.append((field, "far"))
    return found


class Drift:
    """Counts since the last line, and the metrics for Prometheus.

    Args:
        log: file that gets a line from time to time; None: none does.
        classes: that are counted by name.
    """

    def __init__(self, log: Path | None, classes: Sequence[str] = ()) -> None:
        self.log, self.classes = log, classes
        self._begin()

    def _begin(self) -> None:
        self.rows = 0
        self.odd: dict[str, Counter[str]] = defaultdict(Counter)
        self.sums: dict[str, tuple[int, float]] = {}
        self.labels: Counter[str] = Counter()

    def note(self, field: str, what: str) -> None:
        """Count a value that is `missing`, `unseen`, `far` or `cut`."""
        self.odd[field][what] += 1
        ODD.labels(field, what).inc()

    def measure(self, field: str, deviations: float) -> None:
        """Take in a number, in deviations of the train split from its mean."""
        count, total = self.sums.get(field, (0, 0.0))
        self.sums[field] = (count + 1, total + deviations)

    def row(self, fields: Sequence[Field], statistics: dict[str, Any], values: Sequence[float]) -> None:
        """Count a table's row, as `odd` takes it."""
        for field, what in odd(fields, statistics, values):
            self.note(field["name"], what)
        for field, value in zip(fields, values, strict=True):
            known = statistics.get(field["name"])
            if known is not None and not math.isnan(value):
                self.measure(field["name"], (value - known["mean"]) / (known["scale"] or 1.0))

    def predicted(self, answers: list[dict[str, Any]]) -> None:
        """Count what was answered; of all but classes, only how many."""
        self.rows += len(answers)
        for answer in answers:
            label: str = next((name for key, name in UNNAMED.items() if key in answer), "answer")
            if answer.get("label") in self.classes:
                label = answer["label"]
            self.labels[label] += 1
            PREDICTED.labels(label).inc()

    def line(self) -> dict[str, Any] | None:
        """Return the counts since the last call, and begin anew; None where no row came."""
        if not self.rows:
            return None
        shift = {field: round(total / count, 4) for field, (count, total) in self.sums.items()}
        for field, value in shift.items():
            SHIFT.labels(field).set(value)
        found = {
            "at": datetime.now(UTC).isoformat(timespec="seconds"),
            "rows": self.rows,
            "odd": {field: dict(counts) for field, counts in self.odd.items()},
            "mean_shift": shift,
            "predicted": dict(self.labels),
        }
        self._begin()
        return found

    def write(self) -> None:
        """Append a line to the log; a log that cannot be written is no reason to stop answering."""
        found = self.line()
        if found is None or self.log is None:
            return
        try:
            with self.log.open("a", encoding="utf-8") as file:
                file.write(json.dumps(found, ensure_ascii=False) + "\n")
        except OSError as error:
            sys.stderr.write(f"The drift log {self.log} cannot be written: {error.strerror}.\n")

    async def follow(self, seconds: float) -> None:
        """Write a line every so many seconds, until it is cancelled."""
        while True:
            await asyncio.sleep(seconds)
            self.write()
