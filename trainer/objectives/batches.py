"""Reaching into a batch and into a model, without assuming more than is needed."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from typing import Any

from torch import Tensor, nn

from trainwright.trainer.base.near import near_matches
from trainwright.trainer.errors import ConfigurationError
from trainwright.trainer.objectives.supervised import describe, split_batch


def input_of(batch: Any, key: str | None) -> Tensor:
    """Return the batch's one floating-point input, or the one named `key`.

    Raises:
        ConfigurationError: there is none, or there are several and no key says which.
    """
    found = _inputs(batch)
    if key is not None:
        found = {name: value for name, value in found.items() if name == key}
    floating = {name: value for name, value in found.items() if value.is_floating_point()}
    if len(floating) == 1:
        return next(iter(floating.values()))
    if not floating:
        raise ConfigurationError(
            f"The objective changes an input of floating point, and the batch has none"
            f"{f' under the key {key!r}' if key else ''}: it is {describe(batch)}.",
            remedy="Give the inputs as floats; token numbers and the like cannot be changed by small amounts.",
        )
    raise ConfigurationError(
        f"The batch has several inputs of floating point: {', '.join(floating)}.",
        remedy="Hand over mappings and set objective.input to the key of the one that is meant.",
    )


def with_input(batch: Any, old: Tensor, new: Tensor) -> Any:
    """Return the batch with one of its tensors replaced."""
    if batch is old:
        return new
    if isinstance(batch, Mapping):
        return {name: new if value is old else value for name, value in batch.items()}
    items = [new if value is old else value for value in batch]
    return type(batch)(*items) if hasattr(batch, "_fields") else type(batch)(items)


def _inputs(batch: Any) -> dict[str, Tensor]:
    args, named, _ = split_batch(batch)
    numbered = {str(number): value for number, value in enumerate(args)}
    return {name: value for name, value in {**numbered, **named}.items() if isinstance(value, Tensor)}


@contextmanager
def evaluation_mode(model: nn.Module) -> Iterator[None]:
    """Hold dropout and batch statistics still inside, and give each module its own mode back after it."""
    training = [module for module in model.modules() if module.training]
    model.eval()
    try:
        yield
    finally:
        for module in training:
            module.training = True


@contextmanager
def captured(model: nn.Module, names: Sequence[str]) -> Iterator[dict[str, Tensor]]:
    """Yield a dictionary that fills with the outputs of the named modules as the model is called."""
    found: dict[str, Tensor] = {}

    def keeper(name: str) -> Any:
        def keep(module: nn.Module, inputs: Any, output: Any) -> None:  # noqa: ARG001 - the hook's form
            found[name] = output[0] if isinstance(output, tuple | list) else output

        return keep

    with ExitStack() as hooks:
        for name in names:
            hooks.callback(model.get_submodule(name).register_forward_hook(keeper(name)).remove)
        yield found


def require_module(model: nn.Module, name: str, key: str) -> None:
    """Raise ConfigurationError, with near names, unless the model has a module of that name."""
    known = [known for known, _ in model.named_modules() if known]
    if name not in known:
        raise ConfigurationError(
            f"`{key}` = {name!r}: the model has no module of that name.{near_matches(name, known)}",
            remedy=f"It has: {', '.join(known[:16])}{' ...' if len(known) > 16 else ''}.",
        )
