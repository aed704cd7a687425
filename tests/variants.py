"""Variants of a test: the most telling ones run always, the others among the long tests."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from tests.releases import needs

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from trainwright.trainer.base.releases import Newer


def variants(names: Iterable[str], *, quick: Iterable[str], newer: Mapping[str, Newer] | None = None) -> list[object]:
    """Return the names as parameters of a test; all but the quick ones are marked `long`.

    Args:
        names: of the variants.
        quick: those that run always.
        newer: what some of them need of a library; where it is older they are skipped.

    Raises:
        ValueError: a quick one is not among the names.
    """
    listed, always = list(names), set(quick)
    if not always or not always <= set(listed):
        raise ValueError(f"the quick variants {sorted(always)} must be some of {listed}")
    marks = {name: [needs(each)] for name, each in (newer or {}).items()}
    return [
        pytest.param(name, id=name, marks=[*marks.get(name, []), *([] if name in always else [pytest.mark.long])])
        for name in listed
    ]
