"""Random generators of the user's own, beside the global ones: found in objects, keyed to a sample, saved."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from trainwright.trainer.base import seeding
from trainwright.trainer.user_code.context import TASK_DATA_SEED

KINDS = (torch.Generator, np.random.Generator, np.random.RandomState, random.Random)
DEPTH, MAX_ITEMS = 5, 64
"""How far attributes are followed, and the longest list that is looked into."""
FOLLOWED = ("torch.utils.data", "torchvision.transforms")
"""Modules of libraries whose objects hold the user's; what belongs to other libraries is not looked into."""
LIBRARIES = frozenset({
    "accelerate", "builtins", "collections", "datasets", "functools", "lightning", "lightning_fabric", "logging",
    "numpy", "pandas", "peft", "pathlib", "pytorch_lightning", "tokenizers", "torch", "torchmetrics", "transformers",
    "trl", "types", "typing", "weakref",
})  # fmt: skip
"""Packages whose objects hold nothing of the user's, or which the library's trainer makes anew."""


def generators_in(*objects: Any) -> list[Any]:
    """Return the generators in attributes of objects, of what they wrap, and of what they close over."""
    found: dict[int, Any] = {}
    seen: set[int] = set()
    for each in objects:
        _look(each, DEPTH, found, seen)
    return list(found.values())


def is_generator(value: Any) -> bool:
    """Return whether a value is a generator that has a state: the system's own source has none."""
    return isinstance(value, KINDS) and not isinstance(value, random.SystemRandom)


def _look(value: Any, depth: int, found: dict[int, Any], seen: set[int]) -> None:
    if is_generator(value):
        found[id(value)] = value
    elif depth and id(value) not in seen:
        seen.add(id(value))
        for each in _inside(value):
            _look(each, depth - 1, found, seen)


def _inside(value: Any) -> Iterator[Any]:
    if isinstance(value, list | tuple | Mapping):
        if len(value) <= MAX_ITEMS:
            yield from value.values() if isinstance(value, Mapping) else value
        return
    module = str(type(value).__module__)
    function = getattr(value, "__func__", value)
    yield from (part for part in (getattr(value, "__self__", None), getattr(value, "func", None)) if part is not None)
    yield from (cell.cell_contents for cell in getattr(function, "__closure__", None) or () if _is_full(cell))
    is_known = module.partition(".")[0] in LIBRARIES and not module.startswith(FOLLOWED)
    if not (is_known or isinstance(value, Tensor | nn.Module | np.ndarray | type)):
        yield from getattr(value, "__dict__", {}).values()


def _is_full(cell: Any) -> bool:
    try:
        return cell.cell_contents is not None
    except ValueError:
        return False


def key(generators: list[Any], number: int) -> None:
    """Put generators into the state that belongs to a number, of 63 bits at most."""
    for each in generators:
        if isinstance(each, torch.Generator):
            each.manual_seed(number)
        elif isinstance(each, np.random.Generator):
            each.bit_generator.state = type(each.bit_generator)(number).state
        elif isinstance(each, np.random.RandomState):
            each.seed(number & 0xFFFF_FFFF)
        else:
            each.seed(number)


@contextmanager
def evaluating(*objects: Any) -> Iterator[None]:
    """Evaluate inside the context under the same draws each time, without a trace in the global generators.

    Args:
        objects: what is read, whose own generators are keyed too: data set and collator.
    """
    with seeding.preserved():
        seeding.seed_sample(TASK_DATA_SEED, 0)
        key(generators_in(*objects), TASK_DATA_SEED)
        yield


def state_of(generator: Any) -> Any:
    """Return a generator's state as a tensor or text."""
    if isinstance(generator, torch.Generator):
        return generator.get_state()
    if isinstance(generator, random.Random):
        return json.dumps(generator.getstate())
    state = (
        generator.bit_generator.state
        if isinstance(generator, np.random.Generator)
        else generator.get_state(legacy=False)
    )
    return json.dumps(state, default=lambda array: array.tolist())


def put_state(generator: Any, state: Any) -> None:
    """Put a generator into a state that `state_of` returned."""
    if isinstance(generator, torch.Generator):
        generator.set_state(state)
    elif isinstance(generator, random.Random):
        version, words, half = json.loads(state)
        generator.setstate((version, tuple(words), half))
    elif isinstance(generator, np.random.Generator):
        generator.bit_generator.state = json.loads(state)
    else:
        found = json.loads(state)
        found["state"]["key"] = np.array(found["state"]["key"], dtype=np.uint32)
        generator.set_state(found)


class OwnDraws:
    """A data set, or a collator, whose own generators are keyed from the global one before each reading.

    The global generators are keyed to the sample already, so the draws of the own ones are those of the sample too.
    """

    def __init__(self, inner: Any, generators: list[Any]) -> None:
        self.inner, self.generators = inner, generators

    def __getitem__(self, index: Any) -> Any:
        key(self.generators, random.getrandbits(63))
        return self.inner[index]

    def __len__(self) -> int:
        return len(self.inner)

    def __call__(self, items: Any) -> Any:
        """Collate."""
        key(self.generators, random.getrandbits(63))
        return self.inner(items)

    def set_epoch(self, epoch: int) -> None:
        """Announce the epoch to a data set that asks for it."""
        if callable(announce := getattr(self.inner, "set_epoch", None)):
            announce(epoch)
