"""Variants of a test: the most telling ones run always, the others among the long tests."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Iterable


def variants(names: Iterable[str], *, quick: Iterable[str]) -> list[object]:
    """Return the names as parameters of a test; all but the quick ones are marked `long`.

    Raises:
        ValueError: a quick one is not among the names.
    """
    listed, always = list(names), set(quick)
    if not always or not always <= set(listed):
        raise ValueError(f"the quick variants {sorted(always)} must be some of {listed}")
    return [pytest.param(name, id=name, marks=() if name in always else pytest.mark.long) for name in listed]
