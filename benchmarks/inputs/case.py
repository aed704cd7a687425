"""One small input with its right understanding, which is written down before the product is asked."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

KEY = "size"
"""Column of whole numbers that all differ: it says which row of the file a row of the evidence is."""
ROWS = 120
READ, REFUSED, EITHER = "read", "refused", "either"


@dataclass(frozen=True)
class Column:
    """A column as it stands in the file, and what it means."""

    cells: Sequence[Any]
    meant: Sequence[Any]
    """A number, a category's name, true or false, (day, seconds or none) of a date; None: missing."""
    kinds: tuple[str, ...] = ("number",)
    """Kinds as which it is understood right; empty: its kind is not asked for."""


@dataclass
class Right:
    """The right understanding of an input."""

    may: str = READ
    """Whether it is to be read, to be refused, or either, as long as the refusal says why."""
    target: str | Sequence[str] | None = None
    """"number", or the classes' names in any order; None: not asked for."""
    rows: int | None = None
    """How many there are; None: not asked for."""
    words: tuple[str, ...] = ()
    """Expressions that a refusal holds, all of them."""
    may_encode: bool = False
    """Whether the refusal may propose an encoding."""
    named: tuple[str, ...] = ()
    """Expressions that the answers hold, all of them, where it is read."""
    columns: Mapping[str, Column] = field(default_factory=dict)
    """Columns of a table, the target's under its name."""
    holds: Callable[[Any], str] | None = None
    """Returns what is wrong with the evidence (`playing.Seen`), or nothing."""


@dataclass
class Case:
    """An input: what writes its files, the configuration, and what is right."""

    name: str
    source: str
    """The public report after which it was made, as owner/repository#number; or the kind."""
    write: Callable[[Path], object]
    config: dict[str, Any]
    goal: dict[str, Any]
    right: Right
    folder: str = "code"
    """Of the project's files; its name may be odd."""


def draws(name: str) -> random.Random:
    """Return a generator of numbers that are the same in every run."""
    return random.Random(name)


def signal(rows: int = ROWS) -> list[float]:
    """Return the numbers in [0, 1) that the target follows: there is something to be learned."""
    draw = draws("signal")
    return [round(draw.random(), 3) for _ in range(rows)]


def followed(rows: int = ROWS) -> list[float]:
    """Return noisy numbers in (0, 1) that follow the signal."""
    draw = draws("noise")
    return [min(max(value + draw.gauss(0, 0.08), 0.001), 0.999) for value in signal(rows)]


def numbers(
    spell: Callable[[float], Any] = str,
    *,
    low: float = 0,
    high: float = 100,
    decimals: int = 2,
    odd: Mapping[int, tuple[Any, Any]] | None = None,
    kinds: tuple[str, ...] = ("number",),
    rows: int = ROWS,
) -> Column:
    """Return a column of numbers in a spelling.

    Args:
        odd: cell and meaning of single rows.
    """
    meant: list[Any] = [round(low + (high - low) * value, decimals) for value in followed(rows)]
    if decimals == 0:
        meant = [int(value) for value in meant]
    cells = [spell(value) for value in meant]
    for row, (cell, meaning) in (odd or {}).items():
        cells[row], meant[row] = cell, meaning
    return Column(cells, meant, kinds)


def chosen(values: Sequence[Any], spell: Callable[[Any], Any] = str, *, rows: int = ROWS, **options: Any) -> Column:
    """Return a column of few values, the larger the signal the later in the list."""
    meant = [values[int(value * len(values))] for value in followed(rows)]
    return Column([spell(value) for value in meant], options.get("meant") or meant, options.get("kinds", ("category",)))
