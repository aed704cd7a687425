"""Schedule of the inspected steps: the first three, then as many as cost less than a share of the time."""

from __future__ import annotations

import time

FIRST_STEPS = 3
SHARE = 0.005
"""Of the time since the first step, that inspecting may take: half of the promised hundredth."""
SPACING = 50
"""An inspected step is followed by at least a fiftieth of the steps so far: the rows grow with their logarithm."""
UNTIMED = 3.0
"""An inspected step counts as at most so often what the inspectors timed of themselves.

What they cannot time is how much slower hooks make everything else: the dispatch of each operation, of each module.
"""


class Schedule:
    """Decides whether the next step is inspected, from the seconds that it has cost so far."""

    def __init__(self, step: int) -> None:
        self.began = time.perf_counter()
        self.spent = self.costliest = 0.0
        """Seconds: of all inspections but the first ones', and of the costliest."""
        self.first = step
        """Step that this attempt began at."""
        self.wait_until = 0
        """Step before which none is due, without another look at the clock."""
        self._armed = self.began
        """When the inspected step began."""
        self._spent_in_all = 0.0

    def is_due(self, step: int) -> bool:
        """Whether the step of this number (from 1) is to be inspected."""
        if step < self.wait_until:
            return False
        done = step - self.first
        if done <= FIRST_STEPS:
            return True
        elapsed = time.perf_counter() - self.began
        missing = (self.spent + self.costliest) / SHARE - elapsed
        if missing > 0:  # by the steps' mean time so far; half of it, for they may become slower
            self.wait_until = step + max(1, int(missing / elapsed * done / 2))
        return missing <= 0

    def arm(self) -> None:
        """Begin an inspected step."""
        self._armed = time.perf_counter()

    def leave_out(self, seconds: float) -> None:
        """Leave out a time that is not the training's."""
        self.began += seconds
        self._armed += seconds

    def note(self, step: int, timed: float) -> None:
        """Count an inspection. The very first is no measure: everything in it runs for the first time.

        Args:
            timed: seconds that the inspectors timed of themselves.
        """
        done = step - self.first
        seconds = self._cost(done, timed)
        self._spent_in_all += seconds
        if done > 1:
            self.costliest = max(seconds, 0.7 * self.costliest)
        if done > FIRST_STEPS:
            self.spent += seconds
        if done >= FIRST_STEPS:
            self.wait_until = step + max(FIRST_STEPS, step // SPACING)

    def _cost(self, done: int, timed: float) -> float:
        """Return what an inspected step took longer than those before took on average, in seconds."""
        if done <= 1:
            return timed
        usual = (self._armed - self.began - self._spent_in_all) / (done - 1)
        return min(max(time.perf_counter() - self._armed - usual, timed), UNTIMED * timed)
