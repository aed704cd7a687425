"""Several targets of one model: each with its output, loss and metrics, weighted by hand or by learned uncertainty.

B samples, W values of all outputs side by side, T of all targets.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn

from trainwright.trainer.base.errors import ConfigurationError
from trainwright.trainer.base.section import Entry
from trainwright.trainer.data.tensors import batch_size
from trainwright.trainer.losses import built_in_loss
from trainwright.trainer.losses.loss import Loss
from trainwright.trainer.metrics import BUILT_IN, Metric, require_own_names
from trainwright.trainer.objectives.objective import Auxiliary, Built, Outcome, Setup, Work
from trainwright.trainer.objectives.supervised import TargetScaling, describe, plain_output, split_batch

if TYPE_CHECKING:
    from trainwright.trainer.objectives.sections import MultiTaskSection


@dataclass(frozen=True)
class Part:
    """One task, with its place among the others."""

    name: str
    loss: Loss
    weight: float
    outputs: slice
    """Its columns among the W."""
    targets: slice
    """Its columns among the T: one for class numbers, else as many as outputs."""
    source: int | str
    """First column in a target tensor, or key in the batch."""
    scaling: TargetScaling | None = None
    """Of its own targets: the model's outputs are then in deviations, and so is its loss."""

    @property
    def of_classes(self) -> bool:
        """Whether its targets are class numbers."""
        return self.targets.stop - self.targets.start == 1 and self.loss.task == "classification"

    def compute(self, outputs: Tensor, targets: Tensor) -> Tensor:
        """Return the task's mean loss of the model's outputs (B, W) and targets (B, T)."""
        wanted = targets[:, self.targets]
        own = wanted[:, 0].long() if self.of_classes else self._scaled(wanted)
        return self.loss.compute(outputs[:, self.outputs], own)

    def measure(self, outputs: Tensor, targets: Tensor) -> Tensor:
        """Return the same of outputs (B, W) in the targets' units."""
        if self.scaling is None:
            return self.compute(outputs, targets)
        return self.loss.compute(self._scaled(outputs[:, self.outputs]), self._scaled(targets[:, self.targets]))

    def in_units(self, outputs: Tensor) -> Tensor:
        """Return the task's columns of the model's outputs (B, W) in the targets' units."""
        own = outputs[:, self.outputs]
        return own if self.scaling is None else self.scaling.in_units(own)

    def _scaled(self, values: Tensor) -> Tensor:
        return values.float() if self.scaling is None else self.scaling.scaled(values)


def build_parts(section: MultiTaskSection, scaling: TargetScaling | None = None) -> list[Part]:
    """Return the tasks in their order, each after the columns of those before it.

    Args:
        scaling: of all targets, (T,) in the order of the data.
    """
    parts: list[Part] = []
    for name, task in section.tasks.items():
        entry = Entry(use=task.loss) if isinstance(task.loss, str) else task.loss
        loss = built_in_loss(entry.use, entry.args)
        start, first = (parts[-1].outputs.stop, parts[-1].targets.stop) if parts else (0, 0)
        width = 1 if loss.task == "classification" else task.outputs
        source = task.target if task.target is not None else name
        outputs, targets = slice(start, start + task.outputs), slice(first, first + width)
        own = _of_columns(scaling, slice(source, source + width) if isinstance(source, int) else targets)
        parts.append(Part(name, loss, task.weight, outputs, targets, source, own))
    return parts


def _of_columns(scaling: TargetScaling | None, columns: slice) -> TargetScaling | None:
    return scaling and replace(scaling, mean=scaling.mean[columns], scale=scaling.scale[columns])


class Uncertainty(nn.Module):
    """Weights learned with the model: Kendall, Gal and Cipolla 2018, arXiv:1705.07115, equations 7 and 10.

    A task counts exp(-s) times its loss (half of that where it predicts numbers), plus s / 2, where s is the logarithm
    of its noise's variance. It begins at its optimum under the untrained model's losses, and not at 0:
    the way there would take longer the larger a loss's unit is, and the small losses would wait for it.
    """

    def __init__(self, parts: list[Part], first_losses: Tensor) -> None:
        super().__init__()
        halves = torch.tensor([0.5 if part.loss.task == "regression" else 1.0 for part in parts])
        self.log_variances = nn.Parameter(torch.log((2.0 * halves * first_losses.cpu().float()).clamp(min=1e-6)))
        self.register_buffer("halves", halves, persistent=False)
        self.halves: Tensor

    def weights(self) -> Tensor:
        """Return the present weight of each task, (tasks,)."""
        return self.halves * torch.exp(-self.log_variances)

    def forward(self, losses: Tensor) -> Tensor:
        """Return the weighted sum of the losses, (tasks,), plus a term that keeps the weights above zero."""
        return (self.weights() * losses).sum() + 0.5 * self.log_variances.sum()


class MultiTask:
    """The weighted sum of the tasks' losses.

    The model gives one tensor (B, W), the outputs side by side, or a tuple or mapping of one tensor for each task.
    Outcome.output is (B, W) and Outcome.target (B, T) in any case.
    """

    def __init__(self, parts: list[Part], learned: Uncertainty | None) -> None:
        self.parts, self.learned = parts, learned

    def __call__(self, model: nn.Module, batch: Any) -> Outcome:
        """Compute the loss. Raises ConfigurationError when outputs or targets do not fit the tasks."""
        outputs, targets = self.columns(model, batch)
        losses = self.losses(outputs, targets)
        values: dict[str, Tensor | float] = {}
        if self.learned is None:
            loss = (losses * losses.new_tensor([part.weight for part in self.parts])).sum()
        else:
            loss = self.learned(losses)
            weights = zip(self.parts, self.learned.weights().detach(), strict=True)
            values = {f"{part.name}_weight": weight for part, weight in weights}
        return Outcome(loss, self.in_units(outputs), targets, values)

    def in_units(self, outputs: Tensor) -> Tensor:
        """Return the model's outputs (B, W) in the targets' units."""
        if all(part.scaling is None for part in self.parts):
            return outputs
        return torch.cat([part.in_units(outputs) for part in self.parts], dim=1)

    def columns(self, model: nn.Module, batch: Any) -> tuple[Tensor, Tensor]:
        """Return outputs (B, W) and targets (B, T) of a batch."""
        args, named, target = split_batch(batch)
        if isinstance(batch, Mapping):
            keys = {part.source for part in self.parts}
            named, target = {name: value for name, value in batch.items() if name not in keys}, batch
        return self.outputs(plain_output(model(*args, **named))), self._targets(target)

    def losses(self, outputs: Tensor, targets: Tensor) -> Tensor:
        """Return each task's mean loss, (tasks,), of (B, W) and (B, T)."""
        return torch.stack([part.compute(outputs, targets) for part in self.parts])

    def count(self, batch: Any) -> int:
        """Return the samples of the batch."""
        return batch_size(batch)

    def outputs(self, given: Any) -> Tensor:
        """Return a model's result as (B, W). Raises ConfigurationError when it does not fit the tasks."""
        width = self.parts[-1].outputs.stop
        names = [part.name for part in self.parts]
        if isinstance(given, Mapping) and set(names) <= given.keys():
            given = [given[name] for name in names]
        if isinstance(given, tuple | list) and len(given) == len(self.parts):
            columns = [value if value.dim() > 1 else value.unsqueeze(1) for value in given]
            wanted = [part.outputs.stop - part.outputs.start for part in self.parts]
            if [column.shape[1] for column in columns] == wanted:
                given = torch.cat(columns, dim=1)
        if not isinstance(given, Tensor) or given.dim() != 2 or given.shape[1] != width:
            raise ConfigurationError(
                f"The tasks {', '.join(names)} need outputs (batch, {width}) side by side, or one tensor for each; the "
                f"model gives {describe(given)}.",
                remedy="Correct objective.tasks.<name>.outputs, or the model's last layer.",
            )
        return given

    def _targets(self, given: Any) -> Tensor:
        if isinstance(given, Mapping):
            missing = [part.source for part in self.parts if part.source not in given]
            if missing:
                raise ConfigurationError(
                    f"The batch has no target {missing[0]!r}; it has {', '.join(map(str, given))}.",
                    remedy="Set objective.tasks.<name>.target to the key of its target.",
                )
            columns = [given[part.source] for part in self.parts]
        elif isinstance(given, Tensor) and given.dim() == 2:
            columns = [given[:, self._place(part)] for part in self.parts]
        else:
            raise ConfigurationError(
                f"Several tasks need targets (batch, columns) or a mapping; the data has {describe(given)}.",
                remedy='Give samples (inputs, targets) with all targets in one vector, or {"x": ..., "a": ...}.',
            )
        return self._side_by_side([column if column.dim() > 1 else column.unsqueeze(1) for column in columns])

    def _side_by_side(self, columns: list[Tensor]) -> Tensor:
        for part, column in zip(self.parts, columns, strict=True):
            wanted = part.targets.stop - part.targets.start
            if column.shape[1] != wanted:
                raise ConfigurationError(
                    f"Task {part.name} needs {wanted} target values per sample, and finds {column.shape[1]}.",
                    remedy="cross_entropy needs one class number; other losses one number for each of `outputs`. "
                    "Correct objective.tasks.<name>.target or outputs.",
                )
        return torch.cat([column.double() for column in columns], dim=1)

    def _place(self, part: Part) -> slice:
        if isinstance(part.source, int):
            return slice(part.source, part.source + part.targets.stop - part.targets.start)
        return part.targets


def metrics_of(parts: list[Part], section: MultiTaskSection) -> list[Metric]:
    """Return for each task its loss and its metrics over a split, as <task>_<name>.

    Raises:
        ConfigurationError: a metric that is not for the task's loss.
    """
    metrics = []
    for part in parts:
        metrics.append(Metric(f"{part.name}_loss", part.measure))
        for name in section.tasks[part.name].metrics:
            metric = BUILT_IN[name]
            if (
                not metric.of_outputs
                or metric.of_groups
                or (metric.tasks and part.loss.task not in {None, *metric.tasks})
            ):
                fitting = [
                    other.name for other in BUILT_IN.values() if part.loss.task in other.tasks and not other.of_groups
                ]
                raise ConfigurationError(
                    f"`objective.tasks.{part.name}.metrics`: {name} does not fit loss {part.loss.name}.",
                    remedy=f"Use one of {', '.join(fitting)}.",
                )
            metrics.append(
                Metric(f"{part.name}_{name}", _of_part(part, metric.compute), _of_part(part, metric.problem))
            )
    return metrics


def _of_part(part: Part, of: Any) -> Any:
    def compute(outputs: Tensor, targets: Tensor, *names: Any) -> Any:
        wanted = targets[:, part.targets]
        return of(outputs[:, part.outputs], wanted[:, 0].long() if part.of_classes else wanted, *names)

    return compute


def add_metrics(section: MultiTaskSection, work: Work) -> None:
    """Let the work measure each task's loss and metrics too. Raises ConfigurationError for a name that is taken."""
    work.metrics = [*work.metrics, *metrics_of(build_parts(section, work.target_scaling), section)]
    require_own_names((f"metric {metric.name}", metric) for metric in work.metrics)


def build_multi_task(section: MultiTaskSection, setup: Setup) -> Built:
    """Return the tasks' losses, their weights learned from those of the untrained model, or fixed."""
    parts = build_parts(section, setup.work.target_scaling)
    plain = MultiTask(parts, None)
    with setup.without_trace():
        losses = plain.losses(*plain.columns(setup.work.model, setup.batch()))
    if section.weighting == "fixed":
        return Built(plain, plain)
    learned = Uncertainty(parts, losses).to(setup.device)
    modules = nn.ModuleDict({"weights": learned})
    auxiliary = Auxiliary(modules, learning_rate_factor=section.learning_rate_factor)
    return Built(MultiTask(parts, learned), plain, auxiliary)
