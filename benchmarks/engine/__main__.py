"""`make bench-engine`: what a step costs in a bare loop, in the engine with everything on, and what the watch adds.

All take turns in one process, training on one thread, so that what else the machine does falls on each alike. A figure
is the median over windows of ten steps (between two looks at the recorded values) of a round, then over rounds; an
overhead is the median over rounds of the difference to the bare loop of the same round.

Two clocks: the wall, and the processor time of the training thread. On a quiet machine they agree; on a busy one the
wall also holds what other programs took, so the figures of the last line, one JSON object, are processor time. What the
engine's other threads (heartbeat, sampler of the machine) take is told per second, for they do not work per step.
"""

from __future__ import annotations

import argparse
import contextlib
import ctypes
import gc
import json
import os
import statistics
from collections.abc import Callable, Sequence
from functools import partial

import bare
import ours
import torch
import watched
from clock import Moment
from workload import LOG_EVERY, Workload

SMALL = Workload("mlp", hidden=(128, 64), batch_size=32, steps=440, warmup_steps=40)
LONG = Workload("mlp, watched", hidden=(128, 64), batch_size=32, steps=4000, warmup_steps=40)
LARGE = Workload("large step", hidden=(512, 512), batch_size=3072, steps=34, warmup_steps=4)
LARGE_LONG = Workload("large step, watched", hidden=(512, 512), batch_size=3072, steps=210, warmup_steps=10)
"""Long enough for inspections beyond the first three steps' to be due."""

M_TRIM_THRESHOLD, M_MMAP_THRESHOLD = -1, -3
"""Of malloc.h."""

Contender = Callable[[Workload, int], list[Moment]]
CONTENDERS: dict[str, Contender] = {
    "bare loop": bare.train,
    "bare loop, clipping": partial(bare.train, clip=True),
    "trainwright": ours.train,
}


def main() -> None:
    """Measure, print the tables, and the figures as one JSON object."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="fewer rounds, under a minute")
    parser.add_argument("--only", choices=["watch"], help="what the watch costs, and nothing else")
    asked = parser.parse_args()
    quick = asked.quick
    torch.set_num_threads(1)
    keep_freed_memory()
    began = os.getloadavg()[0]
    if asked.only:
        costs = {each.name: watched.cost(each.load(), 3 if quick else 12) for each in (LONG, LARGE_LONG)}
        print(json.dumps({f"{name} percent": round(cost.percent, 2) for name, cost in costs.items()}))
        return
    small = compare(SMALL.load(), CONTENDERS, rounds=3 if quick else 12)
    pair = {name: CONTENDERS[name] for name in ("bare loop", "trainwright")}
    large = compare(LARGE.load(), pair, rounds=2 if quick else 9)
    watch = {each.name: watched.cost(each.load(), 3 if quick else 12) for each in (LONG, LARGE_LONG)}
    print(
        f"\nload of the machine: {began:.1f} at the start, {os.getloadavg()[0]:.1f} at the end; {os.cpu_count()} cores"
    )
    figures: dict[str, float | str] = {
        "mlp_overhead_ms": round(small["trainwright"][1], 3),
        "mlp_overhead_clipping_ms": round(small["bare loop, clipping"][1], 3),
        "large_step_overhead_percent": round(100 * large["trainwright"][1] / large["bare loop"][0], 2),
        "watch_percent": round(watch[LONG.name].percent, 2),
        "watch_large_step_percent": round(watch[LARGE_LONG.name].percent, 2),
    }
    if quick:
        figures["label"] = "quick: few rounds, so an indication only"
    print(json.dumps(figures))


def keep_freed_memory() -> None:
    """Let the C library keep what is freed, for all alike.

    Whether it gives a large buffer back after each step, to fault it in again, hangs on what the process did before:
    it came to 3 % of a step of 50 ms for whoever was unlucky. Elsewhere than under glibc nothing is done.
    """
    with contextlib.suppress(OSError, AttributeError):
        mallopt = ctypes.CDLL("libc.so.6").mallopt
        mallopt(M_TRIM_THRESHOLD, 2**30)
        mallopt(M_MMAP_THRESHOLD, 2**25)


def compare(workload: Workload, contenders: dict[str, Contender], rounds: int) -> dict[str, tuple[float, float]]:
    """Return (milliseconds of processor time per step, milliseconds above the bare loop) of each, and print them."""
    medians: dict[str, list[Moment]] = {name: [] for name in contenders}
    for number in range(rounds + 1):
        for name, train in contenders.items():
            gc.collect()
            ends = train(workload, number)
            if number:  # the first round loads what is loaded lazily
                medians[name].append(per_step(ends[workload.warmup_steps :]))
    print(f"\n{workload.name}: hidden {workload.hidden}, batch {workload.batch_size}; {rounds} rounds interleaved")
    print(f"{'ms per step':24}{'processor':>12}{'above bare':>12}{'wall':>12}{'above bare':>12}")
    found = {}
    for name, own in medians.items():
        (wall, wall_above), (cpu, cpu_above) = (above(own, medians["bare loop"], clock) for clock in (0, 1))
        print(f"{name:24}{cpu:12.3f}{cpu_above:+12.3f}{wall:12.3f}{wall_above:+12.3f}")
        found[name] = cpu, cpu_above
    return found


def above(own: Sequence[Moment], base: Sequence[Moment], clock: int) -> tuple[float, float]:
    """Return the median of a clock's figures, and of their differences to the bare loop's of the same round."""
    differences = [mine[clock] - theirs[clock] for mine, theirs in zip(own, base, strict=True)]
    return statistics.median(figure[clock] for figure in own), statistics.median(differences)


def per_step(ends: list[Moment]) -> Moment:
    """Return the median milliseconds per step over windows of LOG_EVERY steps: each holds one look at the values."""
    places = range(0, len(ends) - LOG_EVERY, LOG_EVERY)
    wall, cpu = (
        statistics.median((ends[place + LOG_EVERY][clock] - ends[place][clock]) / LOG_EVERY * 1e3 for place in places)
        for clock in (0, 1)
    )
    return wall, cpu


if __name__ == "__main__":
    main()
