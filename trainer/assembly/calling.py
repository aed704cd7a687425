"""How a model is called and read: found once, on a real batch, before training. No guessing after that."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from torch import Tensor, nn

from trainwright.trainer.errors import ConfigurationError
from trainwright.trainer.objectives.supervised import describe, plain_output, split_batch


def find_returns(model: nn.Module, batch: Any) -> str:
    """Return the `returns` that fits what the model does with this batch.

    Tried in order: the model's own `compute_loss`; the inputs alone; the inputs together with the target.

    Raises:
        ConfigurationError: no known way of reading its output fits; says what the model returned.
    """
    if callable(getattr(model, "compute_loss", None)):
        return "compute_loss"
    args, named, target = split_batch(batch)
    whole: tuple[Any, ...] = args if target is None else (*args, target)
    with_target = ((), dict(batch)) if isinstance(batch, Mapping) else (whole, {})
    attempts = [(*with_target, False)] if target is None else [(args, named, True), (*with_target, False)]
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
