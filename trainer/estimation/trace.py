"""Tracing of a run's first steps: our own assembly and our own loop, over tensors that have sizes only.

The data are real: they are read, split and collated as in a run, and the first batches' shapes are taken. The model is
built without memory (a task's is built for real, because one call hands over both), and so are gradients, optimizer
state and all that lies between. Followed are the first batch's trial (dry_run.py) and two updates: the second one has
the optimizer's state from its beginning on.
"""

from __future__ import annotations

import gc
import time
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils._pytree import tree_leaves

from trainwright.trainer.assembly.assemble import assemble
from trainwright.trainer.assembly.loaders import steps_per_epoch
from trainwright.trainer.assembly.model import Building
from trainwright.trainer.base.errors import ConfigurationError
from trainwright.trainer.config import TrainingConfig
from trainwright.trainer.data.order import Share
from trainwright.trainer.engine.components import untouched
from trainwright.trainer.engine.loop import take_step
from trainwright.trainer.engine.session import Session
from trainwright.trainer.estimation import tracker as fake
from trainwright.trainer.estimation.results import Work
from trainwright.trainer.estimation.tracker import Answers, Counted, Tracker
from trainwright.trainer.objectives.objective import Objective, Outcome
from trainwright.trainer.reproducibility import determinism
from trainwright.trainer.run import RunDirectory, RunKind, RunSpecification
from trainwright.trainer.strategies import share
from trainwright.trainer.strategies.group import imagined
from trainwright.trainer.supervision.stop import StopRequest

STEPS = 2
"""The peak of the first is without the optimizer's state; later ones repeat the second."""
MAX_MICRO_BATCHES = 2
"""Of one update; from the second on they are alike."""
LOOK_SECONDS, MAX_BATCHES = 5.0, 200
"""For the largest batch, where batches are of several sizes."""


class Imagined(Building):
    """Models of sizes only."""

    imagined = True

    def __init__(self) -> None:
        self.mode = fake.new_mode()

    @contextmanager
    def model(self) -> Iterator[None]:
        """Build what is inside without memory."""
        with self.mode, Answers():  # type: ignore[no-untyped-call]
            yield

    def built(self, model: nn.Module) -> nn.Module:
        """Let go of the contents of a task's model."""
        return fake.without_contents(self.mode, model)


@dataclass
class Traced:
    """What two traced updates show."""

    session: Session
    tracker: Tracker
    parts: dict[str, int]
    work: Work
    batch: Any
    state_bytes: int


def trace(config: TrainingConfig, code_root: Path, folder: Path, *, on_gpu: bool = False) -> Traced:
    """Assemble the configuration and follow its first updates.

    Args:
        folder: for what an assembly writes.
        on_gpu: whether optimizers (fused ones), attention and products take what a GPU's kernels take.

    Raises:
        ConfigurationError: a step depends on values that fake tensors do not have. And the errors of assembling.
    """
    plain = as_traced(config)
    processes = config.distributed.processes
    group = imagined(processes) if divides(config) else nullcontext()
    building = Imagined()
    try:
        with group:
            with Answers(), fake.convertible():  # type: ignore[no-untyped-call]
                session = _assembled(plain, code_root, folder, building, processes)
            if on_gpu:
                _fuse(session)
            return _followed(session, building, on_gpu=on_gpu)
    except fake.UNTRACEABLE as error:
        raise untraceable(error) from error


def divides(config: TrainingConfig) -> bool:
    """Return whether a strategy is followed itself, as one of its processes; others' memory is computed by formula."""
    return config.distributed.processes > 1 and config.distributed.strategy == "fsdp2"


def as_traced(config: TrainingConfig) -> TrainingConfig:
    """Return the configuration of one process on the CPU, of which another strategy's memory is then computed."""
    training: dict[str, Any] = {"device": "cpu", "compile": None}
    if config.training.precision == "tf32":
        training["precision"] = "fp32"  # the same sizes
    return config.model_copy(
        update={
            "training": config.training.model_copy(update=training),
            "distributed": config.distributed if divides(config) else type(config.distributed)(),
            "loader": config.loader.model_copy(
                update={"num_workers": 0, "prefetch_factor": None, "persistent_workers": False, "pin_memory": False}
            ),
        }
    )


def untraceable(error: BaseException) -> ConfigurationError:
    """Return the error of a model whose memory depends on values."""
    what = str(error).splitlines()[0][:200] if str(error) else ""
    return ConfigurationError(
        f"The memory of this model cannot be computed without running it: a step depends on values of tensors "
        f"({type(error).__name__}: {what}).",
        remedy="Measure it instead: start_training(project, kind='probe') runs its first steps and tells their peak.",
        document="configs/performance.md",
    )


def _assembled(config: TrainingConfig, code_root: Path, folder: Path, building: Imagined, processes: int) -> Session:
    specification = RunSpecification(
        run_id="estimate",
        project="estimate",
        kind=RunKind.PROBE,
        config=config,
        config_digest="",
        code_root=str(code_root),
    )
    determinism.apply_settings(config.reproducibility)
    session = assemble(specification, RunDirectory(folder), StopRequest(folder / "stop"), building)
    if divides(config):
        with building.mode, Answers():  # type: ignore[no-untyped-call]
            share(session)
    elif processes > 1 and session.train_loader.batch_size is not None:
        session.train_loader = replace(session.train_loader, share=Share(0, processes))
    session.model.train()
    return session


def _fuse(session: Session) -> None:
    for optimizer in session.optimizers.values():
        if "fused" in optimizer.defaults:
            for group in (optimizer.defaults, *optimizer.param_groups):
                group.update(fused=True, foreach=None)


def _followed(session: Session, building: Imagined, *, on_gpu: bool) -> Traced:
    micro_batches = session.config.training.accumulation_steps
    real = largest_batch(session)
    phase = Phase()
    tracker = Tracker(building.mode, phase.now, on_gpu=on_gpu)
    tracker.know(session.model, session.optimizers.values(), session.parameters)
    watched = Watched(session.objective, tracker)
    session.objective = watched
    updates = UpdateWatch(session, tracker)
    with fake.inside(tracker), _prompt_release():
        if not session.rule.is_users:
            phase.trying = True
            _try(session, tracker.take(fake.imagined(building.mode, real)))
            phase.trying = False
            gc.collect()
        group = [
            tracker.take(fake.imagined(building.mode, _copy(real)))
            for _ in range(min(micro_batches, MAX_MICRO_BATCHES))
        ]
        for _ in range(STEPS):
            start = replace(tracker.counted)
            take_step(session, group)
        step = tracker.counted.minus(start)
    updates.close()
    parts = tracker.parts()
    more = micro_batches - len(group)
    parts["batch"] += more * bytes_of(real)  # an update's micro-batches are fetched together
    return Traced(
        session, tracker, parts, _work(session, watched, updates, step, len(group)), real, _state_bytes(session)
    )


@contextmanager
def _prompt_release() -> Iterator[None]:
    """Make collecting cheap inside: fake tensors lie in reference cycles, where real ones go at once."""
    gc.collect()
    gc.freeze()
    try:
        yield
    finally:
        gc.unfreeze()


@dataclass
class Phase:
    """Where a step is."""

    trying: bool = False

    def now(self, tracker: Tracker) -> str:
        """Return try, update, backward or forward."""
        if self.trying or tracker.is_updating:
            return "try" if self.trying else "update"
        return "backward" if torch._C._current_graph_task_id() != -1 else "forward"


class Watched:
    """An objective whose forward pass is counted."""

    def __init__(self, objective: Objective, tracker: Tracker) -> None:
        self.objective, self.tracker, self.forward = objective, tracker, Counted()

    def __call__(self, model: nn.Module, batch: Any) -> Outcome:
        """Compute the loss as the objective does."""
        gc.collect()
        before = replace(self.tracker.counted)
        outcome = self.objective(model, batch)
        self.forward = self.tracker.counted.minus(before)
        return outcome

    def count(self, batch: Any) -> int:
        """Return the terms of the batch's mean."""
        return self.objective.count(batch)


class UpdateWatch:
    """Counts what the optimizers' steps move."""

    def __init__(self, session: Session, tracker: Tracker) -> None:
        self.tracker, self.moved_bytes, self._before = tracker, 0.0, 0.0
        self._hooks = [
            hook
            for optimizer in session.optimizers.values()
            for hook in (optimizer.register_step_pre_hook(self._begin), optimizer.register_step_post_hook(self._end))
        ]

    def _begin(self, *_: Any) -> None:
        gc.collect()
        self._before = self.tracker.counted.moved_bytes

    def _end(self, *_: Any) -> None:
        self.moved_bytes += self.tracker.counted.moved_bytes - self._before

    def close(self) -> None:
        """Stop counting."""
        for hook in self._hooks:
            hook.remove()


def _try(session: Session, batch: Any) -> None:
    """Take memory as dry_run.try_batch does: copies of the weights beside a whole pass, and the gathered outputs."""
    with untouched(session):
        with session.autocast():
            outcome = session.objective(session.model, batch)
        outcome.loss.backward()  # type: ignore[no-untyped-call]
        if isinstance(outcome.output, Tensor):
            torch.cat([outcome.output.detach().float()])


def largest_batch(session: Session) -> Any:
    """Return the batch with the most bytes among the first ones of an epoch."""
    largest, seen, until = None, 0, time.monotonic() + LOOK_SECONDS
    for number, batch in enumerate(session.train_loader.batches(0)):
        if largest is None or bytes_of(batch) > seen:
            largest, seen = batch, bytes_of(batch)
        if number + 1 >= MAX_BATCHES or time.monotonic() > until:
            break
    return largest


def bytes_of(value: Any) -> int:
    """Return the bytes of the tensors in a nested value."""
    return sum(leaf.numel() * leaf.element_size() for leaf in tree_leaves(value) if isinstance(leaf, Tensor))


def _copy(value: Any) -> Any:
    """Return a batch of tensors of its own, as another fetch would give."""
    if isinstance(value, Tensor):
        return value.clone()
    if isinstance(value, dict):
        return {name: _copy(item) for name, item in value.items()}
    if isinstance(value, tuple | list) and not hasattr(value, "_fields"):
        return type(value)(_copy(item) for item in value)
    return value


def _state_bytes(session: Session) -> int:
    states = [state for optimizer in session.optimizers.values() for state in optimizer.state.values()]
    return sum(bytes_of(list(state.values())) for state in states)


def _work(session: Session, watched: Watched, updates: UpdateWatch, step: Counted, traced: int) -> Work:
    """Return the counts of one update of all its micro-batches, and how many there will be."""
    config, parts = session.config, session.config.training.accumulation_steps
    update = updates.moved_bytes / STEPS
    times = parts / traced
    forward = watched.forward
    if session.rule.is_users:
        forward = Counted(step.flops / 3, step.moved_bytes / 3, step.operations // 3)
    per_epoch = steps_per_epoch(config, session.train_loader)
    epochs = max(-(-session.schedule.total_steps // max(per_epoch, 1)), 1)
    size = session.train_loader.batch_size or 1
    return Work(
        flops_per_step=step.flops * times,
        bytes_per_step=(step.moved_bytes - update) * times + update,
        forward_flops=forward.flops,
        forward_bytes=forward.moved_bytes,
        operations_per_step=round(step.operations * times),
        update_bytes=update,
        exchanged_bytes=float(bytes_of(list(session.parameters))),
        steps=session.schedule.total_steps,
        epochs=epochs,
        validation_batches=len(session.validation_loader),
        validations=-(-epochs // config.training.validate_every_n_epochs),
        samples_per_step=size * parts,
    )
