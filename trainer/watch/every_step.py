"""Watch of every step, by numbers that are there anyway: the learning rate, and the losses once they have been read."""

from __future__ import annotations

import statistics
from collections import deque
from collections.abc import Callable

from trainwright.trainer.engine.observers.observer import EpochResult, Observer, StepResult
from trainwright.trainer.engine.observers.recorder import Recorder
from trainwright.trainer.engine.session import Session
from trainwright.trainer.watch.inspector import MOST_ROWS, Finding, Look
from trainwright.trainer.watch.silent.steps_check import Rates

STEP_LOSS = "train/loss"
WINDOW, LEAST = 64, 16
"""Losses that a new one is compared with: at most, and at least."""
SPIKE = 8.0
"""Deviations (of the median absolute one) above the median, from which on a loss is a spike."""
TIMES = 2.0
"""The median, that it exceeds too: where losses hardly vary, little is many deviations."""
NOT_USUAL = 1.4
"""Times a median of up to `LEAST` steps ago: only such losses are looked at more closely, to keep each step cheap."""
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
        self.about = 0.0
        self.reported = 0
        self.is_reported = not (session.rule.is_users or session.work.framework is not None)
        """Of the rates; those of the configuration's schedule are meant."""
        self.recorder = recorder
        self.read_to, self.flushed_at = session.progress.step, recorder.flushed_at
        """Last step whose loss was read, and when the recorder had last written."""

    def step(self, session: Session, result: StepResult) -> None:
        """Compare the rate, and report what was found in the losses that have been read."""
        self.places.append((result.step, result.epoch, result.batch, result.micro_batches))
        found = None if self.is_reported else self.rates.note(result.step, result.learning_rate)
        if found is not None:
            self.is_reported = True
            self._tell(session, (result.step, result.epoch, result.batch, 1), found)
        if self.recorder.flushed_at != self.flushed_at:
            self._read(session)

    def epoch(self, session: Session, result: EpochResult) -> None:  # noqa: ARG002 - the moment's form
        """Report what was found in the losses of the epoch."""
        self._read(session)

    def _read(self, session: Session) -> None:
        self.flushed_at = self.recorder.flushed_at
        for step, loss, usual in self._spikes():
            place = next((each for each in self.places if each[0] == step), None)
            if place is not None and self.reported < MOST_SPIKES:
                self.reported += 1
                self._tell(session, place, self._spike(session, place, loss, usual))

    def _spikes(self) -> list[tuple[int, float, float]]:
        """Return step, loss and usual loss of the spikes among the losses that have been written since."""
        found = []
        for step, value, _ in self.recorder.store.series(STEP_LOSS, after_step=self.read_to):
            self.read_to = step
            if step % LEAST == 0:
                self.about = statistics.median(self.losses) if self.losses else 0.0
            if len(self.losses) >= LEAST and value > NOT_USUAL * abs(self.about):
                usual = statistics.median(self.losses)
                spread = statistics.median(abs(each - usual) for each in self.losses)
                if value > usual + SPIKE * spread and value > TIMES * abs(usual):
                    found.append((step, value, usual))
            self.losses.append(value)
        return found

    def _spike(self, session: Session, place: tuple[int, int, int, int], loss: float, usual: float) -> Finding:
        _, epoch, batch, count = place
        rows = [row for number in range(batch, batch + count) for row in session.train_loader.indices(epoch, number)]
        detail = f"the loss of one step was {loss:.4g}, where {usual:.4g} was usual; {len(rows)} rows were in it"
        return Finding("loss_spike", loss / max(abs(usual), 1e-12), rows=tuple(rows[:MOST_ROWS]), detail=detail)

    def _tell(self, session: Session, place: tuple[int, int, int, int], finding: Finding) -> None:
        step, epoch, batch, _ = place
        self.report(session, Look(session, step, epoch, batch, findings=[finding]))
