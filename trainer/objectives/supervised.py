"""Supervised objectives: the model called as was inferred, or the user's step; targets scaled for the loss."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.utils.data import IterableDataset

from trainwright.trainer.base import seeding
from trainwright.trainer.base.errors import ConfigurationError, DataError, UserCodeError
from trainwright.trainer.data.plain_values import target_key
from trainwright.trainer.data.tensors import KnownSamples, TensorSamples, batch_size, known_targets
from trainwright.trainer.losses.loss import Loss, class_numbers
from trainwright.trainer.objectives.objective import Outcome
from trainwright.trainer.user_code.context import Context

LOWEST_LOGIT = -1e4
"""Of what cannot be: below any logit, and within half precision."""
_GATHERED = {"loss", "output", "outputs", "logits", "target", "targets"}


class CustomStep:
    """The user's step function as an objective."""

    def __init__(self, function: Callable[..., Any], context: Context, name: str = "step") -> None:
        self.function, self.context, self.name = function, context, name

    def __call__(self, model: nn.Module, batch: Any) -> Outcome:
        """Call the user's step. Raises UserCodeError when it returns no scalar loss."""
        result = self.function(model, batch, self.context)
        values = dict(result) if isinstance(result, Mapping) else {"loss": result}
        loss = values.get("loss")
        if not isinstance(loss, Tensor) or loss.numel() != 1:
            raise UserCodeError(
                f"{self.name} returned {sorted(map(str, values))} with a loss of type {type(loss).__name__}.",
                remedy='Return {"loss": scalar tensor, ...}.',
            )
        output = next((values[name] for name in ("output", "outputs", "logits") if name in values), None)
        target = next((values[name] for name in ("target", "targets") if name in values), None)
        others = {name: value for name, value in values.items() if name not in _GATHERED}
        return Outcome(loss.reshape(()), output, target, others)

    def count(self, batch: Any) -> int:
        """Return the samples of the batch, as far as they are known."""
        return batch_size(batch)


class JudgedStep(CustomStep):
    """A step that measures a split: where it reports no output, the model's own for the inputs alone is judged."""

    def __call__(self, model: nn.Module, batch: Any) -> Outcome:
        """Call the user's step, and the model where it takes the inputs and there is a target. Raises as the step."""
        outcome, (args, named, target) = super().__call__(model, batch), split_batch(batch)
        if outcome.output is not None or target is None:
            return outcome
        with suppress(Exception), torch.no_grad():  # only its step may know how to call it
            found = plain_output(model(*args, **named), named)
            output = found[0] if isinstance(found, tuple | list) else found
            if isinstance(output, Tensor) and len(output) == len(target):
                return replace(outcome, output=output, target=target)
        return outcome


class Supervised:
    """Loss of a model on (inputs..., target) or on a mapping with a target among `plain_values.TARGET_KEYS`.

    Attributes:
        returns: how the model's output is read.
            output: the prediction, for `loss(output, target)`;
            logits,loss / loss,logits: a pair, from a model that is given the targets too;
            .loss: an object with `.loss` (and `.logits`); loss: the loss itself;
            compute_loss: the model's method of that name, given the batch.
    """

    def __init__(self, loss: Loss | None, returns: str, scaling: TargetScaling | None = None) -> None:
        self.loss, self.returns, self.scaling = loss, returns, scaling

    def __call__(self, model: nn.Module, batch: Any) -> Outcome:
        """Compute the loss of one batch. Raises ConfigurationError when the output does not fit `returns`."""
        args, named, target = split_batch(batch)
        if self.returns == "output":
            output = plain_output(model(*args, **named), named)
            if not isinstance(output, Tensor) or self.loss is None or target is None:
                raise self._mismatch(output)
            target = class_numbers(target, output) if self.loss.of_classes else target
            if self.scaling is not None:
                scaled = self.loss.compute(output, self.scaling.scaled(target))
                return Outcome(scaled, self.scaling.in_units(output), target)
            return Outcome(self.loss.compute(output, target), output, target)
        if self.returns == "compute_loss":
            return self._read(model.compute_loss(batch), target)  # type: ignore[operator]
        if isinstance(batch, Mapping):
            return self._read(model(**batch), target)
        inputs = args if target is None else (*args, target)
        return self._read(model(*inputs), target)

    def count(self, batch: Any) -> int:
        """Return the terms of the batch's mean: counted targets where there are any, else samples."""
        args, named, target = split_batch(batch)
        if self.loss is not None and target is not None and hasattr(target, "__len__"):
            return self.loss.count(target)
        first = next((value for value in (target, *args, *named.values()) if hasattr(value, "__len__")), [0])
        return len(first)

    def _read(self, result: Any, target: Any) -> Outcome:
        if self.returns in {"logits,loss", "loss,logits"}:
            if not isinstance(result, tuple | list) or len(result) < 2:
                raise self._mismatch(result)
            first, second = result[0], result[1]
            output, loss = (first, second) if self.returns == "logits,loss" else (second, first)
        elif self.returns == ".loss":
            output, loss = getattr(result, "logits", None), getattr(result, "loss", None)
        else:
            output, loss = None, result
            if isinstance(result, Mapping):
                loss = result.get("loss")
        if not isinstance(loss, Tensor) or loss.numel() != 1:
            raise self._mismatch(result)
        return Outcome(loss.reshape(()), output, target if output is not None else None)

    def _mismatch(self, result: Any) -> ConfigurationError:
        fits = reading_of(result)
        if fits == self.returns == "output":
            lacks = "no `loss` is given" if self.loss is None else "a sample has no target"
            remedy = "Name a `loss`." if self.loss is None else "Return (inputs, target) from the data."
            return ConfigurationError(f"`returns` = 'output' takes a loss and a target, and {lacks}.", remedy=remedy)
        key = next((name for name, part in result.items() if isinstance(part, Tensor)), None) if isinstance(
            result, Mapping
        ) else None  # fmt: skip
        alone = f"End forward with the prediction alone, `return output[{key!r}]`" if key else "Return the prediction"
        return ConfigurationError(
            f"`returns` = {self.returns!r} does not fit: the model returned {describe(result)}.",
            remedy=f"Set `returns` to {fits!r}, which this is, or remove it: it is found then."
            if fits is not None
            else f"{alone}, a tensor (batch, ...); or give a task whose `step` computes the loss.",
            document="configs/your_code.md",
            details={"changes": {"returns": fits}} if fits is not None else {},
        )


def split_batch(batch: Any) -> tuple[tuple[Any, ...], dict[str, Any], Any]:
    """Return positional inputs, keyword inputs and the target (None when there is none)."""
    if isinstance(batch, Mapping):
        key = target_key(batch)
        return (), {name: value for name, value in batch.items() if name != key}, batch[key] if key else None
    if isinstance(batch, tuple | list) and len(batch) > 1:
        return tuple(batch[:-1]), {}, batch[-1]
    if isinstance(batch, tuple | list):
        return tuple(batch), {}, None
    target = next((getattr(batch, name) for name in ("y", "labels") if hasattr(batch, name)), None)
    return (batch,), {}, target  # a special object, such as a batch of graphs


def plain_output(result: Any, named: Mapping[str, Any] | None = None) -> Any:
    """Return the prediction of a model's result: itself, its `.logits`, or those of a span's ends, (rows, tokens, 2).

    Args:
        named: the model's inputs by name; of a span, places that their attention_mask leaves out are never an end,
            so that a row's prediction and loss are the same whatever the length of its batch.
    """
    if hasattr(result, "start_logits") and hasattr(result, "end_logits"):
        ends = torch.stack([result.start_logits, result.end_logits], dim=-1)
        mask = (named or {}).get("attention_mask")
        return ends if mask is None else ends.masked_fill((mask == 0).unsqueeze(-1), LOWEST_LOGIT)
    return result.logits if hasattr(result, "logits") and not isinstance(result, Tensor) else result


def reading_of(result: Any, *, may_be_output: bool = True) -> str | None:
    """Return the `returns` that fits a model's result; None where neither a prediction nor a loss is plain in it."""
    if isinstance(getattr(result, "loss", None), Tensor):
        return ".loss"
    if isinstance(result, tuple | list) and len(result) >= 2:
        first, second = (isinstance(item, Tensor) and item.numel() == 1 for item in result[:2])
        return {(False, True): "logits,loss", (True, False): "loss,logits"}.get((first, second))
    output = plain_output(result)
    if isinstance(output, Tensor):
        return "loss" if output.dim() == 0 else "output" if may_be_output else None
    return "loss" if isinstance(result, Mapping) and "loss" in result else None


def describe(value: Any) -> str:
    """Return a short text for a value: type and shapes."""
    if isinstance(value, Tensor):
        return f"a tensor {tuple(value.shape)} {value.dtype}"
    if isinstance(value, tuple | list):
        return f"a {type(value).__name__} of ({', '.join(describe(item) for item in value[:4])})"
    if isinstance(value, Mapping):
        return f"a {type(value).__name__} of {', '.join(map(str, [*value][:4]))}"
    return "None" if value is None else f"a {type(value).__name__}"


MAX_SAMPLES = 20_000
"""Samples read of a train split that is not in memory, evenly spaced."""


@dataclass(frozen=True)
class TargetScaling:
    """Measured on the train split alone. The model's output is in deviations from the mean."""

    mean: Tensor
    """(...) as one target, float32; of its logarithm where one is taken."""
    scale: Tensor
    added: float | None = None
    """What is added before the natural logarithm is taken: 0 or 1; None: none is taken."""

    def scaled(self, target: Tensor) -> Tensor:
        """Return targets (batch, ...) in deviations from the mean."""
        number = target.float()
        if self.added is not None:  # of a held-out target that has none, as the clean room takes it
            number = (number + self.added).clamp(min=torch.finfo(torch.float32).tiny).log()
        return (number - self.mean.to(target.device)) / self.scale.to(target.device)

    def in_units(self, output: Tensor) -> Tensor:
        """Return the model's outputs, (batch, ...) or (batch, 1), in the targets' units."""
        number = output.float() * self.scale.to(output.device) + self.mean.to(output.device)
        return number if self.added is None else number.exp() - self.added

    def as_dict(self) -> dict[str, Any]:
        """Return the record for the evidence and for the exported model."""
        of_logarithm = {} if self.added is None else {"added": self.added}
        return {"mean": self.mean.tolist(), "scale": self.scale.tolist(), **of_logarithm}


ADDED: dict[str | None, float] = {"log": 0.0, "log1p": 1.0}


def measure_targets(samples: Any, seed: int, by: str | None = "standardize", validation: Any = None) -> TargetScaling:
    """Return mean and deviation of the train split's targets; the deviation is 1 where nothing varies.

    Args:
        samples: the train split's.
        seed: of their draws.
        by: `standardize`, or `log` and `log1p` of the targets first.
        validation: that split's samples, whose targets need a logarithm too where they are in memory.

    Raises:
        DataError: a stream, targets that are no numbers to predict, or numbers without a logarithm.
    """
    targets = _targets(samples, seed)
    if targets is None or not (targets.is_floating_point() or targets.dtype in {torch.int32, torch.int64}):
        raise DataError(
            "`target_scaling` needs numbers to predict, which this train split does not give with its samples.",
            remedy="Take target_scaling out (null), or hand over samples (inputs, target) in a data set with "
            "__getitem__.",
            document="configs/losses.md",
            details={"changes": {"target_scaling": None}},
        )
    numbers, added = targets.double(), ADDED.get(by)
    if added is not None:
        numbers = _logarithm(numbers, added, by)
        if (held := known_targets(validation)) is not None:
            _logarithm(held.double(), added, by, "validation")
    mean, scale = numbers.mean(dim=0), numbers.std(dim=0, unbiased=False)
    return TargetScaling(mean.float(), torch.where(scale > 0, scale, torch.ones_like(scale)).float(), added)


def _logarithm(numbers: Tensor, added: float, by: str | None, split: str = "train") -> Tensor:
    below = numbers[numbers <= -added]
    if below.numel():
        other = "standardize" if added or bool((below < 0).any()) else "log1p"
        raise DataError(
            f"`target_scaling` = {by!r} takes the logarithm of the targets{' plus 1' if added else ''}, and "
            f"{below.numel()} of {numbers.numel()} in {split} have none: the lowest is {float(below.min()):g}.",
            remedy=f"Set target_scaling to {other}.",
            document="configs/losses.md",
            details={"changes": {"target_scaling": other}},
        )
    return (numbers + added).log()


def _targets(samples: Any, seed: int) -> Tensor | None:
    if isinstance(samples, TensorSamples | KnownSamples):
        return known_targets(samples)
    if isinstance(samples, IterableDataset):
        return None
    places = np.unique(np.linspace(0, len(samples) - 1, min(len(samples), MAX_SAMPLES)).round().astype(int))
    found = []
    with seeding.preserved():
        for place in places.tolist():
            seeding.seed_sample(seed, 0, place)
            found.append(split_batch(samples[place])[2])
    if any(target is None for target in found):
        return None
    return torch.stack([torch.as_tensor(target) for target in found])
