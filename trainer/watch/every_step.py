"""Watch of every step, by numbers that are there anyway: the learning rate, and the losses once they have been read."""

from __future__ import annotations

import bisect
from collections import deque
from collections.abc import Callable

from trainwright.trainer.engine.observers.observer import EpochResult, Observer, StepResult
from trainwright.trainer.engine.observers.recorder import Recorder
from trainwright.trainer.engine.session import Session
from trainwright.trainer.watch.inspector import MOST_ROWS, Finding, Look
from trainwright.trainer.watch.silent.steps_check import Rates

WINDOW, LEAST = 64, 16
"""Losses that a new one is compared with: at most, and at least."""
SPIKE = 8.0
"""Deviations (of the median absolute one) above the median, from which on a loss is a spike."""
TIMES = 2.0
"""The median, that it exceeds too: where losses hardly vary, little is many deviations."""
MOST_STEPS = 4096
MOST_SPIKES = 10


class EveryStep(Observer):
    """Reports a learning rate that is gone, and the rows behind a loss that jumps."""

    def __init__(self, session: Session, recorder: Recorder, report: Callable[[Session, Look], None]) -> None:
        self.report = report
        self.rates = Rates(session.total_steps)
        self.losses: deque[float] = deque(maxlen=WINDOW)
        self.places: deque[tuple[int, int, int, int]] = deque(maxlen=MOST_STEPS)
        """Of the newest steps: number, epoch, first batch, number of batches."""
        self.ordered: list[float] = []
        """The same losses by size, kept in order: to sort them at each step would cost more."""
        self.reported = 0
        self.is_reported = not (session.rule.is_users or session.work.framework is not None)
        """Of the rates; those of the configuration's schedule are meant."""
        self.recorder = recorder

    def step(self, session: Session, result: StepResult) -> None:
        """Compare the rate, and report what was found in the losses that have been read."""
        self.places.append((result.step, result.epoch, result.batch, result.micro_batches))
        found = None if self.is_reported else self.rates.note(result.step, result.learning_rate)
        if found is not None:
            self.is_reported = True
            self._tell(session, (result.step, result.epoch, result.batch, 1), found)
        if self.recorder.losses and self.reported < MOST_SPIKES:
            self._read(session)

    def epoch(self, session: Session, result: EpochResult) -> None:  # noqa: ARG002 - the moment's form
        """Report what was found in the losses of the epoch."""
        self._read(session)

    def _read(self, session: Session) -> None:
        for step, loss, usual in self._spikes():
            if self.reported == MOST_SPIKES:
                continue
            if (place := next((each for each in self.places if each[0] == step), None)) is not None:
                self.reported += 1
                self._tell(session, place, self._spike(session, place, loss, usual))

    def _spikes(self) -> list[tuple[int, float, float]]:
        """Return step, loss and usual loss of the spikes among the losses that the recorder has read since."""
        found, taken = [], self.recorder.losses
        while taken:
            step, value = taken.popleft()
            if len(self.losses) >= LEAST:
                usual = _middle(self.ordered)
                if value > TIMES * abs(usual) and value > usual + SPIKE * self._spread(usual):
                    found.append((step, value, usual))
            self._keep(value)
        return found

    def _keep(self, value: float) -> None:
        if len(self.losses) == WINDOW:
            del self.ordered[bisect.bisect_left(self.ordered, self.losses[0])]
        self.losses.append(value)
        bisect.insort(self.ordered, value)

    def _spread(self, usual: float) -> float:
        return _middle(sorted(abs(each - usual) for each in self.losses))

    def _spike(self, session: Session, place: tuple[int, int, int, int], loss: float, usual: float) -> Finding:
        _, epoch, batch, count = place
        rows = [row for number in range(batch, batch + count) for row in session.train_loader.indices(epoch, number)]
        detail = f"the loss of one step was {loss:.4g}, where {usual:.4g} was usual; {len(rows)} rows were in it"
        return Finding("loss_spike", loss / max(abs(usual), 1e-12), rows=tuple(rows[:MOST_ROWS]), detail=detail)

    def _tell(self, session: Session, place: tuple[int, int, int, int], finding: Finding) -> None:
        step, epoch, batch, _ = place
        self.report(session, Look(session, step, epoch, batch, findings=[finding]))


def _middle(ordered: list[float]) -> float:
    """Return the median of numbers in order."""
    half = len(ordered) // 2
    return ordered[half] if len(ordered) % 2 else (ordered[half - 1] + ordered[half]) / 2
