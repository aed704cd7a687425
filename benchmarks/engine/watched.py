"""What the watch costs: two trainings in one process, inspected and not, that take turns every ten steps.

So what else the machine does falls on both alike, and each block of steps has its counterpart a moment later. The cost
is the mean of the differences, for an inspected step is rare and dear: a median would not see it. Processor time of the
training threads. The time that the other training takes is kept from the schedule's clock.
"""

from __future__ import annotations

import gc
import math
import statistics
import tempfile
import threading
from pathlib import Path
from typing import Any, NamedTuple

import ours
import torch
from clock import Moment, now
from workload import LOG_EVERY, Workload

FIRST_STEPS = 3
"""Inspected whole, and told apart."""
CONFIDENT = 1.96
"""Standard errors in an interval of 95 %."""


class Cost(NamedTuple):
    """The watch's cost."""

    percent: float
    """Of a step after the first ones."""
    within: float
    """Half of the interval of 95 %, in percent points."""
    first_ms: float
    """Of the first steps together, more than without."""
    inspected: float
    """Steps of a training that were inspected after the first ones, a mean."""


def cost(workload: Workload, rounds: int) -> Cost:
    """Measure, print and return the watch's cost over so many pairs of trainings."""
    pairs = [_pair(workload, number) for number in range(rounds + 1)][1:]  # the first loads what is loaded lazily
    blocks = [pair for watched, bare in pairs for pair in zip(watched.blocks, bare.blocks, strict=True)]
    differences, base = [on - off for on, off in blocks], statistics.mean(off for _, off in blocks)
    error = statistics.stdev(differences) / math.sqrt(len(differences))
    found = Cost(
        percent=100 * statistics.mean(differences) / base,
        within=100 * CONFIDENT * error / base,
        first_ms=1e3 * statistics.median(watched.first - bare.first for watched, bare in pairs),
        inspected=statistics.mean(watched.inspected for watched, _ in pairs),
    )
    print(
        f"{workload.name}: watched {found.percent:+.2f} % a step of {1e3 * base / LOG_EVERY:.3f} ms (95 %: "
        f"{found.percent - found.within:+.2f} to {found.percent + found.within:+.2f}); {found.inspected:.1f} of "
        f"{workload.steps} steps inspected beside the first {FIRST_STEPS}, which take {found.first_ms:+.1f} ms more "
        f"together; {rounds} pairs of trainings, {len(blocks)} blocks of {LOG_EVERY} steps each"
    )
    return found


class Turns:
    """Turns of two threads: one of them works at a time, until the other has ended."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._whose = 0
        self._ended = [False, False]

    def wait(self, mine: int) -> None:
        """Wait for one's turn."""
        with self._changed:
            self._changed.wait_for(lambda: self._whose == mine or self._ended[1 - mine])

    def give(self, mine: int, *, for_good: bool = False) -> None:
        """Give the turn to the other thread."""
        with self._changed:
            self._ended[mine] = for_good
            self._whose = 1 - mine
            self._changed.notify_all()


class Training(threading.Thread):
    """One of the two trainings."""

    def __init__(self, workload: Workload, folder: Path, values: dict[str, Any], turns: Turns, mine: int) -> None:
        super().__init__()
        self.workload, self.folder, self.values, self.turns, self.mine = workload, folder, values, turns, mine
        self.begins: list[Moment] = []
        self.ends: list[Moment] = []
        self.inspected = 0

    def run(self) -> None:
        """Train in turns."""
        torch.set_num_threads(1)
        self.turns.wait(self.mine)
        try:
            self.ends = ours.run(self.folder / "run", self.values, self.folder.parent, self._between)
        finally:
            self.turns.give(self.mine, for_good=True)

    def _between(self, steps: int, watch: Any) -> None:
        self.inspected += sum(each.look is not None for each in watch) if steps > FIRST_STEPS else 0
        if steps % LOG_EVERY == 0:
            began, _ = now()
            self.turns.give(self.mine)
            self.turns.wait(self.mine)
            for each in watch:
                each.schedule.leave_out(now()[0] - began)
        self.begins.append(now())

    @property
    def seconds(self) -> list[float]:
        """Return the processor time of each step."""
        if len(self.ends) < self.workload.steps // 2:
            raise SystemExit(f"the training ended after {len(self.ends)} steps")
        return [end - begin for (_, begin), (_, end) in zip(self.begins, self.ends, strict=False)]

    @property
    def blocks(self) -> list[float]:
        """Return the seconds of each block of steps after the first ones."""
        late = self.seconds[self.workload.warmup_steps :]
        return [sum(late[at : at + LOG_EVERY]) for at in range(0, len(late) - LOG_EVERY + 1, LOG_EVERY)]

    @property
    def first(self) -> float:
        """Return the seconds of the first steps."""
        return sum(self.seconds[:FIRST_STEPS])


def _pair(workload: Workload, number: int) -> tuple[Training, Training]:
    """Train once with inspection and once without, in turns; return both.

    Which of them comes first alternates, for the place alone makes a difference.
    """
    gc.collect()
    with tempfile.TemporaryDirectory() as scratch:
        folder, turns = Path(scratch), Turns()
        values = {**ours.values_of(workload, folder), "seed": number}
        pair = [
            Training(workload, folder / inspect, {**values, "monitoring": {"inspect": inspect}}, turns, place)
            for place, inspect in enumerate(("auto", "off") if number % 2 else ("off", "auto"))
        ]
        for each in pair:
            each.start()
        for each in pair:
            each.join()
    watched, bare = pair if number % 2 else reversed(pair)
    return watched, bare
