"""Objective of a run: the work it is built from, the outcome of a batch, and its auxiliary parts."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import torch
from torch import Tensor, nn

from trainwright.trainer.base.errors import ReproducibilityError
from trainwright.trainer.data.splits import Splits
from trainwright.trainer.losses.loss import Loss
from trainwright.trainer.metrics import Metric
from trainwright.trainer.optimization.parameters import DivisionSection, Setting, settings_of

if TYPE_CHECKING:
    from trainwright.trainer.base.section import Entry
    from trainwright.trainer.data.loader import BatchLoader
    from trainwright.trainer.objectives.supervised import TargetScaling
    from trainwright.trainer.user_code.context import Arguments, Context


class OwnTrainer(Protocol):
    """A trainer of another library, which measures a split by its own code."""

    def evaluate(self, samples: Any) -> dict[str, float]:
        """Return `loss` and its metrics over a data set, without a trace in training."""
        ...


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
    """Measures validation (and test) instead of the training objective; has the form of `step`."""
    optimizers: Mapping[str, Any] | None = None
    model_files: list[Path] = field(default_factory=list)
    """Files that the model's first weights come from."""
    param_groups: list[dict[str, Any]] | None = None
    example_input: Any = None
    """A tensor, a tuple of tensors, or tensors by name; batch first."""
    products: dict[str, list[str]] = field(default_factory=dict)
    """Names of linear and convolutional layers by the number format of their output in the dry run."""
    found: str | None = None
    """The form of the first batch's output, in words."""
    vocabulary_goes: str | None = None
    """Where the size of a text source's vocabulary is passed, in words."""
    target_scaling: TargetScaling | None = None
    """Between the units of targets and outputs, where the configuration scales them."""
    arguments: Arguments | None = None
    """Arguments of a task, which record the keys that were read."""
    framework: OwnTrainer | None = None
    """A trainer of another library that makes the steps (trainer/frameworks/)."""

    @property
    def gathers(self) -> bool:
        """Whether outputs and targets are kept for metrics; those that follow from the mean loss need none."""
        return any(metric.of_outputs for metric in self.metrics)

    @property
    def task(self) -> str | None:
        """classification, binary, regression, language_model; None where only the user's code knows."""
        own = self.loss is None or self.step is not None or self.train_step is not None
        return None if own or self.returns not in {None, "output"} else self.loss.task  # type: ignore[union-attr]


@dataclass
class Outcome:
    """Outcome of one micro-batch."""

    loss: Tensor
    """Scalar, attached to the graph."""
    output: Any = None
    """(batch, ...) for metrics; None when there is nothing to gather."""
    target: Any = None
    values: dict[str, Tensor | float] = field(default_factory=dict)
    """Further named numbers of the step."""


class Objective(Protocol):
    """Loss of a micro-batch, and its weight among the micro-batches of one update."""

    def __call__(self, model: nn.Module, batch: Any) -> Outcome:
        """Compute the loss. Raises the user code's errors."""
        ...

    def count(self, batch: Any) -> int:
        """Return how many terms the batch's mean loss is over."""
        ...


class NoObjective:
    """Placeholder under a user's train_step, whose losses the engine does not compute."""

    def __call__(self, model: nn.Module, batch: Any) -> Outcome:  # noqa: ARG002 - the form of an objective
        """Refuse. Raises TypeError."""
        raise TypeError("a train_step computes its losses itself: it cannot be measured in parts")

    def count(self, batch: Any) -> int:  # noqa: ARG002
        """Refuse. Raises TypeError."""
        raise TypeError("a train_step computes its losses itself: it has no terms to count")


class Processes(Protocol):
    """The processes of a run, as a measure asks them."""

    @property
    def is_first(self) -> bool:
        """Whether this process is the one that gathers."""
        ...

    def total(self, value: Tensor) -> Tensor:
        """Return the sum of a tensor of any shape over all of them, the same in each."""
        ...

    def gather(self, value: Any) -> list[Any]:
        """Return every process's value in the first; elsewhere nothing."""
        ...

    def agreed(self, values: dict[str, float]) -> dict[str, float]:
        """Return the first process's values in each."""
        ...


class MeasuredRun(Protocol):
    """Parts of a run that a measure needs."""

    @property
    def seed(self) -> int:
        """The run's seed."""
        ...

    @property
    def model(self) -> nn.Module:
        """The trained model, on the device."""
        ...

    @property
    def device(self) -> torch.device:
        """Where it is."""
        ...

    @property
    def train_loader(self) -> BatchLoader:
        """The training samples."""
        ...

    @property
    def strategy(self) -> Processes:
        """The processes that measure together."""
        ...

    def autocast(self) -> AbstractContextManager[Any]:
        """Return the context in which forward passes run."""
        ...


class Measure(Protocol):
    """A validation measure that needs more than the plain outputs."""

    names: tuple[str, ...]
    """Of the values it gives, always the same."""

    def __call__(self, run: MeasuredRun, loader: BatchLoader) -> dict[str, float]:
        """Measure a split. The model is in evaluation mode, gradients are off, the generators are put back later."""
        ...


@dataclass
class Auxiliary:
    """Auxiliary parts of an objective beside the model; empty for most."""

    modules: nn.ModuleDict = field(default_factory=nn.ModuleDict)
    """Trained with the model, checkpointed beside it, never part of it."""
    measures: Sequence[Measure] = ()
    record: dict[str, Any] = field(default_factory=dict)
    """Record for the evidence, as JSON types."""
    fixed: dict[str, str] = field(default_factory=dict)
    """Digests that must be the same when the run is resumed, by name."""
    learning_rate_factor: float = 1.0

    @property
    def names(self) -> list[str]:
        """Names of the added validation values."""
        return [name for measure in self.measures for name in measure.names]

    def settings(self, section: DivisionSection) -> list[Setting]:
        """Return its parameters with their rates and decays: the configuration's groups and layers are the model's."""
        plain: dict[str, Any] = {"groups": [], "layer_decay": None, "layers": None}
        rate = section.learning_rate and section.learning_rate * self.learning_rate_factor
        return settings_of(self.modules, section.model_copy(update={**plain, "learning_rate": rate}))

    def state_dict(self) -> dict[str, Any]:
        """Return the state for a checkpoint."""
        return {"modules": dict(self.modules.state_dict()), "fixed": self.fixed}

    def load_state_dict(self, state: dict[str, Any], /) -> None:
        """Resume from a checkpoint's state.

        Raises:
            ReproducibilityError: a dependency of the objective has changed since the run began.
        """
        changed = [name for name, digest in self.fixed.items() if state["fixed"].get(name) != digest]
        if changed:
            raise ReproducibilityError(
                f"The {changed[0]} changed since the run began: digest {self.fixed[changed[0]]}, then "
                f"{state['fixed'].get(changed[0])}.",
                remedy="Put the old one back and resume, or start a new run: start_training(project, kind).",
            )
        if len(self.modules):  # an export of a student has no teacher, and no maps to it
            self.modules.load_state_dict(state["modules"])


@dataclass(frozen=True)
class Built:
    """Training and validation objective, with their auxiliary parts."""

    training: Objective
    validation: Objective
    auxiliary: Auxiliary = field(default_factory=Auxiliary)


@dataclass(frozen=True)
class Setup:
    """Inputs for building an objective."""

    work: Work
    context: Context
    device: torch.device
    untouched: Callable[[], AbstractContextManager[None]]
    """Keeps the user's state as it is while the model is called."""
    batch: Callable[[], Any]
    """A real batch on the device."""
    make_model: Callable[[Entry], nn.Module]
    exporting: bool
    """Whether the run only measures and exports: then nothing is trained, and no teacher is needed."""

    @contextmanager
    def without_trace(self) -> Iterator[None]:
        """Call the model without a trace: no gradients, batch statistics and the user's state as they were."""
        with evaluation_mode(self.work.model), torch.no_grad(), self.untouched():
            yield


@contextmanager
def evaluation_mode(model: nn.Module) -> Iterator[None]:
    """Freeze dropout and batch statistics inside the context, and restore each module's mode after it."""
    training = [module for module in model.modules() if module.training]
    model.eval()
    try:
        yield
    finally:
        for module in training:
            module.training = True
