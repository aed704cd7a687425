"""How a model is called and read: found once, on a real batch, before training. No guessing after that."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from typing import Any

from torch import Tensor, nn

from trainwright.trainer.errors import ConfigurationError
from trainwright.trainer.objectives.supervised import TARGET_KEYS, describe, plain_output, split_batch

TARGET_NAMES = frozenset({*TARGET_KEYS, "y_true", "y_target", "ground_truth"})


def find_returns(model: nn.Module, batch: Any) -> str:
    """Return the `returns` that fits what the model does with this batch.

    Tried in order: the model's own `compute_loss`; the inputs alone; the inputs together with the target, which goes to
    a parameter only by its name: as the key of a sample, or where the next parameter is called one of TARGET_NAMES.

    Raises:
        ConfigurationError: the model needs a parameter that the samples do not name, or no known way of reading its
            output fits; says what the model returned.
    """
    if callable(getattr(model, "compute_loss", None)):
        return "compute_loss"
    args, named, target = split_batch(batch)
    _require_known(model, args, named, target)
    whole: tuple[Any, ...] = args if target is None else (*args, target)
    with_target = ((), dict(batch)) if isinstance(batch, Mapping) else (whole, {})
    attempts = [(*with_target, False)] if target is None else [(args, named, True)]
    if target is not None and (isinstance(batch, Mapping) or target_parameter(model, len(args)) is not None):
        attempts.append((*with_target, False))
    seen: list[str] = []
    wrong_arguments: TypeError | None = None
    for positional, keywords, may_be_output in attempts:
        try:
            result = model(*positional, **keywords)
        except TypeError as error:  # the model wants other arguments; the next attempt gives them
            wrong_arguments = wrong_arguments or error
            continue
        found = _reading(result, may_be_output=may_be_output)
        if found is not None:
            return found
        seen.append(describe(result))
    if wrong_arguments is not None and not seen:
        raise wrong_arguments
    raise ConfigurationError(
        f"How to read the model's output could not be found; it returned {' and '.join(seen)}.",
        remedy="Set `returns` (output; 'logits,loss'; 'loss,logits'; .loss; loss; compute_loss), or use a task with "
        "`step`.",
    )


def target_parameter(model: nn.Module, inputs: int) -> str | None:
    """Return the parameter behind the positional inputs, where its name says that it takes the target."""
    names = [name for name, _ in _positional(model)]
    return names[inputs] if inputs < len(names) and names[inputs] in TARGET_NAMES else None


def input_parameters(model: nn.Module, inputs: int) -> list[str]:
    """Return the names of the parameters that positional inputs come to."""
    return [name for name, _ in _positional(model)][:inputs]


def _positional(model: nn.Module) -> list[tuple[str, bool]]:
    """Return the positional parameters of the model's forward, each with whether it is required."""
    try:
        given = inspect.signature(model.forward).parameters.values()
    except (TypeError, ValueError):  # a compiled or scripted one may tell nothing
        return []
    kinds = {inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD}
    return [(one.name, one.default is one.empty) for one in given if one.kind in kinds]


def _require_known(model: nn.Module, args: tuple[Any, ...], named: dict[str, Any], target: Any) -> None:
    """Refuse to fill a required parameter of which no name says what it takes."""
    behind = _positional(model)[len(args) :]
    missing = [name for name, required in behind if required and name not in named]
    if target is not None and missing and missing[0] in TARGET_NAMES:
        missing = missing[1:]
    if not missing:
        return
    name, forward = type(model).__name__, ", ".join(one for one, _ in _positional(model))
    keys = ", ".join(f'"{one}": ...' for one, _ in _positional(model))
    has = f"the keys {', '.join(named)}" if named else f"{len(args)} input{'s' if len(args) != 1 else ''}"
    raise ConfigurationError(
        f"{name}.forward({forward}) requires `{missing[0]}`, and a sample has {has}"
        f"{' and a target' if target is not None else ''}: what goes there is not guessed.",
        remedy=f'Hand over samples as dicts by parameter name, {{{keys}, "labels": ...}}; give `{missing[0]}` a '
        "default; set `returns` where the target comes behind the inputs; or use a task with `step`.",
        document="configs/your_code.md",
    )


def _reading(result: Any, *, may_be_output: bool) -> str | None:
    if isinstance(getattr(result, "loss", None), Tensor):
        return ".loss"
    if isinstance(result, tuple | list) and len(result) >= 2:
        first, second = (isinstance(item, Tensor) and item.numel() == 1 for item in result[:2])
        return {(False, True): "logits,loss", (True, False): "loss,logits"}.get((first, second))
    output = plain_output(result)
    if isinstance(output, Tensor):
        return "loss" if output.dim() == 0 else "output" if may_be_output else None
    return "loss" if isinstance(result, Mapping) and "loss" in result else None
