"""Work of a run, built: the one form of built-in parts, entries and tasks."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from torch import nn

from trainwright.trainer.data.splits import Splits
from trainwright.trainer.losses.loss import Loss
from trainwright.trainer.metrics import Metric

if TYPE_CHECKING:
    from trainwright.trainer.objectives.target_scaling import TargetScaling
    from trainwright.trainer.user_code.context import Arguments


@dataclass
class Work:
    """Model, data and objective of a run."""

    model: nn.Module
    splits: Splits
    loss: Loss | None
    metrics: list[Metric]
    batch_size: int | None
    shuffle: bool = True
    collate: Callable[[list[Any]], Any] | None = None
    returns: str | None = None
    step: Callable[..., Any] | None = None
    train_step: Callable[..., Any] | None = None
    validation_step: Callable[..., Any] | None = None
    """Measures validation (and test) instead of what is trained; has the form of `step`."""
    optimizers: Mapping[str, Any] | None = None
    model_files: list[Path] = field(default_factory=list)
    """Files that the model's first weights come from."""
    param_groups: list[dict[str, Any]] | None = None
    example_input: Any = None
    """A tensor, a tuple of tensors, or tensors by name; batch first."""
    found: str | None = None
    """What the first batch's output was, in words."""
    vocabulary_goes: str | None = None
    """Where the size of a text source's vocabulary is passed, in words."""
    target_scaling: TargetScaling | None = None
    """Between the targets' units and what the model puts out, where the configuration scales them."""
    arguments: Arguments | None = None
    """What a task was given, which knows what it has read."""

    @property
    def gathers(self) -> bool:
        """Whether outputs and targets are kept for metrics; those that follow from the mean loss need none."""
        return any(metric.of_loss is None for metric in self.metrics)

    @property
    def task(self) -> str | None:
        """classification, binary, regression, language_model; None where only the user's code knows."""
        own = self.loss is None or self.step is not None or self.train_step is not None
        return None if own or self.returns not in {None, "output"} else self.loss.task  # type: ignore[union-attr]
