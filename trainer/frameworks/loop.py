"""Training by another library: its steps and epochs become the run's records, checkpoints, limits and stops."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from trainwright.trainer.base import seeding
from trainwright.trainer.base.errors import TrainwrightError
from trainwright.trainer.engine.loop import divergence
from trainwright.trainer.engine.observers.observer import EpochResult, Observers, StepResult
from trainwright.trainer.engine.session import Progress, Session
from trainwright.trainer.frameworks.framework import Framework, framework_in
from trainwright.trainer.user_code.guard import library_code


def train(session: Session, observers: Observers) -> str:
    """Let the library train from the session's position until an end is reached; return the reason.

    Raises:
        DivergenceError: a loss or gradient that is not finite. And the user code's errors.
    """
    framework = framework_in(session.work)
    assert framework is not None, "called where there is one"  # noqa: S101
    session.model.train()
    observers.start(session)
    moments = Moments(session, observers)
    if session.progress.stop_reason is None and not session.stop.asked:
        _told(session, framework)
        with library_code(f"Training by {framework.name}", session.context.code_root):
            framework.train(moments)
    reason = session.progress.stop_reason or session.stop.reason
    moments.close(reason)
    return reason


def _told(session: Session, framework: Framework) -> None:
    for kind, sentences in (("changed", framework.changed), ("lost", framework.lost)):
        for text in sentences:
            session.run.append_event("note", text=text, framework=framework.name, what=kind)


class Moments:
    """What a library's trainer tells of its training, and what it is told."""

    def __init__(self, session: Session, observers: Observers) -> None:
        self.session, self.observers = session, observers
        self.generators = seeding.capture()
        """As the first step of this attempt must find them."""
        self.resumed = session.progress.step > 0
        self._ended = False
        self._is_asked = False
        """Whether the end was asked for when the newest step or epoch was done: what follows agrees on it."""
        self._at = self._epoch_at = time.perf_counter()

    @property
    def progress(self) -> Progress:
        """The position: epoch, batch, step."""
        return self.session.progress

    @property
    def must_stop(self) -> bool:
        """Whether no further step may be made."""
        return self.session.at_bound or self._is_asked or self.progress.stop_reason is not None

    @property
    def leaves(self) -> bool:
        """Whether training is left in the middle of an epoch, on request: the epoch is not over then."""
        return self._is_asked and not self.session.at_bound and self.progress.batch < self._batches

    @property
    def _batches(self) -> int:
        return len(self.session.train_loader)

    def restore_generators(self) -> None:
        """Put the global generators into the state that the first step must find. Only the first call does it."""
        if self.generators:
            seeding.restore(self.generators)
            self.generators = {}

    def waited(self, seconds: float) -> None:
        """Count the time that a batch was waited for."""
        self.progress.data_wait_seconds += seconds

    def step(
        self,
        loss: Tensor,
        norm: Tensor | None,
        *,
        rate: float,
        micro_batches: int,
        samples: int,
        values: dict[str, Any] | None = None,
    ) -> None:
        """Record an update that has been made, and save where it is due.

        Args:
            loss: mean of the update, a scalar that may stay on the device.
            norm: of the gradient before it was clipped; None where it was not measured.
            values: further named numbers.
        """
        session, progress, now = self.session, self.progress, time.perf_counter()
        progress.train_seconds += now - self._at
        self._at = now
        result = StepResult(
            progress.step + 1, progress.epoch, progress.batch, micro_batches, loss, norm, rate, samples, values or {}
        )
        progress.step += 1
        progress.batch += micro_batches
        progress.samples += samples
        session.context.step = progress.step
        session.totals.add_loss(loss, samples)
        self.observers.step(session, result)
        self._is_asked = session.stop.asked
        if self.leaves:  # here, where the library's state is that of the step's end
            self.close(session.stop.reason)
        self._at = time.perf_counter()

    def epoch(self, validate: Callable[[], dict[str, float]], *, over: str | None = None) -> None:
        """End an epoch: validate, move the position, and let the observers record and save.

        Does nothing where training was left in the middle of it.

        Args:
            validate: measures the validation split.
            over: why the library ends training with it, other than by its plan.
        """
        if self.leaves:
            return
        session, progress = self.session, self.progress
        self.observers.trained(session)
        seconds, number = time.perf_counter() - self._epoch_at, progress.epoch + 1
        is_last = session.at_bound or number >= session.config.training.epochs or over is not None
        result = EpochResult(number, progress.step, {"loss": session.totals.loss}, None, seconds)
        if is_last or number % session.config.training.validate_every_n_epochs == 0:
            self.observers.stage("validating")
            result.validation = validate()
        if progress.batch >= self._batches or not (session.at_bound or over is not None):
            progress.epoch, progress.batch = number, 0
            session.totals.reset()
        session.context.epoch = progress.epoch
        if is_last:
            done = progress.epoch >= session.config.training.epochs
            progress.stop_reason = over or ("completed" if done else "max_steps")
        self.observers.epoch(session, result)
        self._is_asked = session.stop.asked
        self._at = self._epoch_at = time.perf_counter()

    def close(self, reason: str) -> None:
        """Let the observers record and save the end. Only the first call does it."""
        if not self._ended:
            self._ended = True
            self.observers.stop(self.session, reason)

    def require_finite(self, losses: list[Tensor], norm: Any, *, scaled: bool = False) -> None:
        """Look at an update before it is made, as the engine does. On CUDA this waits for the device.

        Args:
            losses: of the micro-batches, scalars.
            scaled: whether gradients may overflow under a scaled loss: then the library leaves them out.

        Raises:
            DivergenceError: the loss or the gradient norm is not finite.
        """
        loss = sum(float(each) for each in losses)
        measured = 0.0 if norm is None else float(norm)
        if math.isfinite(loss) and (math.isfinite(measured) or scaled):
            return
        raise self._diverged(loss, measured, len(losses))

    def _diverged(self, loss: float, norm: float, micro_batches: int) -> TrainwrightError:
        progress = self.progress
        return divergence(self.session, progress.step + 1, progress.epoch, progress.batch, micro_batches, loss, norm)


def mean_loss(losses: list[Tensor]) -> Tensor:
    """Return the loss of an update, a scalar, from those of its micro-batches, each divided by their number already."""
    return losses[0] if len(losses) == 1 else torch.stack(losses).sum()
