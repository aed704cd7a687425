"""Everything one training run works with, and its whole state."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn
from torch.optim import Optimizer

from trainwright.trainer.acceleration.memory_format import match_layout
from trainwright.trainer.acceleration.precision import LossScaler, autocast
from trainwright.trainer.checkpoints.hidden import hidden_buffers, restore_hidden_buffers
from trainwright.trainer.checkpoints.packing import pack, unpack
from trainwright.trainer.checkpoints.read import LoadedCheckpoint
from trainwright.trainer.checkpoints.user_state import Kinds, load_into, require_resumable
from trainwright.trainer.config import TrainingConfig
from trainwright.trainer.data.loader import BatchLoader
from trainwright.trainer.objectives import Objective
from trainwright.trainer.objectives.own import Own
from trainwright.trainer.objectives.work import Work
from trainwright.trainer.optimization.averaging import averaged_weights, restore_training_points, training_points
from trainwright.trainer.optimization.freezing import Freezing
from trainwright.trainer.optimization.schedules import Schedule
from trainwright.trainer.optimization.update import Update
from trainwright.trainer.optimization.weight_averaging import WeightAveraging
from trainwright.trainer.progress import Progress
from trainwright.trainer.reproducibility import seeding
from trainwright.trainer.run import RunDirectory, RunSpecification
from trainwright.trainer.supervision.stop import StopRequest
from trainwright.trainer.totals import EpochTotals
from trainwright.trainer.user_code.context import Context

if TYPE_CHECKING:
    from trainwright.trainer.distributed.parallel import Parallel
    from trainwright.trainer.distributed.zero import Zero


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
    objective: Objective | None
    """None when the user's train_step does the updates."""
    validation_objective: Objective
    """What measures validation and test: the objective, or the user's validation_step."""
    optimizers: dict[str, Optimizer]
    update: Update
    """How they are stepped."""
    parameters: list[nn.Parameter]
    """Everything that the optimizers update."""
    base_rates: dict[str, list[float]]
    """Peak learning rate of each optimizer's groups."""
    schedule: Schedule
    freezing: Freezing
    averaging: WeightAveraging | None
    own: Own
    """What the objective has beside the model."""
    train_loader: BatchLoader
    validation_loader: BatchLoader
    stop: StopRequest
    built_state: Kinds
    """What the user's build put into context.state beside plain values."""
    infinite_buffers: frozenset[str]
    """Buffers that hold infinities by design, such as the mask of an attention: they did when the model was built."""
    step_bound: int | None
    """Stop after this many optimizer steps: the smaller of the configuration's and the specification's."""
    progress: Progress = field(default_factory=Progress)
    totals: EpochTotals = field(default_factory=EpochTotals)
    scaler: LossScaler | None = None
    """Of fp16 alone."""
    parallel: Parallel | None = None
    """The other processes of the run, where there are any."""
    non_finite: Tensor | None = None
    """On CUDA a flag on the device that holds back every update after a non-finite one."""

    @property
    def total_steps(self) -> int:
        """Optimizer steps of the whole schedule."""
        return self.schedule.total_steps

    @property
    def at_bound(self) -> bool:
        """Whether the last permitted step has been made; a run that is taken up there makes no further one."""
        return self.step_bound is not None and self.progress.step >= self.step_bound

    @property
    def zero(self) -> Zero | None:
        """DeepSpeed's engine, where it makes the updates."""
        return None if self.parallel is None else self.parallel.zero

    @property
    def may_leave_validation(self) -> bool:
        """Whether a stop was asked for, and a run that is taken up before this validation would train the same.

        Several processes must agree, an average has moved already, and the user's code may have kept something.
        """
        alone = self.parallel is None and self.averaging is None and not self.context.state
        return alone and self.stop.asked

    def saves_at(self, step: int) -> bool:
        """Whether a checkpoint is due after this step, within an epoch; at its end the epoch's own is."""
        every = self.config.checkpoints.checkpoint_every_n_steps
        return every is not None and step % every == 0 and self.progress.batch < len(self.train_loader)

    def autocast(self) -> AbstractContextManager[Any]:
        """Return the context in which forward passes run."""
        return autocast(self.config.training.precision, self.device)

    @contextmanager
    def judged_weights(self) -> Iterator[None]:
        """Hold the weights that are judged and exported in the model inside the context: averages, where there are."""
        with averaged_weights(self.optimizers.values()), self.averaging.applied() if self.averaging else nullcontext():
            yield

    def groups(self) -> Iterator[list[Any]]:
        """Yield the rest of the epoch: lists of the micro-batches that make one update, not on the device yet.

        Ends early when a stop was asked for or the last permitted step has been made.
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

    def weights(self) -> dict[str, Any]:
        """Return the state of the model, its tensors whole. Several processes must call it together."""
        return self._whole(self.model.state_dict())  # type: ignore[no-any-return]

    def _gradients_left(self) -> dict[str, Tensor]:
        """Return the gradients that the user's train_step left for its next call; the engine's own steps leave none."""
        if self.objective is not None:
            return {}
        return {name: p.grad for name, p in self.model.named_parameters() if p.grad is not None}

    def _whole(self, value: Any) -> Any:
        return value if self.parallel is None else self.parallel.whole(value)

    def state(self) -> tuple[dict[str, Tensor], dict[str, Any], dict[str, Tensor]]:
        """Return the model's tensors, the rest of the state as JSON types, and the tensors that it refers to.

        Raises:
            UserCodeError: something in context.state cannot be saved.
        """
        self.require_resumable()
        tensors: dict[str, Tensor] = {}
        with self.judged_weights():
            own = self.weights()
            hidden = {name: value.clone() for name, value in hidden_buffers(self.model).items()}
            beside = pack(self.own.state(), "objective", tensors)
            model = {
                name: value.detach().cpu().contiguous().clone()
                for name, value in own.items()
                if isinstance(value, Tensor)
            }
        tree = {
            "progress": self.progress.as_dict(),
            "optimizers": {name: self._whole(optimizer.state_dict()) for name, optimizer in self.optimizers.items()},
            "generators": seeding.capture(),
            "context": self.context.state,
            "totals": self.totals.as_dict(),
            "model_extra": {name: value for name, value in own.items() if not isinstance(value, Tensor)},
            "hidden_buffers": hidden,
            "gradients": self._gradients_left(),
            "training_points": training_points(self.optimizers),
            "averaging": self.averaging.state_dict() if self.averaging is not None else None,
            "schedule": self.schedule.state_dict(),
            "scaler": self.scaler.state_dict() if self.scaler is not None else None,
            "config": self.config.model_dump(mode="json"),
        }
        packed = {name: pack(value, name, tensors) for name, value in tree.items()}
        packed["objective"] = beside
        if self.parallel is not None:
            self.parallel.add_own_states(packed, tensors, tree)
        return model, packed, tensors

    def require_resumable(self) -> None:
        """Raise UserCodeError when context.state holds what a resumed run could not take up."""
        require_resumable(self.context.state, self.built_state)

    def load(self, checkpoint: LoadedCheckpoint) -> None:
        """Take up the state of a checkpoint, generators last: nothing may draw between this and the next fetch."""
        state = {name: unpack(value, checkpoint.tensors, self.device) for name, value in checkpoint.state.items()}
        if self.parallel is not None:
            state = self.parallel.own_state(state)
        self.own.load(state["objective"])
        model, optimizers = {**checkpoint.model, **state["model_extra"]}, state["optimizers"]
        if self.parallel is not None:
            model, optimizers = self.parallel.divided(model, optimizers)
        self.model.load_state_dict(model)
        restore_hidden_buffers(self.model, state["hidden_buffers"])
        for name, optimizer in self.optimizers.items():
            optimizer.load_state_dict(optimizers[name])
        if self.config.training.channels_last:
            match_layout(self.optimizers.values())
        if self.scaler is not None:
            self.scaler.load_state_dict(state["scaler"])
        restore_training_points(self.optimizers, state["training_points"])
        if self.averaging is not None:
            self.averaging.load_state_dict(state["averaging"])
        for name, parameter in self.model.named_parameters():
            parameter.grad = state["gradients"].get(name)
        if self.zero is not None:
            self.zero.follow_weights()
        self.schedule.load_state_dict(state["schedule"])
        load_into(self.context.state, state["context"])
        self.progress = Progress.from_dict(state["progress"])
        self.totals = EpochTotals.from_dict(state["totals"])
        self.context.epoch, self.context.step = self.progress.epoch, self.progress.step
        seeding.restore(state["generators"])


def to_device(batch: Any, device: torch.device) -> Any:
    """Return the batch with its tensors on the device; objects with a `.to` of their own are moved by it."""
    if device.type == "cpu":
        return batch
    if isinstance(batch, Tensor):
        return batch.to(device, non_blocking=True)
    if isinstance(batch, Mapping) and not hasattr(batch, "to"):
        return {name: to_device(value, device) for name, value in batch.items()}
    if isinstance(batch, tuple) and hasattr(batch, "_fields"):
        return type(batch)(*(to_device(value, device) for value in batch))
    if isinstance(batch, tuple | list):
        return type(batch)(to_device(value, device) for value in batch)
    return batch.to(device) if hasattr(batch, "to") else batch
