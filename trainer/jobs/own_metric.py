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
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch

from trainwright.trainer.clean_room.intervals import RESAMPLES, Resampling, bootstrap
from trainwright.trainer.jobs.apart import function_of, main

INTERVAL_SECONDS = 60.0
"""Most that all intervals may take together, about, of the 120 s that the process has."""
Values = dict[str, float]


def answered(order: Mapping[str, Any]) -> dict[str, Any]:
    """Return `values`, `intervals` and `rivals` of an order: `splits` by name with the folders of their arrays."""
    torch.set_num_threads(1)
    compute = function_of(order, order["args"])
    values: dict[str, Values] = {}
    intervals: dict[str, dict[str, list[float]]] = {}
    rivals: dict[str, dict[str, Any]] = {}
    for split, place in order["splits"].items():
        folder = Path(place)
        outputs, targets = (_tensor(folder / name) for name in ("outputs.npy", "targets.npy"))
        numbers = partial(_numbers, order["name"], compute, targets)
        began = time.monotonic()
        values[split] = numbers(outputs)
        others = sorted(folder.glob("rival_*.npy"))
        calls = RESAMPLES * len(values[split]) * (1 + 2 * len(others)) * len(order["splits"])
        is_quick = (time.monotonic() - began) * calls < INTERVAL_SECONDS
        of = Resampling(len(targets), groups=_groups(folder)) if is_quick else None
        intervals[split] = _intervals(numbers, of, outputs)
        rivals[split] = {}
        for path in others:
            with suppress(Exception):  # the function may be of a model's outputs alone
                other = _tensor(path)
                beside = {"values": numbers(other), "intervals": _intervals(numbers, of, outputs, other)}
                rivals[split][path.name] = beside
    return {"values": values, "intervals": intervals, "rivals": rivals}


def _tensor(path: Path) -> torch.Tensor:
    return torch.from_numpy(np.load(path, allow_pickle=False))


def _groups(folder: Path) -> Any:
    """Return each row's group, (rows,), as the clean room wrote them; None: the rows stand for themselves."""
    path = folder / "groups.npy"
    return np.load(path, allow_pickle=False) if path.is_file() else None


def _numbers(
    name: str, compute: Callable[[Any, Any], Any], targets: Any, outputs: Any, at: Any = slice(None)
) -> Values:
    result = compute(outputs[at], targets[at])
    found = result if isinstance(result, Mapping) else {name: result}
    return {str(one): float(value) for one, value in found.items()}


def _intervals(
    numbers: Callable[..., Values], of: Resampling | None, outputs: Any, other: Any = None
) -> dict[str, list[float]]:
    """Return the interval of each number, or of its difference from that of other outputs; none without `of`.

    Nor of a number that the function gives for all rows alone, and not for rows that are drawn anew.
    """
    found: dict[str, list[float]] = {}
    if of is None:
        return found

    def value(one: str, at: Any) -> float:
        return numbers(outputs, at)[one] - (0.0 if other is None else numbers(other, at)[one])

    for one in numbers(outputs):
        with suppress(Exception):
            between = bootstrap(partial(value, one), of.rows, of)
            found |= {} if between is None else {one: list(between)}
    return found


if __name__ == "__main__":
    sys.exit(main(answered))
