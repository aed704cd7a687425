"""What the watch costs: the engine with inspection on and off, interleaved, over all steps after the first ones.

Means, for an inspected step is rare and dear: a median would not see it. Processor time of the training thread.
"""

from __future__ import annotations

import gc
import statistics
import tempfile
from pathlib import Path

import ours
from workload import Workload


def percent(workload: Workload, rounds: int) -> tuple[float, float]:
    """Return how much more a step costs, in percent, and the milliseconds that the first inspections take in all."""
    shares, first = [], []
    for number in range(rounds + 1):
        means = {}
        for inspect in ("auto", "off") if number % 2 else ("off", "auto"):
            gc.collect()
            ends = train(workload, number, inspect)
            late = ends[workload.warmup_steps :]
            means[inspect] = (late[-1][1] - late[0][1]) / (len(late) - 1) * 1e3, (ends[3][1] - ends[0][1]) * 1e3
        if number:  # the first round loads what is loaded lazily
            shares.append(100 * (means["auto"][0] / means["off"][0] - 1))
            first.append(means["auto"][1] - means["off"][1])
    spread = statistics.quantiles(shares, n=4) if len(shares) > 1 else [shares[0]] * 3
    print(
        f"{workload.name}: watched {statistics.median(shares):+.2f} % a step (quartiles {spread[0]:+.2f}, "
        f"{spread[2]:+.2f}); the first steps {statistics.median(first):+.2f} ms; {rounds} rounds interleaved"
    )
    return statistics.median(shares), statistics.median(first)


def train(workload: Workload, number: int, inspect: str) -> list[ours.Moment]:
    """Train one epoch with inspection `auto` or `off`; return the moment after each step."""
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        values = {**ours.values_of(workload, folder), "seed": number, "monitoring": {"inspect": inspect}}
        return ours.run(folder, values)
