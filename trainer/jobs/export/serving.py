"""The model as deployment calls it: raw inputs in, predictions out."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields, is_dataclass, replace
from typing import Any

import torch
from torch import Tensor, nn

from trainwright.trainer.base.errors import ConfigurationError
from trainwright.trainer.engine.session import Session
from trainwright.trainer.objectives.multi_task import MultiTask
from trainwright.trainer.objectives.supervised import describe, plain_output

OUTPUT = "output"
"""Name of a program's first output, which the metrics compare with the targets."""
PREDICTIONS = (OUTPUT, "outputs", "logits", "prediction", "predictions")
"""Names under which a model that returns several tensors is taken to give its prediction."""


class Serving(nn.Module):
    """The trained model behind its preprocessing, called with positional tensors.

    Args:
        session: whose model, preprocessing, scaling of targets and tasks it has.
        names: keywords under which the model takes its inputs; None: by their order.
        types: of the inputs as the engine's batches have them; None: as they come.

    Attributes:
        output_names: of the tensors that it returns, found by the first call; the first is `output`.
        prediction: name or place of the prediction among several outputs, where it is known.
    """

    def __init__(self, session: Session, names: list[str] | None, types: list[torch.dtype] | None = None) -> None:
        super().__init__()
        work, objective = session.work, session.validation_objective
        self.model, self.names, self.returns, self.types = session.model, names, work.returns, types
        self.tasks = objective if isinstance(objective, MultiTask) else None
        self.output_names: list[str] = []
        self.prediction: str | None = None
        self.target_mean: Tensor
        self.target_scale: Tensor
        self.scaling = work.target_scaling
        if self.scaling is not None:
            self.register_buffer("target_mean", self.scaling.mean)
            self.register_buffer("target_scale", self.scaling.scale)
        self.preprocessing = work.splits.preprocessing

    def forward(self, *inputs: Tensor) -> Tensor | tuple[Tensor, ...]:
        """Map raw inputs (batch, ...) to the prediction (batch, ...); to a tuple where the model gives several.

        Raises:
            ConfigurationError: the model gives no tensors for inputs alone.
        """
        named = self.outputs(*inputs)
        self.output_names = list(named)
        return next(iter(named.values())) if len(named) == 1 else tuple(named.values())

    def outputs(self, *inputs: Tensor) -> dict[str, Tensor]:
        """Return the outputs (batch, ...) by name, the prediction first. Raises as `forward` does."""
        inputs = self.prepared(*inputs)
        result = self.model(*inputs) if self.names is None else self.model(**dict(zip(self.names, inputs, strict=True)))
        if self.tasks is not None:
            columns = self.tasks.in_units(self.tasks.outputs(plain_output(result)))
            return {OUTPUT: columns, **{_free(part.name): columns[:, part.outputs] for part in self.tasks.parts}}
        if isinstance(result, tuple | list) and self.returns in {"loss,logits", "logits,loss"}:
            result = result[1 if self.returns == "loss,logits" else 0]
        given = None if self.names is None else dict(zip(self.names, inputs, strict=True))
        named = _named(plain_output(result, given))
        if not named:
            raise ConfigurationError(
                f"The model gives {describe(result)} for inputs alone; only tensors can be exported.",
                remedy="Return the prediction as a tensor, or a dict or tuple of tensors, when only inputs are given; "
                'or leave "onnx" out of deployment.formats.',
            )
        first_name = self.prediction if self.prediction in named else _likely(named)
        output = named.pop(first_name)
        if self.scaling is not None:
            output = replace(self.scaling, mean=self.target_mean, scale=self.target_scale).in_units(output)
        return {OUTPUT: output, **{_free(name): value for name, value in named.items()}}

    def prepared(self, *inputs: Tensor) -> tuple[Tensor, ...]:
        """Return raw inputs (batch, ...) as the model itself takes them."""
        if self.preprocessing is not None:
            inputs = (self.preprocessing(inputs[0]), *inputs[1:])
        if self.types is not None:
            inputs = tuple(value.to(wanted) for value, wanted in zip(inputs, self.types, strict=True))
        return inputs

    def find_prediction(self, wanted: Tensor, *inputs: Tensor) -> bool:
        """Take the output that equals `wanted`, (batch, ...), as the prediction; return whether there is one."""
        with torch.no_grad():
            named = self.outputs(*inputs)
        for name, value in named.items():
            if is_close(value, wanted):
                if name != OUTPUT:
                    self.prediction = name
                return True
        return False


def is_close(value: Tensor, wanted: Tensor) -> bool:
    """Return whether two outputs, (batch, ...) or (batch, 1), agree but for rounding."""
    if value.numel() != wanted.numel() or len(value) != len(wanted):
        return False
    ours, theirs = (one.detach().double().reshape(len(one), -1).cpu() for one in (value, wanted))
    return bool(torch.allclose(ours, theirs, rtol=1e-3, atol=1e-4, equal_nan=True))


def _named(result: Any) -> dict[str, Tensor]:
    """Return the tensors of a result by name or place; 0-dimensional ones, such as losses, are left out."""
    if isinstance(result, Tensor):
        return {OUTPUT: result}
    if isinstance(result, Mapping):
        pairs = [(str(name), value) for name, value in result.items()]
    elif hasattr(result, "_fields"):
        pairs = list(zip(result._fields, result, strict=True))
    elif isinstance(result, tuple | list):
        pairs = [(f"{OUTPUT}_{number}", value) for number, value in enumerate(result)]
    elif is_dataclass(result):
        pairs = [(one.name, getattr(result, one.name)) for one in fields(result)]
    else:
        pairs = []
    return {name: value for name, value in pairs if isinstance(value, Tensor) and value.dim()}


def _likely(named: dict[str, Tensor]) -> str:
    return next((name for name in PREDICTIONS if name in named), next(iter(named)))


def _free(name: str) -> str:
    """Return a name for a further output that is not the prediction's."""
    return f"{name}_" if name == OUTPUT else name
