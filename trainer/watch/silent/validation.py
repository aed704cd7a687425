"""Validation as the checks see it: the first batch of it is watched, and all others pass by."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from torch import nn

from trainwright.trainer.engine.session import Session
from trainwright.trainer.objectives.objective import Objective, Outcome
from trainwright.trainer.watch.silent.calls import Calls
from trainwright.trainer.watch.silent.functions import Functions
from trainwright.trainer.watch.silent.record import Instrument


class WatchedObjective:
    """Stands for the objective of validation until its first batch has been measured."""

    def __init__(self, session: Session, instrument: Instrument, seen: Callable[[Calls, Functions], None]) -> None:
        self.session, self.inner, self.instrument, self.seen = session, session.validation_objective, instrument, seen
        self.is_done = False
        session.validation_objective = self

    def __call__(self, model: nn.Module, batch: Any) -> Outcome:
        """Measure a batch. Raises the user code's errors."""
        objective: Objective = self.inner
        if self.is_done or self.session.context.training:
            return objective(model, batch)
        self.remove()
        with self.instrument.validation() as (calls, functions):
            outcome = objective(model, batch)
        self.seen(calls, functions)
        return outcome

    def count(self, batch: Any) -> int:
        """Return how many terms the batch's mean loss is over."""
        return self.inner.count(batch)

    def remove(self) -> None:
        """Put the objective back."""
        self.is_done = True
        if self.session.validation_objective is self:
            self.session.validation_objective = self.inner
