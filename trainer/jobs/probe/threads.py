"""Threads of the CPU: how many a step is fastest with, measured in turns, and put back.

Each number gives other last bits, so the number is a part of the configuration, and is changed before a baseline.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Mapping

import torch

from trainwright.trainer.base.errors import DivergenceError
from trainwright.trainer.engine.loop import take_step
from trainwright.trainer.engine.session import Session
from trainwright.trainer.jobs.probe.rates import endless
from trainwright.trainer.run.results import ThreadTest
from trainwright.trainer.supervision.sampling import allowed_cores

WORTH_IT = 1.2
"""So much faster a step must be to suggest another number."""
NEARLY = 1.1
"""A number within this factor of the fastest is as good: fewer threads leave cores to others."""
ROUNDS, STEPS = 3, 4
MOST_SECONDS = 20.0


def find_threads(session: Session) -> ThreadTest:
    """Time steps with one thread, two, four, … up to the cores that this process may use; return what helps."""
    present, cores = session.config.reproducibility.threads, max(1, int(allowed_cores()))
    if session.device.type != "cpu":
        return ThreadTest(why="the steps are computed on a GPU")
    counts = sorted({present, cores, *(2**power for power in range(cores.bit_length()))})
    if len(counts) == 1:
        return ThreadTest(why="this process may use one core")
    try:
        found = _timed(session, counts)
    finally:
        torch.set_num_threads(present)
    milliseconds = {count: round(1e3 * statistics.median(times), 3) for count, times in found.items() if times}
    return ThreadTest(tried=milliseconds, **suggestion(milliseconds, present))


def suggestion(milliseconds: Mapping[int, float], present: int) -> dict[str, object]:
    """Return the fewest threads that are nearly as fast as the fastest, where they are worth the change."""
    if len(milliseconds) < 2 or present not in milliseconds:
        return {"suggested": None, "why": "too few steps could be taken to try several numbers"}
    fastest = min(milliseconds.values())
    fewest = min(count for count, each in milliseconds.items() if each <= NEARLY * fastest)
    gain = milliseconds[present] / milliseconds[fewest]
    if fewest == present or gain < WORTH_IT:
        return {"suggested": None, "why": f"{present} are nearly as fast as any number up to {max(milliseconds)}"}
    return {"suggested": fewest, "why": f"a step is {gain:.2g} times as fast as with {present}"}


def _timed(session: Session, counts: list[int]) -> dict[int, list[float]]:
    """Return the seconds of steps by number of threads, which take turns; the first step of each turn is left out.

    It ends early where time is up or training diverges, with what was measured until then.
    """
    found: dict[int, list[float]] = {count: [] for count in counts}
    started, groups = time.monotonic(), endless(session, ROUNDS * len(counts) * (STEPS + 1))
    for count in counts * ROUNDS:
        torch.set_num_threads(count)
        for step in range(STEPS + 1):
            is_late = time.monotonic() - started > MOST_SECONDS
            if is_late or session.stop.asked or (group := next(groups, None)) is None:
                return found
            since = time.perf_counter()
            try:
                take_step(session, group)
            except DivergenceError:
                return found
            found[count] += [time.perf_counter() - since] if step else []
    return found
