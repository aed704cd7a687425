"""Weight averages (EMA, SWA) as observers of the weights.

EMA: an exponential moving average after each step (Polyak and Juditsky 1992; its warm-up as in TensorFlow's). SWA: the
mean over the ends of the last epochs (Izmailov et al. 2018, arXiv:1803.05407). The arithmetic is torch's
(torch.optim.swa_utils); this module keeps two sets of values, and which of them is in the model.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import Field

from trainwright.trainer.base.section import NonNegativeInt, PositiveFloat, Probability, Section, union_of

if TYPE_CHECKING:
    from torch import Tensor, nn


class WeightObserver:
    """Observer of the weights; each method does nothing unless a technique needs it.

    Attributes:
        state_name: the name of its state among the components of the run; None where it has none.
        moves_at_epoch_end: whether a validation cannot be repeated after it without moving it again.
    """

    state_name: str | None = None
    moves_at_epoch_end: bool = False

    @property
    def is_needed(self) -> bool:
        """Whether this run needs it."""
        return True

    def before_epoch(self, finished_epochs: int) -> None:
        """Prepare the weights for an epoch, or for the rest of one that is resumed."""

    def after_step(self) -> None:
        """Follow an optimizer step. Does not wait for the device."""

    def after_epoch(self, finished_epochs: int) -> bool:  # noqa: ARG002 - the moment's form
        """Follow an epoch's end; return whether the evaluated weights need new statistics of batch normalisation."""
        return False

    def take_buffers(self) -> None:
        """Take over the model's buffers for the evaluated weights (called inside `evaluated`)."""

    def evaluated(self) -> AbstractContextManager[None]:
        """Put the weights that are evaluated and exported into the model inside the context; it is undone exactly."""
        return nullcontext()

    def settle(self) -> None:
        """Leave the evaluated weights in the model for good: training is over."""

    def state_dict(self) -> dict[str, Any]:
        """Return the checkpointed state beside the model's file, which holds the evaluated weights."""
        return {}

    def load_state_dict(self, state: dict[str, Any], /) -> None:
        """Resume from a checkpoint's state; the model's evaluated weights are replaced by the trained ones."""


class WeightAveraging(WeightObserver):
    """Averages of the updated parameters and of the model's floating-point and complex buffers.

    Buffers are averaged like weights (the statistics of batch normalisation belong to the weights that made them);
    integer ones are left to the model, and so are those that begin with infinities: a mask has no mean. So are those
    that are not persistent: each process of a group may hold its own, and the averages must be the same in all.
    """

    state_name = "averaging"
    moves_at_epoch_end = True

    def __init__(self, model: nn.Module, parameters: list[nn.Parameter]) -> None:
        self.parameters = [parameter for parameter in parameters if _has_mean(parameter)]
        self.places = [
            (module._buffers, name)
            for module in model.modules()
            for name, buffer in module.named_buffers(recurse=False)
            if name not in module._non_persistent_buffers_set and _has_mean(buffer) and not bool(buffer.isinf().any())
        ]
        self.averages: list[Tensor] = []
        """Empty before the first update; at least float32, for a small share of a short number is nothing."""
        self.widened = False
        """Whether some averages are longer than the weights they average."""
        self.updates = 0

    @contextmanager
    def evaluated(self) -> Iterator[None]:
        """Hold the averages in the model inside the context; the trained values come back exactly."""
        kept = [value.detach().clone() for value in self._live()] if self.averages else []
        self.settle()
        try:
            yield
        finally:
            _copy(kept, self._live())

    def settle(self) -> None:
        """Leave the averages in the model: for good when training is over."""
        _copy(self.averages, self._live())

    def take_buffers(self) -> None:
        """Take over the model's buffers into the average (called inside `evaluated`)."""
        _copy(self._live()[len(self.parameters) :], self.averages[len(self.parameters) :])

    def state_dict(self) -> dict[str, Any]:
        """Return the checkpointed state beside the model's file, which holds the averages."""
        live = self._live() if self.averages else []
        wider = [
            average if average.dtype != value.dtype else None
            for average, value in zip(self.averages, live, strict=True)
        ]
        return {"updates": self.updates, "training": live, "averages": wider}

    def load_state_dict(self, state: dict[str, Any], /) -> None:
        """Resume from a checkpoint's state; the model holds the averages before it, and no longer after it."""
        self.updates = state["updates"]
        if state["training"]:
            live = self._live()
            self.averages = [
                _wide(value) if wider is None else wider for value, wider in zip(live, state["averages"], strict=True)
            ]
            self.widened = any(wider is not None for wider in state["averages"])
            _copy(state["training"], live)

    def _update(self, blend: Any) -> None:
        live = self._live()
        if not self.averages:
            self.averages = [_wide(value) for value in live]
            self.widened = any(value.dtype != wide.dtype for value, wide in zip(live, self.averages, strict=True))
        else:
            if self.widened:
                live = [value.to(average.dtype) for value, average in zip(live, self.averages, strict=True)]
            blend(self.averages, live, self.updates)
        self.updates += 1

    def _live(self) -> list[Tensor]:
        buffers = [held[name] for held, name in self.places]
        return [*self.parameters, *buffers]  # type: ignore[list-item]  # none of these is None


class Ema(WeightAveraging):
    """After each step, average = decay * average + (1 - decay) * weights; the first is the weights themselves."""

    def __init__(self, section: EmaSection, model: nn.Module, parameters: list[nn.Parameter]) -> None:
        super().__init__(model, parameters)
        self.section = section

    def after_step(self) -> None:
        """Move the average towards the weights."""
        from torch.optim.swa_utils import get_ema_multi_avg_fn

        decay = self.section.decay
        if self.section.decay_warmup:
            decay = min(decay, (1 + self.updates) / (10 + self.updates))
        self._update(get_ema_multi_avg_fn(decay))  # type: ignore[no-untyped-call]


class Swa(WeightAveraging):
    """At the end of each epoch after the first `start`, the mean of all such ends."""

    def __init__(self, start: int, model: nn.Module, parameters: list[nn.Parameter]) -> None:
        super().__init__(model, parameters)
        from torch import nn

        self.start = start
        self.has_batch_norm = any(isinstance(m, nn.modules.batchnorm._BatchNorm) for m in model.modules())

    def after_epoch(self, finished_epochs: int) -> bool:
        """Take the weights into the mean."""
        from torch.optim.swa_utils import get_swa_multi_avg_fn

        if finished_epochs <= self.start:
            return False
        self._update(get_swa_multi_avg_fn())  # type: ignore[no-untyped-call]
        return self.has_batch_norm


class EmaSection(Section):
    """An exponential moving average, updated after each optimizer step."""

    name: Literal["ema"] = "ema"
    decay: Annotated[float, Field(gt=0.0, lt=1.0)] = 0.999
    """Share of the average that each step keeps."""
    decay_warmup: bool = True
    """Begin with (1 + updates) / (10 + updates), until that reaches decay, so that the first weights are forgotten."""

    def build(self, epochs: int, model: nn.Module, parameters: list[nn.Parameter]) -> WeightAveraging:  # noqa: ARG002
        """Return the averages of the updated parameters."""
        return Ema(self, model, parameters)


class SwaSection(Section):
    """The plain mean of the weights at the end of each of the last epochs."""

    name: Literal["swa"] = "swa"
    after_fraction: Probability = 0.75
    """Share of the epochs that are over when averaging begins."""
    after_epochs: NonNegativeInt | None = None
    """Epochs that are over when averaging begins; replaces after_fraction."""
    learning_rate_factor: PositiveFloat = 0.5
    """Constant rate from then on, as a share of the peak."""
    anneal_epochs: NonNegativeInt = 1
    """Epochs in which the rate changes to it."""

    def start(self, epochs: int) -> int:
        """Return the epochs that are over when averaging begins; the last one is always averaged."""
        wanted = self.after_epochs if self.after_epochs is not None else math.ceil(self.after_fraction * epochs)
        return min(wanted, epochs - 1)

    def build(self, epochs: int, model: nn.Module, parameters: list[nn.Parameter]) -> WeightAveraging:
        """Return the mean over the ends of the last of `epochs` epochs."""
        return Swa(self.start(epochs), model, parameters)


DEFAULT_AVERAGING = "ema"

if TYPE_CHECKING:
    WeightAveragingSection = EmaSection | SwaSection
else:
    WeightAveragingSection = union_of((EmaSection, SwaSection), DEFAULT_AVERAGING)
"""The average, chosen by `name`."""


def _has_mean(value: Tensor) -> bool:
    return value.is_floating_point() or value.is_complex()


def _wide(value: Tensor) -> Tensor:
    import torch

    return value.detach().to(torch.promote_types(value.dtype, torch.float32), copy=True)


def _copy(values: list[Tensor], into: list[Tensor]) -> None:
    import torch

    if values:
        with torch.no_grad():
            torch._foreach_copy_(into, values)
