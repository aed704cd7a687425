"""Session: everything one training run works with, its position and totals, and its complete state."""

from __future__ import annotations

import time
from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import asdict, dataclass, field
from typing import Any, Protocol

import torch
from torch import Tensor, nn
from torch.optim import Optimizer

from trainwright.trainer.acceleration.precision import Scaling, autocast
from trainwright.trainer.base.errors import IntegrityError
from trainwright.trainer.checkpoints.frozen_base import FrozenBase
from trainwright.trainer.checkpoints.packing import pack, unpack
from trainwright.trainer.checkpoints.store import LoadedCheckpoint
from trainwright.trainer.checkpoints.user_state import Kinds, require_resumable
from trainwright.trainer.config import TrainingConfig
from trainwright.trainer.data.loader import BatchLoader
from trainwright.trainer.engine.components import (
    CarriedState,
    Generators,
    HiddenBuffers,
    LeftGradients,
    OptimizerStates,
    Stateful,
)
from trainwright.trainer.engine.strategy import Strategy
from trainwright.trainer.engine.totals import EpochTotals
from trainwright.trainer.objectives.objective import Auxiliary, Objective, Work
from trainwright.trainer.optimization.schedules.schedule import Schedule
from trainwright.trainer.optimization.update import NonFinite, Update
from trainwright.trainer.optimization.weight_averaging import WeightObserver
from trainwright.trainer.run import RunDirectory, RunSpecification
from trainwright.trainer.supervision.stop import StopRequest
from trainwright.trainer.user_code.context import Context


@dataclass
class Best:
    """The best epoch so far by the selection metric."""

    epoch: int
    step: int
    value: float
    metrics: dict[str, float]
    checkpoint: str | None = None


@dataclass
class Progress:
    """Position and running state; all of it is checkpointed."""

    epoch: int = 0
    """Epochs completed."""
    batch: int = 0
    """Micro-batches of the present epoch that are done: the data position."""
    step: int = 0
    """Optimizer steps done."""
    samples: int = 0
    """Samples trained on."""
    best: Best | None = None
    epochs_without_improvement: int = 0
    stop_reason: str | None = None
    """Why training is over, once it is; a stop on request is not kept, so that the run can go on."""
    train_seconds: float = 0.0
    data_wait_seconds: float = 0.0
    history: list[dict[str, Any]] = field(default_factory=list)
    """One entry per validated epoch: epoch, step, train and validation values."""
    periodic: list[str] = field(default_factory=list)
    """Names of the periodic checkpoints."""

    def state_dict(self) -> dict[str, Any]:
        """Return plain values."""
        return asdict(self)

    def load_state_dict(self, state: dict[str, Any], /) -> None:
        """Resume from a saved position."""
        best = state.get("best")
        vars(self).update({**state, "best": Best(**best) if best else None})


EVALUATED = ("objective",)
"""Components that are saved, like the model, as the weights that are evaluated."""
DEPLOYED = ("objective", "model", "hidden_buffers")
"""Components that a model needs to be measured and exported."""


class UpdateRule(Protocol):
    """How an update is made from its micro-batches: by the engine's objective, or by the user's code.

    Attributes:
        is_users: whether the user's train_step makes it: the engine then sets no rates and computes no losses.
    """

    is_users: bool

    def set_rates(self, session: Session) -> None:
        """Set the rates (and momenta) of the next step, where they are the engine's to set."""
        ...

    def __call__(self, session: Session, group: list[Any]) -> tuple[Tensor, Tensor | None, dict[str, Any]]:
        """Make the update; return loss, gradient norm (None where it could not be measured) and the step's values.

        Raises:
            DivergenceError: the loss or the gradient is not finite.
        """
        ...


@dataclass
class Session:
    """One run, assembled (see assembly/). The loop and the observers work on it."""

    specification: RunSpecification
    config: TrainingConfig
    run: RunDirectory
    work: Work
    context: Context
    device: torch.device
    model: nn.Module
    objective: Objective
    """Minimised objective; a NoObjective when the user's train_step does the updates."""
    validation_objective: Objective
    """Objective that measures validation and test: the run's, or the user's validation_step."""
    optimizers: dict[str, Optimizer]
    rule: UpdateRule
    update: Update
    """How the optimizers are stepped."""
    parameters: list[nn.Parameter]
    """Everything that the optimizers update."""
    base_rates: dict[str, list[float]]
    """Peak learning rate of each optimizer's groups."""
    schedule: Schedule
    weight_observers: Sequence[WeightObserver]
    """Freezing and averages of the weights, in the order in which they are resumed."""
    auxiliary: Auxiliary
    """Auxiliary parts of the objective beside the model."""
    train_loader: BatchLoader
    validation_loader: BatchLoader
    stop: StopRequest
    built_state: Kinds
    """Kinds of the values that are not plain and that the user's build put into context.state."""
    infinite_buffers: frozenset[str]
    """Buffers that had infinities when the model was built, such as the mask of an attention."""
    step_bound: int | None
    """Stop after this many optimizer steps: the smaller of the configuration's and the specification's."""
    progress: Progress = field(default_factory=Progress)
    problems: dict[str, str] = field(default_factory=dict)
    """Why metrics say nothing about the targets of the last evaluation, by name."""
    totals: EpochTotals = field(default_factory=EpochTotals)
    scaler: Scaling = field(default_factory=Scaling)
    strategy: Strategy = field(default_factory=Strategy)
    """How the run is shared among processes."""
    near_zero: frozenset[int] | None = None
    """Ids of the parameters that began near zero, before any checkpoint was loaded; None: not measured."""
    non_finite: NonFinite | None = None
    """On CUDA a flag on the device that holds back every update after a non-finite one."""
    base: FrozenBase = field(init=False)
    """Weights that no checkpoint holds, for the model is built with them; none until it is settled what is frozen."""
    gathers: bool = field(init=False)
    """Whether outputs and targets are kept for metrics."""
    components: dict[str, Stateful] = field(init=False)
    """All state that the next step depends on, by name, in the order in which a resumed run loads it."""

    def __post_init__(self) -> None:
        """Register the components. A checkpoint stores these and nothing else."""
        self.gathers = self.work.gathers
        self.base = FrozenBase(self.model)
        self.components = {
            "objective": self.auxiliary,
            "model": self.model,
            "hidden_buffers": HiddenBuffers(self.model),
            "optimizers": OptimizerStates(self.optimizers, self.config.training.channels_last),
            "scaler": self.scaler,
            **{observer.state_name: observer for observer in self.weight_observers if observer.state_name is not None},
            **({"gradients": LeftGradients(self.model)} if self.rule.is_users else {}),
            "schedule": self.schedule,
            "context": CarriedState(self.context.state, self.built_state),
            "progress": self.progress,
            "totals": self.totals,
            "generators": Generators(),
        }

    @property
    def seed(self) -> int:
        """The run's seed."""
        return self.config.seed

    @property
    def total_steps(self) -> int:
        """Optimizer steps of the full schedule."""
        return self.schedule.total_steps

    @property
    def at_bound(self) -> bool:
        """Whether the last permitted step has been made; a run resumed there makes no further one."""
        return self.step_bound is not None and self.progress.step >= self.step_bound

    @property
    def may_leave_validation(self) -> bool:
        """Whether a stop was requested, and a run resumed before this validation would train the same.

        An average has moved already, and the user's code may have kept something. Several processes agree on a stop
        only at a step, so none of them leaves a validation.
        """
        moved = any(observer.moves_at_epoch_end for observer in self.weight_observers)
        return not moved and not self.context.state and self.stop.asked

    def saves_at(self, step: int) -> bool:
        """Whether a checkpoint is due after this step, within an epoch; at its end the epoch's is."""
        every = self.config.checkpoints.checkpoint_every_n_steps
        return every is not None and step % every == 0 and self.progress.batch < len(self.train_loader)

    def autocast(self) -> AbstractContextManager[Any]:
        """Return the context in which forward passes run."""
        return autocast(self.config.training.precision, self.device)

    @contextmanager
    def evaluated_weights(self) -> Iterator[None]:
        """Put the evaluated and exported weights (averages, if there are any) into the model inside the context."""
        with ExitStack() as stack:
            for observer in self.weight_observers:
                stack.enter_context(observer.evaluated())
            yield

    def groups(self) -> Iterator[list[Any]]:
        """Yield the rest of the epoch: lists of the micro-batches that make one update, not on the device yet.

        Ends early when a stop was requested or the last permitted step has been made.
        """
        size = self.config.training.accumulation_steps
        batches = self.train_loader.batches(self.progress.epoch, self.progress.batch)
        while not (self.at_bound or self.stop.asked):
            start = time.perf_counter()
            group = [batch for _, batch in zip(range(size), batches, strict=False)]
            self.progress.data_wait_seconds += time.perf_counter() - start
            if not group:
                return
            yield group

    def weights(self, without: Collection[str] = ()) -> dict[str, Any]:
        """Return the model's state but for some names, with full tensors. Several processes must call it together."""
        state = {name: value for name, value in self.model.state_dict().items() if name not in without}
        return self.strategy.full(state)  # type: ignore[no-any-return]

    def state(self) -> tuple[dict[str, Tensor], dict[str, Any], dict[str, Tensor]]:
        """Return the model's tensors, the rest of the state as JSON types, and the tensors that it refers to.

        Frozen weights are not among them: `frozen_base` in the state has their digests.

        Raises:
            UserCodeError: something in context.state cannot be saved.
        """
        self.require_resumable()
        tensors: dict[str, Tensor] = {}
        base = self.base.record() if self.base.is_needed else None
        with self.evaluated_weights():
            weights = self.weights(without=base["tensors"] if base is not None else ())
            packed = self._packed(EVALUATED, tensors)
            model = {
                name: value.detach().cpu().contiguous().clone()
                for name, value in weights.items()
                if isinstance(value, Tensor)
            }
        extra = {name: value for name, value in weights.items() if not isinstance(value, Tensor)}
        packed |= self._packed([name for name in self.components if name not in {"model", *EVALUATED}], tensors)
        packed |= {"model_extra": pack(extra, "model_extra", tensors), "config": self.config.model_dump(mode="json")}
        packed |= {"frozen_base": base} if base is not None else {}
        self.strategy.add_own_states(packed, tensors, self.components)
        return model, packed, tensors

    def _packed(self, names: Iterable[str], tensors: dict[str, Tensor]) -> dict[str, Any]:
        full = {name: self.strategy.full(self.components[name].state_dict()) for name in names}
        return {name: pack(value, name, tensors) for name, value in full.items()}

    def require_resumable(self) -> None:
        """Raise UserCodeError when context.state holds a value that a resumed run could not load."""
        require_resumable(self.context.state, self.built_state)

    def load(self, checkpoint: LoadedCheckpoint) -> None:
        """Resume from a checkpoint, generators last: nothing may draw between this and the next fetch.

        Raises:
            IntegrityError: the checkpoint lacks the state of a component, or is of another number of processes.
        """
        self.load_components(checkpoint, self.components)
        self.strategy.follow_weights()
        self.context.epoch, self.context.step = self.progress.epoch, self.progress.step

    def load_components(self, checkpoint: LoadedCheckpoint, names: Iterable[str]) -> None:
        """Load some components, in the order of `names`. Raises IntegrityError: one is missing, or another base."""
        wanted = {*names, "model_extra", "ranks"} - {"model"}
        saved = {name: value for name, value in checkpoint.state.items() if name in wanted}
        state = {name: unpack(value, checkpoint.tensors, self.device) for name, value in saved.items()}
        state["model"] = {**checkpoint.model, **state.get("model_extra", {})}
        state = self.strategy.part(state)
        recorded = checkpoint.state.get("frozen_base")
        if recorded is not None and "model" in names:
            self.base.require(checkpoint.name, recorded)
        for name in names:
            if name not in state:
                raise IntegrityError(
                    f"Checkpoint {checkpoint.name} holds no state of `{name}`, on which the next step depends.",
                    remedy="Resume from another checkpoint, or start a new run: start_training(project, kind).",
                )
            if name == "model" and recorded is not None:
                self.base.load(state[name], recorded)
            else:
                self.components[name].load_state_dict(state[name])
