"""Schedule-Free learning: Defazio et al. 2024, arXiv:2405.15682. Its warmup is that of the schedule section.

These optimizers train at one point and are evaluated at another. The package's `train()` after `eval()` brings the
training point back only up to rounding; a run that saved a checkpoint would then continue with other bits than one that
did not. So the training point is kept and put back.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import Field

from trainwright.trainer.base.section import LearningRate, NonNegativeFloat, PositiveFloat, Probability
from trainwright.trainer.optimization.optimizers.section import Optimizer, OptimizerSection
from trainwright.trainer.optimization.weight_averaging import WeightObserver

if TYPE_CHECKING:
    from torch import Tensor

InnerProbability = Annotated[float, Field(gt=0.0, lt=1.0)]


class ScheduleFreeAdamW(OptimizerSection):
    """AdamW whose weights are averaged on the way, in place of a decaying rate."""

    made_by = "pytorch_optimizer.ScheduleFreeAdamW"
    averages = True

    name: Literal["schedule_free_adamw"] = "schedule_free_adamw"
    learning_rate: LearningRate = 2.5e-3
    weight_decay: NonNegativeFloat = 0.0
    betas: Annotated[tuple[InnerProbability, Probability], Field(strict=False)] = (0.9, 0.999)
    eps: PositiveFloat = 1e-8


class ScheduleFreeSgd(OptimizerSection):
    """SGD whose weights are averaged on the way, in place of a decaying rate."""

    made_by = "pytorch_optimizer.ScheduleFreeSGD"
    averages = True

    name: Literal["schedule_free_sgd"] = "schedule_free_sgd"
    learning_rate: LearningRate = 1.0
    weight_decay: NonNegativeFloat = 0.0
    momentum: InnerProbability = 0.9


class TrainingPoints(WeightObserver):
    """Switches the optimizers of a run that average by themselves."""

    state_name = "training_points"

    def __init__(self, optimizers: Mapping[str, Optimizer]) -> None:
        self.optimizers = {name: optimizer for name, optimizer in optimizers.items() if averages(optimizer)}

    @property
    def is_needed(self) -> bool:
        """Whether any optimizer averages."""
        return bool(self.optimizers)

    @contextmanager
    def evaluated(self) -> Iterator[None]:
        """Hold the averaged weights in the model inside the context."""
        groups = [group for optimizer in self.optimizers.values() for group in optimizer.param_groups]
        kept = [(group, _training_point(group), group["train_mode"]) for group in groups]
        self.settle()
        try:
            yield
        finally:
            for group, point, mode in kept:
                _put_back(group, point)
                group["train_mode"] = mode

    def settle(self) -> None:
        """Leave the averaged weights in the model for good."""
        for optimizer in self.optimizers.values():
            optimizer.eval()  # type: ignore[attr-defined]

    def state_dict(self) -> dict[str, list[list[Tensor]]]:
        """Return the training weights of each optimizer by group."""
        return {
            name: [_training_point(group) for group in optimizer.param_groups]
            for name, optimizer in self.optimizers.items()
        }

    def load_state_dict(self, state: dict[str, Any], /) -> None:
        """Put the training weights into the model; the optimizers' state, the mode included, is loaded by then."""
        for name, points in state.items():
            for group, point in zip(self.optimizers[name].param_groups, points, strict=True):
                _put_back(group, point)


def averages(optimizer: Optimizer) -> bool:
    """Return whether the optimizer is a Schedule-Free one."""
    return any("train_mode" in group for group in optimizer.param_groups)


def _training_point(group: dict[str, Any]) -> list[Tensor]:
    """Return copies of a group's parameters as they are trained."""
    return [parameter.detach().clone() for parameter in group["params"]]


def _put_back(group: dict[str, Any], point: list[Tensor]) -> None:
    import torch

    with torch.no_grad():
        for parameter, value in zip(group["params"], point, strict=True):
            parameter.copy_(value)
