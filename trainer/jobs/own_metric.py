"""Metric of the user's, evaluated apart: `python -P -m trainwright.trainer.jobs.own_metric`, the order on its input.

The process has the outputs of the exported program on the fixed rows, the targets, and copies of the function's file
and of those that it imports: no model, no run, no other file of the user's. One JSON object on standard output:
`values` and `intervals` by split and name, or a `problem`.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import torch

from trainwright.trainer.clean_room.intervals import RESAMPLES, Resampling, bootstrap
from trainwright.trainer.jobs.apart import function_of, main

INTERVAL_SECONDS = 20.0
"""Most that an interval may take."""
Values = dict[str, float]


def _answered(order: Mapping[str, Any]) -> dict[str, Any]:
    torch.set_num_threads(1)
    compute = function_of(order, order["args"])
    values: dict[str, Values] = {}
    intervals: dict[str, dict[str, list[float]]] = {}
    rivals: dict[str, dict[str, Any]] = {}
    for split, folder in order["splits"].items():
        outputs, targets = (_tensor(Path(folder) / name) for name in ("outputs.npy", "targets.npy"))
        began = time.monotonic()
        values[split] = _named(order["name"], compute(outputs, targets))
        seconds = time.monotonic() - began
        is_quick = seconds * RESAMPLES < INTERVAL_SECONDS and order["has_intervals"]
        intervals[split] = _intervals(order["name"], compute, outputs, targets) if is_quick else {}
        rivals[split] = {}
        for path in Path(folder).glob("rival_*.npy"):
            with suppress(Exception):  # the function may be of a model's outputs alone
                other = _tensor(path)
                theirs = _named(order["name"], compute(other, targets))
                between = _intervals(order["name"], compute, outputs, targets, other) if is_quick else {}
                rivals[split][path.name] = {"values": theirs, "intervals": between}
    return {"values": values, "intervals": intervals, "rivals": rivals}


def _tensor(path: Path) -> torch.Tensor:
    return torch.from_numpy(np.load(path, allow_pickle=False))


def _named(name: str, result: Any) -> Values:
    found = result if isinstance(result, Mapping) else {name: result}
    return {str(one): float(value) for one, value in found.items()}


def _intervals(
    name: str, compute: Callable[[Any, Any], Any], outputs: Any, targets: Any, other: Any = None
) -> dict[str, list[float]]:
    """Return the interval over rows of a function that gives one number, or of its difference from other outputs."""
    if isinstance(compute(outputs, targets), Mapping):
        return {}

    def value(at: Any) -> float:
        theirs = 0.0 if other is None else float(compute(other[at], targets[at]))
        return float(compute(outputs[at], targets[at])) - theirs

    between = bootstrap(value, len(targets), Resampling(len(targets)))
    return {} if between is None else {name: list(between)}


if __name__ == "__main__":
    sys.exit(main(_answered))
