"""Silent errors of user code: the first steps, and the first of an epoch, are recorded and checked (watch/silent/)."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack, suppress
from typing import Any

from torch import Tensor
from torch.optim import Optimizer

from trainwright.trainer.base.errors import DivergenceError
from trainwright.trainer.data.loader import BatchLoader
from trainwright.trainer.engine.observers.observer import EpochResult, StepResult
from trainwright.trainer.engine.session import Session, UpdateRule
from trainwright.trainer.watch.inspector import Finding, Inspector, Look, is_compiled, named_parameters
from trainwright.trainer.watch.silent.calls import Calls
from trainwright.trainer.watch.silent.checks import check
from trainwright.trainer.watch.silent.functions import Functions
from trainwright.trainer.watch.silent.inputs_check import bad_inputs, first_inputs, other_preprocessing
from trainwright.trainer.watch.silent.labels_check import (
    first_rows,
    labels_in_blocks,
    repeated_order,
    shuffled_targets,
    targets_of,
)
from trainwright.trainer.watch.silent.modes_check import training_while_validating
from trainwright.trainer.watch.silent.parameters_check import PATIENCE
from trainwright.trainer.watch.silent.record import (
    Instrument,
    StepRecord,
    WatchedObjective,
    Worst,
    hidden_parameters,
    losses_by_row,
)
from trainwright.trainer.watch.silent.tensors import Facts

MIN_BATCHES = 8
"""In an epoch, for its first batch to be another in the next."""
VALIDATIONS = 2
"""The first so many are watched: the second, since user code may leave something behind in the first."""


class SilentErrors(Inspector):
    """Records steps and validation, and reports what the checks find."""

    def __init__(self, session: Session) -> None:
        named = named_parameters(session) | hidden_parameters(session.model)
        self.instrument = Instrument(session.model, named, session.optimizers)
        self.history: list[StepRecord] = []
        self.targets = targets_of(session.train_loader.samples)
        self.trained: dict[str, Facts] = {}
        """What the model was given first in training."""
        self.first: tuple[int, list[bytes]] | None = None
        """The epoch whose first batch was seen first, and its digests."""
        self.waiting: list[Finding] = []
        """Found between two steps."""
        self.reported: set[tuple[str, tuple[str, ...]]] = set()
        """Id and layers: whatever rows it shows in, it is one error."""
        self.is_full = True
        """Whether the step is recorded for the checks: the first ones, and the first of an epoch; else its losses."""
        self.began = session.progress.step
        self.worst = Worst()
        self.validations = 0
        data = session.config.data
        self.drifts = data is not None and data.split.by == "time"
        """Whether validation is later than training: then other inputs are what there is to forecast from."""
        self.is_off = is_compiled(session)  # hooks would be compiled, or compile anew

    def unjudged(self) -> list[str]:
        """Say that compiled code is not looked into."""
        return ["SilentErrors: the model is compiled, and hooks would be compiled with it."] if self.is_off else []

    def begin(self, look: Look) -> None:
        """Put the instruments in place."""
        if self.is_off:
            return
        if self.history and self.history[-1].step != look.step - 1:
            self.history = []
            self.instrument.updates.forget()
        self.is_full = look.step - self.began <= PATIENCE or look.batch == 0
        self.instrument.begin(look.step)
        self.instrument.timed = look.timed
        if look.session.work.framework is None:
            look.hooks.append(_WatchedRule(look, self.instrument, is_full=self.is_full))
        elif self.is_full:
            stack = ExitStack()
            stack.enter_context(self.instrument.modules())
            look.hooks.append(_Closing(stack))

    def before_update(self, look: Look, optimizer: Optimizer) -> None:
        """Note gradients."""
        if self.is_full and not (self.is_off or look.is_early):
            self.instrument.updates.before_update(optimizer)

    def after_update(self, look: Look, optimizer: Optimizer) -> None:
        """Note changes."""
        if self.is_full and not (self.is_off or look.is_early):
            self.instrument.updates.after_update(optimizer)

    def end(self, look: Look, result: StepResult) -> None:
        """Check the step."""
        if self.is_off:
            return
        record = self.instrument.end()
        record.indices = look.rows(result.micro_batches)
        self.worst.add(losses_by_row(record))
        if self.is_full:
            record.is_users = look.session.rule.is_users or look.session.work.framework is not None
            self.history = [*self.history, record][-PATIENCE:]
            found = [*self._taken(), *check(self.history), *self._of_data(look, record)]
            look.findings += [each for each in found if self._is_new(each)]
            self._watch_validation(look.session)

    def epoch(self, look: Look, result: EpochResult) -> None:  # noqa: ARG002 - the moment's form
        """Report validation, and the worst samples of the epoch's inspected steps."""
        look.findings += [each for each in self._taken() if self._is_new(each)]
        if (worst := self.worst.take()) is not None:
            look.session.run.append_event("worst_samples", step=look.step, epoch=look.epoch + 1, **worst)

    def _of_data(self, look: Look, record: StepRecord) -> list[Finding]:
        """Check labels and order, and compare the inputs with those of the first step."""
        if look.session.work.framework is not None:
            return []
        found = [shuffled_targets(record, self.targets)]
        loader, inputs = look.session.train_loader, first_inputs(record.calls)
        if not self.trained:
            found.append(self._blocks(loader))
            self.trained = inputs
        else:
            found.append(other_preprocessing(self.trained, inputs, f"in training at step {look.step}"))
        if look.batch == 0 and (loader.is_stream or loader.shuffle) and len(loader) >= MIN_BATCHES:
            found.append(self._order(look.epoch, first_rows(record.batches)))
        return [each for each in found if each is not None]

    def _blocks(self, loader: BatchLoader) -> Finding | None:
        if self.targets is None or loader.is_stream or loader.batch_size is None or loader.by_length:
            return None
        order = [loader.indices(0, number) for number in range(min(3, len(loader)))]
        return labels_in_blocks(self.targets, order, None if loader.curriculum is None else loader.curriculum.order(0))

    def _order(self, epoch: int, digests: list[bytes]) -> Finding | None:
        if self.first is None:
            self.first = epoch, digests
        known, first = self.first
        return repeated_order(first, digests) if known != epoch else None

    def _watch_validation(self, session: Session) -> None:
        watched = isinstance(session.validation_objective, WatchedObjective)
        if not watched and self.validations < VALIDATIONS and session.work.framework is None:
            self.validations += 1
            WatchedObjective(session, self.instrument, self._validated)

    def _validated(self, calls: Calls, functions: Functions) -> None:
        found = [training_while_validating(calls, functions)]
        if not self.drifts:
            found.append(other_preprocessing(self.trained, first_inputs(calls), "in validation"))
        self.waiting += [each for each in found if each is not None]

    def _is_new(self, finding: Finding) -> bool:
        key = finding.id, finding.layers
        is_new = key not in self.reported
        self.reported.add(key)
        return is_new

    def _taken(self) -> list[Finding]:
        found, self.waiting = self.waiting, []
        return found


class _WatchedRule:
    """Stands for the session's update rule during one step."""

    def __init__(self, look: Look, instrument: Instrument, *, is_full: bool) -> None:
        self.look, self.instrument, self.is_full = look, instrument, is_full
        self.inner: UpdateRule = look.session.rule
        self.is_users = self.inner.is_users
        look.session.rule = self

    def set_rates(self, session: Session) -> None:
        """Set the rates of the step."""
        self.inner.set_rates(session)

    def __call__(self, session: Session, group: list[Any]) -> tuple[Tensor, Tensor | None, dict[str, Any]]:
        """Make the step. Raises DivergenceError, after the rows that are no numbers have been reported."""
        try:
            with self.instrument.step(group, is_full=self.is_full):
                return self.inner(session, group)
        except DivergenceError:
            with suppress(Exception):  # the divergence is what ends the run
                record = self.instrument.end()
                record.indices = self.look.rows(len(group))
                for found in bad_inputs([record]):
                    session.run.append_event("finding", **vars(found), step=self.look.step, epoch=self.look.epoch + 1)
            raise

    def remove(self) -> None:
        """Put the rule back."""
        if self.look.session.rule is self:
            self.look.session.rule = self.inner


class _Closing:
    """A handle that takes away all that a stack has put in place."""

    def __init__(self, stack: ExitStack) -> None:
        self.remove: Callable[[], None] = stack.close
