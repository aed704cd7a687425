"""Several targets of one model: the options of the multi-task objective."""

from __future__ import annotations

from typing import Annotated, Literal, Self

from pydantic import AfterValidator, Field, field_validator, model_validator

from trainwright.trainer.config.arguments.check import with_arguments
from trainwright.trainer.config.names import require_known
from trainwright.trainer.config.section import Entry, NonNegativeInt, PositiveFloat, Section, Width

TaskName = Annotated[str, Field(pattern=r"^[A-Za-z][A-Za-z0-9_]{0,40}$")]
LOSSES = ("cross_entropy", "focal", "bce_with_logits", "mse", "mae", "huber")
"""One class number per sample, or one number per output."""
TAKEN = ("epoch", "robust", "linear_probe")
"""With `_loss` or `_accuracy` after them, these are names of other measures."""


class TaskPartSection(Section):
    """One of several tasks: which output, which target, which loss."""

    outputs: Width
    """Values per sample: the classes of cross_entropy, else the numbers to predict."""
    loss: Annotated[str | Entry, AfterValidator(with_arguments("loss"))] = "cross_entropy"
    target: NonNegativeInt | Annotated[str, Field(min_length=1)] | None = None
    """First column in a target tensor, or key in the batch; left out: the next columns, or the task's name."""
    weight: PositiveFloat = 1.0
    metrics: list[str] = Field(default_factory=list)
    """Built-in metrics of this task, measured as <task>_<metric>."""

    @field_validator("metrics")
    @classmethod
    def _known_metrics(cls, metrics: list[str]) -> list[str]:
        for metric in metrics:
            require_known("metrics", metric, "objective.tasks.*.metrics")
            if ":" in metric:
                raise ValueError(f"a task takes built-in metrics; put your own, {metric!r}, under `metrics`")
        return metrics

    @field_validator("loss")
    @classmethod
    def _known_loss(cls, loss: str | Entry) -> str | Entry:
        name = loss if isinstance(loss, str) else loss.use
        if name not in LOSSES:
            raise ValueError(f"a task takes one of {', '.join(LOSSES)}")
        return loss


class MultiTaskSection(Section):
    """Several targets of one model, their losses weighted."""

    name: Literal["multi_task"] = "multi_task"
    tasks: Annotated[dict[TaskName, TaskPartSection], Field(min_length=2)]
    """In the order of the model's outputs."""
    weighting: Literal["uncertainty", "fixed"] = "uncertainty"
    """uncertainty: learned with the model (Kendall, Gal and Cipolla 2018, arXiv:1705.07115)."""
    learning_rate_factor: PositiveFloat = 10.0
    """Rate of the learned weights, as a share of optimizer.learning_rate."""

    @model_validator(mode="after")
    def _one_way_to_weigh(self) -> Self:
        weighted = [name for name, task in self.tasks.items() if task.weight != 1.0]
        if self.weighting == "uncertainty" and weighted:
            raise ValueError(
                f"objective.tasks.{weighted[0]}.weight has a meaning only with objective.weighting fixed; "
                "uncertainty learns the weights"
            )
        return self

    @model_validator(mode="after")
    def _names_and_targets_that_can_be_told_apart(self) -> Self:
        taken = [name for name in self.tasks if name in TAKEN]
        if taken:
            raise ValueError(f"objective.tasks: {taken[0]!r} would be taken for another measure; rename the task")
        if len({type(task.target) for task in self.tasks.values()}) > 1:
            raise ValueError("give every task a `target` of one kind: column numbers, keys, or none at all")
        return self
