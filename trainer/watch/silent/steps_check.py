"""Steps of optimizers that do something else than is meant: carried gradients, clipped ones, and rates."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from trainwright.trainer.watch.inspector import Finding
from trainwright.trainer.watch.silent.parameters_check import PATIENCE, listed
from trainwright.trainer.watch.silent.record import StepRecord

NOTHING = 1e-4
"""Norm of all gradients together, under which a clipped one moves nothing."""
CUT = 1e-2
"""Share of the gradient that clipping leaves, from which on it is suspected."""
SCALES = (8, 24)
"""Powers of two that loss scaling multiplies gradients with."""


def carried_gradients(history: Sequence[StepRecord]) -> Iterator[Finding]:
    """Gradients of an earlier update that the next one uses again."""
    record = history[-1]
    names = set().union(*(update.carried for update in record.updates)) & set(record.trainable)
    if names:
        yield Finding(
            "gradients_not_zeroed",
            record.share(names),
            tuple(sorted(names)),
            detail=f"the gradients of {listed(names)} still had those of the update before in them",
        )


def clipped_gradients(history: Sequence[StepRecord]) -> Iterator[Finding]:
    """Gradients that are made so small before the update that it does nothing."""
    for update in history[-1].updates if history[-1].is_users else []:
        arrived, applied = update.arrived or 0.0, update.applied
        if 0 < applied < NOTHING and applied < CUT * arrived and not _is_scaling(arrived / applied):
            detail = f"the gradient's norm fell from {arrived:.3g} after backward to {applied:.3g} at the update"
            yield Finding("gradients_clipped_away", applied, detail=detail)


def zero_rates(history: Sequence[StepRecord]) -> Iterator[Finding]:
    """A rate of zero in every group at two steps; under a schedule, which may begin at zero, at three."""
    updates = [update for record in history for update in record.updates]
    steps = PATIENCE if any(update.has_schedule for update in updates) else 2
    recent = history[-steps:]
    if len(recent) == steps and all(record.updates for record in recent) and not any(u.rate for u in updates):
        detail = f"the learning rate was 0 in every group at steps {recent[0].step} to {recent[-1].step}"
        yield Finding("learning_rate_zero", 0.0, detail=detail)


def _is_scaling(factor: float) -> bool:
    return any(abs(factor / 2**power - 1) < 1e-3 for power in range(*SCALES))


class Rates:
    """The learning rate of every step, which costs nothing to compare: has it gone long before training is over?"""

    GONE = 1e-8
    """Share of the highest rate so far, from which on there is none."""
    EARLY = 0.3
    """Share of all steps."""
    MIN_STEPS = 20

    def __init__(self, total_steps: int) -> None:
        self.total = total_steps
        self.rates: list[float] = []
        """Of the first steps of this attempt."""
        self.highest = 0.0

    def note(self, step: int, rate: float) -> Finding | None:
        """Take a step's rate; return what is wrong with the schedule."""
        self.highest = max(self.highest, rate)
        if step == len(self.rates) + 1 and len(self.rates) < PATIENCE:
            self.rates.append(rate)
            if len(self.rates) == PATIENCE and (found := self._falls()) is not None:
                return found
        if self.highest > 0 and rate <= self.GONE * self.highest and step < self.EARLY * self.total:
            left = self.total - step
            detail = f"the learning rate has fallen to {rate:.3g} at step {step} of {self.total}, {left} before the end"
            return Finding("scheduler_misused", left / self.total, detail=detail)
        return None

    def _falls(self) -> Finding | None:
        """Return the finding where the rate is multiplied by the same factor at each of the first steps."""
        first, second, third = self.rates
        if not first > second > third > 0 or abs(third / second - second / first) > 1e-6:
            return None
        factor, left = second / first, self.total - PATIENCE
        if self.total < self.MIN_STEPS or factor**left >= self.GONE:
            return None
        detail = f"the learning rate is multiplied by {factor:.3g} at every step, of which {left} are to come"
        return Finding("scheduler_misused", left / self.total, detail=detail)
