"""A sample's digest follows from its content alone, whatever holds it: not from addresses, not from shortened text."""

from __future__ import annotations

import io
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image

from trainwright.trainer.base.errors import DataError
from trainwright.trainer.data.fingerprint import sample_digest


@dataclass
class Scan:
    """A sample of the user's own."""

    voxels: torch.Tensor
    label: int


class Plain:
    """One without a __repr__ of its own."""

    def __init__(self, values: torch.Tensor) -> None:
        self.values = values


class Slotted:
    """One without a __dict__."""

    __slots__ = ("values",)

    def __init__(self, values: torch.Tensor) -> None:
        self.values = values


def picture(values: torch.Tensor) -> Image.Image:
    """An image as it is read from a file."""
    file = io.BytesIO()
    Image.fromarray(values.reshape(50, 100).to(torch.uint8).numpy()).save(file, "png")
    return Image.open(file)


def scan(values: torch.Tensor) -> Scan:
    return Scan(values, 1)


def ragged(values: torch.Tensor) -> Any:
    held = np.empty(2, dtype=object)
    held[:] = [values.numpy(), "two"]
    return held


@pytest.mark.requirement("REPRO-4")
@pytest.mark.parametrize("hold", [picture, scan, Plain, Slotted, ragged], ids=lambda hold: hold.__name__)
def test_it_is_the_same_for_equal_content_and_another_for_one_changed_value(hold: Callable[..., Any]) -> None:
    values = torch.arange(5000) % 200
    changed = values.clone()
    changed[2500] += 1  # in the middle, where a repr leaves values out
    kept = (hold(values), 3)  # both live at once: no address is used twice
    again, other = (hold(values.clone()), 3), (hold(changed), 3)
    assert sample_digest(kept) == sample_digest(again)
    assert sample_digest(kept) != sample_digest(other)


@pytest.mark.requirement("REPRO-4")
def test_an_object_that_says_nothing_or_never_ends_is_refused_with_a_remedy() -> None:
    with pytest.raises(DataError, match="object of type object, of which nothing can be read") as met:
        sample_digest((object(), 1))
    assert "dataclasses" in met.value.remedy
    endless = Plain(torch.zeros(1))
    endless.values = endless  # type: ignore[assignment]
    with pytest.raises(DataError, match="refers to itself"):
        sample_digest(endless)
