"""Record of a step: all that was seen of it, for the checks; and the instrument that writes it."""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from dataclasses import dataclass, field
from typing import Any

from torch import Tensor, nn

from trainwright.trainer.data.tensors import batch_size
from trainwright.trainer.engine.session import Session
from trainwright.trainer.objectives.objective import Objective, Outcome
from trainwright.trainer.watch.silent import graph
from trainwright.trainer.watch.silent.calls import Calls, ModuleWatch
from trainwright.trainer.watch.silent.functions import Functions, FunctionWatch
from trainwright.trainer.watch.silent.graph import LossGraph
from trainwright.trainer.watch.silent.updates import Update, UpdateWatch


@dataclass
class StepRecord:
    """What one training step did.

    Attributes:
        trainable: elements of each parameter that requires a gradient, by name.
        held: names of the parameters that an optimizer holds.
        batches: the micro-batches; empty where another library makes the steps.
        indices: rows of the train split in the order of the batches; empty where they are not known.
        sees_functions: whether losses and backward passes could be seen.
        is_users: whether the user's code, or another library, steps the optimizers.
    """

    step: int
    trainable: dict[str, int]
    held: set[str]
    calls: Calls = field(default_factory=Calls)
    functions: Functions = field(default_factory=Functions)
    losses: list[LossGraph] = field(default_factory=list)
    updates: list[Update] = field(default_factory=list)
    unheld: set[str] = field(default_factory=set)
    backwards: int = 0
    dropped: int = 0
    rows: int = 0
    batches: list[Any] = field(default_factory=list)
    indices: list[int] = field(default_factory=list)
    sees_functions: bool = False
    is_users: bool = True

    def share(self, names: set[str]) -> float:
        """Return the share that parameters have of all trainable elements."""
        return sum(self.trainable.get(name, 0) for name in names) / max(sum(self.trainable.values()), 1)


class Instrument:
    """Writes the records of consecutive steps of a model and its optimizers."""

    def __init__(self, model: nn.Module, named: Mapping[str, nn.Parameter], optimizers: Mapping[str, Any]) -> None:
        """Prepare. `named` are all parameters that count, hidden ones among them."""
        self.model, self.named = model, dict(named)
        self.updates = UpdateWatch(named, optimizers)
        self.record = StepRecord(0, {}, set())
        self.timed: Callable[[], AbstractContextManager[None]] = nullcontext
        """Counts the time that is spent within the step."""

    def begin(self, step: int) -> None:
        """Begin the record of a step."""
        self.updates.begin()
        trainable = {name: p.numel() for name, p in self.named.items() if p.requires_grad}
        self.record = StepRecord(step, trainable, set(self.updates.held))

    @contextmanager
    def modules(self) -> Iterator[None]:
        """Write down the calls of modules inside the context."""
        modules = ModuleWatch(self.model)
        modules.timed = self.timed
        with modules.watching() as calls:
            self.record.calls = calls
            yield

    @contextmanager
    def step(self, batches: list[Any], *, is_full: bool = True) -> Iterator[None]:
        """Write down the calls of modules and functions inside the context, in which the step is made.

        Args:
            is_full: else only the losses are seen, which costs next to nothing.
        """
        record = self.record
        record.batches, record.rows, record.sees_functions = batches, sum(map(batch_size, batches)), True
        modules = ModuleWatch(self.model)
        modules.timed = self.timed
        functions = FunctionWatch(modules, self._backward if is_full else lambda _, run: run())
        modules.suspend, modules.resume = functions.suspend, functions.resume
        record.functions = functions.seen
        with modules.watching(is_full=is_full) as calls, functions:
            record.calls = calls
            yield

    def _backward(self, loss: Tensor, run: Callable[[], None]) -> None:
        rows = batch_size(self.record.batches[0]) if self.record.batches else 0
        with suppress(Exception), self.timed():  # a graph of another release: the backward pass itself goes on
            self.record.losses.append(graph.read(loss, rows))
        with suppress(Exception), self.timed():
            self.updates.before_backward()
        run()
        with suppress(Exception), self.timed():
            self.updates.after_backward()

    @contextmanager
    def validation(self) -> Iterator[tuple[Calls, Functions]]:
        """Write down the calls of modules and functions inside the context, in which a batch is measured."""
        modules = ModuleWatch(self.model)
        modules.is_training = False
        functions = FunctionWatch(modules, lambda _, run: run())
        modules.suspend, modules.resume = functions.suspend, functions.resume
        with modules.watching() as calls, functions:
            yield calls, functions.seen

    def end(self) -> StepRecord:
        """End the record."""
        record, updates = self.record, self.updates
        record.updates, record.unheld = updates.updates, updates.unheld & set(record.trainable)
        record.backwards, record.dropped = updates.backwards, updates.dropped
        return record


def hidden_parameters(model: nn.Module) -> dict[str, nn.Parameter]:
    """Return parameters of modules that the model keeps in plain lists or dictionaries, where torch cannot see them."""
    known = {id(module) for module in model.modules()} | {id(p) for p in model.parameters()}
    found: dict[str, nn.Parameter] = {}
    for name, module in model.named_modules():
        for key, value in vars(module).items():
            for number, item in _items(value):
                place = ".".join(part for part in (name, key, number) if part)
                if isinstance(item, nn.Parameter) and id(item) not in known:
                    found[place] = item
                elif isinstance(item, nn.Module) and id(item) not in known:
                    found |= {f"{place}.{inner}": p for inner, p in item.named_parameters() if id(p) not in known}
    return found


def _items(value: Any) -> list[tuple[str, Any]]:
    if isinstance(value, list | tuple) and len(value) <= 4096:
        return [(str(number), item) for number, item in enumerate(value)]
    if isinstance(value, dict) and len(value) <= 4096:
        return [(str(key), item) for key, item in value.items()]
    return []


# Validation as the checks see it: the first batch of it is watched, and all others pass by.


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


# Worst samples: those with the highest losses among the steps that were inspected, by their rows.

MOST = 20


def losses_by_row(record: StepRecord) -> dict[int, float]:
    """Return the loss of each sample of a step by its row of the train split; empty where it was not seen.

    Of several losses of a batch the last counts; a batch of sequences has the mean of each.
    """
    calls = [call for call in record.functions.losses if call.learns and call.per_row is not None]
    count = len(record.batches)
    if not count or not calls or len(record.indices) != record.rows:
        return {}
    if count > 1 and len(calls) != count:
        return {}
    found: dict[int, float] = {}
    place = 0
    for call in calls[-count:]:
        rows = record.rows // count if count == 1 else min(len(record.indices) - place, record.rows // count)
        losses = call.per_row
        if losses is None or not rows or len(losses) % rows:
            return {}
        means = losses.reshape(rows, -1).mean(dim=1).tolist()
        found |= dict(zip(record.indices[place : place + rows], means, strict=True))
        place += rows
    return found


class Worst:
    """The samples with the highest losses since the last epoch's end."""

    def __init__(self) -> None:
        self.losses: dict[int, float] = {}
        self.seen = 0

    def add(self, losses: dict[int, float]) -> None:
        """Take the losses of a step by row; a row's newest counts."""
        self.seen += len(losses)
        self.losses |= losses
        worst = heapq.nlargest(MOST, self.losses.items(), key=lambda pair: pair[1])
        self.losses = dict(worst)

    def take(self) -> dict[str, object] | None:
        """Return rows and losses, the worst first, and of how many samples they are; and begin anew."""
        if not self.losses:
            return None
        found = {"split": "train", "rows": [*self.losses], "losses": [float(f"{v:.6g}") for v in self.losses.values()]}
        record = {**found, "of": self.seen}
        self.losses, self.seen = {}, 0
        return record
