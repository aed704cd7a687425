"""Room for what is built before the first step: a shortage there has nothing to do with the batch."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import nn

from trainwright.trainer.acceleration.shortage import free_bytes
from trainwright.trainer.errors import OutOfMemoryError
from trainwright.trainer.failures import known_failure
from trainwright.trainer.reproducibility import seeding

DOCUMENT = "diagnostics/model_too_large.md"
SIZES = ("hidden", "channels", "width")
"""Arguments of built-in models whose halves make smaller models."""
KEPT_IN_TRAINING = 4
"""Times its weights that a model takes: the weights, their gradients, and two moments of Adam and its kin."""
SHARE = 0.3
"""Of the free memory that this may take in a suggestion; batches, copies and the update's own room need the rest."""
SMALLER = (
    "Take a smaller model (model.args). Precision and batch change nothing here: weights are kept in fp32, and every "
    "process of a group builds the whole model before distributed.strategy fsdp2 divides it."
)
REMEDIES = {
    "model": SMALLER,
    "data": "Read less into memory: leave columns or samples out, make images smaller (data.args.size), or hand over a "
    "Dataset of your own that reads each sample when it is asked for.",
    "task": "Make what `build` returns smaller: a smaller model, or a Dataset that reads each sample when it is asked "
    "for instead of holding all of them.",
}


@contextmanager
def explained_build(part: str) -> Iterator[None]:
    """Say of a memory failure inside that it came while `part` (model, data, task) was built, and what would help.

    Raises:
        OutOfMemoryError: memory ran out.
    """
    try:
        yield
    except Exception as error:
        known = known_failure(error)
        if not isinstance(known, OutOfMemoryError) or "building" in known.details:
            raise
        raise OutOfMemoryError(
            f"{known.message.removesuffix('.')}, while the {part} was built, before any step.",
            remedy=REMEDIES[part],
            document=DOCUMENT,
            details={"building": part},
        ) from error


def require_room(name: str, args: dict[str, Any], make: Callable[..., nn.Module]) -> None:
    """Refuse a model whose weights alone are more than the free memory; it is measured without building it.

    Args:
        make: builds the model from `args`.

    Raises:
        OutOfMemoryError: `details.changes` make it a model that can be trained here, where smaller arguments do.
    """
    with seeding.preserved():
        weights, free = _bytes_of(make, args), free_bytes(torch.device("cpu"))
        if weights <= free:
            return
        changes = {f"model.args.{key}": value for key, value in _smaller(make, args, free).items()}
    call = f"For example configure(project, changes={changes}, reason='out of memory'). " if changes else ""
    raise OutOfMemoryError(
        f"The weights of this {name} take {weights / 2**20:,.0f} MiB, and {free / 2**20:,.0f} MiB are free: memory "
        "would run out while it is built.",
        remedy=call + SMALLER,
        document=DOCUMENT,
        details={"building": "model", "changes": changes, "memory": {"free_bytes": free, "weights_bytes": weights}},
    )


def _bytes_of(make: Callable[..., nn.Module], args: dict[str, Any]) -> int:
    with torch.device("meta"):  # shapes without memory
        return sum(parameter.numel() * parameter.element_size() for parameter in make(**args).parameters())


def _smaller(make: Callable[..., nn.Module], args: dict[str, Any], free: int) -> dict[str, Any]:
    """Return the sizes halved until training fits; empty where that is not reached."""
    sizes = {key: value for key, value in args.items() if key in SIZES}
    while sizes and KEPT_IN_TRAINING * _bytes_of(make, {**args, **sizes}) > SHARE * free:
        halves = {key: _half(value, args.get("heads", 1)) for key, value in sizes.items()}
        if halves == sizes:
            return {}
        sizes = halves
    return sizes


def _half(size: Any, multiple: int) -> Any:
    if isinstance(size, list):
        return [_half(one, multiple) for one in size]
    return max(size // 2 // multiple, 1) * multiple
