"""The model as deployment calls it: raw inputs in, predictions out."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor, nn

from trainwright.trainer.base.errors import ConfigurationError
from trainwright.trainer.engine.session import Session
from trainwright.trainer.objectives.supervised import TargetScaling, plain_output, split_batch

ROWS = 64

WITHOUT_ONNX: dict[str, Any] = {"changes": {"deployment.formats": ["safetensors"]}}
"""Details of the error for a model that cannot be written as ONNX: the change that fixes it."""


class Serving(nn.Module):
    """The trained model behind its preprocessing, called with positional tensors, returning the prediction alone."""

    def __init__(
        self,
        model: nn.Module,
        names: list[str] | None,
        returns: str | None,
        measured: Any | None,
        scaling: TargetScaling | None = None,
    ) -> None:
        super().__init__()
        self.rescales = scaling is not None
        self.target_mean: Tensor
        self.target_scale: Tensor
        if scaling is not None:
            self.register_buffer("target_mean", scaling.mean)
            self.register_buffer("target_scale", scaling.scale)
        self.model, self.names, self.returns = model, names, returns
        self.standardizes = measured is not None
        self.mean: Tensor
        self.scale: Tensor
        if measured is not None:
            self.register_buffer("mean", torch.tensor(measured["mean"], dtype=torch.float32))
            self.register_buffer("scale", torch.tensor(measured["scale"], dtype=torch.float32))

    def forward(self, *inputs: Tensor) -> Tensor:
        """Map raw inputs (batch, ...) to predictions (batch, ...)."""
        if self.standardizes:
            inputs = ((inputs[0] - self.mean) / self.scale, *inputs[1:])
        result = self.model(*inputs) if self.names is None else self.model(**dict(zip(self.names, inputs, strict=True)))
        if self.returns == "loss,logits":
            result = result[1]
        output = plain_output(result[0] if isinstance(result, tuple | list) else result)
        if not isinstance(output, Tensor):
            raise ConfigurationError(
                f"The model gives a {type(output).__name__} for inputs alone; only a tensor can be exported.",
                remedy='Leave "onnx" out of deployment.formats, or let the model return its prediction.',
            )
        return output * self.target_scale + self.target_mean if self.rescales else output


def serving_model(session: Session) -> Serving:
    """Wrap the session's model."""
    rows = _inputs(session, 2)
    names = list(rows) if isinstance(_first_batch(session, 2), Mapping) else None
    work = session.work
    return Serving(session.model, names, work.returns, work.splits.preprocessing, work.target_scaling).eval()


def example_rows(session: Session) -> dict[str, Tensor]:
    """Return raw inputs of real samples (validation, else train) by name: at most ROWS of them."""
    rows = _inputs(session, ROWS)
    measured = session.work.splits.preprocessing
    if measured is not None:  # back to the units that deployment will send
        name = next(iter(rows))
        rows[name] = rows[name] * torch.tensor(measured["scale"]).float() + torch.tensor(measured["mean"]).float()
    return rows


def _inputs(session: Session, count: int) -> dict[str, Tensor]:
    """Return real samples wherever the batches hold the model's inputs; else the user's example unchanged."""
    real, example = _real_inputs(session, count), _example(session)
    if example is None and real is None:
        raise ConfigurationError(
            "The model's inputs are no plain tensors, so they cannot be exported by example.",
            remedy="Return `example_input` (a tuple of tensors, batch first) from the task, or leave onnx out.",
            details=WITHOUT_ONNX,
        )
    if example is None or real is None:
        return real or example or {}
    ordered = [real.get(name) for name in example] if real.keys() & example.keys() else list(real.values())
    if len(ordered) != len(example) or not all(map(_alike, ordered, example.values())):
        return example
    return {name: value for name, value in zip(example, ordered, strict=True) if value is not None}


def _alike(real: Tensor | None, example: Any) -> bool:
    """Return whether both are batches of the same kind of sample."""
    if real is None or not isinstance(example, Tensor):
        return False
    return (real.dtype, real.shape[1:]) == (example.dtype, example.shape[1:])


def _example(session: Session) -> dict[str, Any] | None:
    """Return the user's `example_input` by name; None where there is none."""
    example = session.work.example_input
    if example is None or isinstance(example, Mapping):
        return None if example is None else dict(example)
    listed = [example] if isinstance(example, Tensor) else list(example)
    return {_name(n, len(listed)): value for n, value in enumerate(listed)}


def _real_inputs(session: Session, count: int) -> dict[str, Tensor] | None:
    """Return the inputs of one batch of samples by name; None where they are no plain tensors."""
    args, named, _ = split_batch(_first_batch(session, count))
    inputs = {**{_name(number, len(args)): value for number, value in enumerate(args)}, **named}
    if not inputs or not all(isinstance(value, Tensor) for value in inputs.values()):
        return None
    return {name: value[:count].cpu() for name, value in inputs.items()}


def _first_batch(session: Session, count: int) -> Any:
    """Return one batch of samples, at least `count` where batches can be joined."""
    from trainwright.trainer.assembly.loaders import make_loader

    split = "validation" if "validation" in session.work.splits.samples else "train"
    loader = make_loader(session.config, session.work, split)
    loader.shuffle, loader.num_workers = False, 0
    if loader.batch_size is not None:
        loader.batch_size = count
    return next(loader.batches(0))


def _name(number: int, count: int) -> str:
    return "input" if count == 1 else f"input_{number}"
