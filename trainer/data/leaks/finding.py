"""Leak found in data: its kind, the column and rows, how sure it is, and the change that removes it. Light."""

from __future__ import annotations

import re
from typing import Any, Literal

from pydantic import Field

from trainwright.trainer.base.records import Closed

MAX_ROWS_NAMED = 20
NAMED = re.compile(
    r"(^|_|\b)(id|ids|uid|uuid|key|patient|subject|user|customer|client|account|person|session|device|group|household|"
    r"speaker|author|store|machine|sensor|site|family|donor|participant|case)(_|\b|$|id|no|nr|number)|"
    r"(^|_|\b)(pid|mrn|animal|subj|pat)(id|no|nr|number)?(_|\b|$)",  # no path, pattern or patent
    re.IGNORECASE,
)
"""A column that is named as an id."""

Severity = Literal["error", "warning", "info"]


class Finding(Closed):
    """One leak."""

    kind: str
    """duplicate, near_duplicate, group, clumps, time, target, sibling, pair, preprocessing, interpolated, name,
    row_order or token."""
    column: str | None = None
    beside: str | None = None
    """A second column that the leak needs."""
    severity: Severity
    message: str
    """What was found, with its figures."""
    measured: float
    bound: float
    rows: list[int] = Field(default_factory=list)
    """Places of offending rows, from 0, at most 20."""
    pairs: list[tuple[int, int]] = Field(default_factory=list)
    """Places of the first offending rows, each with that of a train row that is like it."""
    count: int = 0
    remedy: str
    changes: dict[str, Any] = Field(default_factory=dict)
    """Change of the configuration that removes the leak, by dotted key; empty: the file has to be changed."""

    @property
    def id(self) -> str:
        """Name of the finding: its kind, and its column where there is one."""
        return self.kind if self.column is None else f"{self.kind}:{self.column}"


def removed_by_split(
    kind: Literal["group", "time"], column: str, message: str, remedy: str,
    *, power: float, by_chance: float, least: float, rows: list[int], count: int,
) -> Finding:  # fmt: skip
    """Return a leak that the rows beside a held-out one tell its target, which a split of this kind removes.

    Args:
        power: of those rows, and `by_chance` what shuffled ones have; `least` that counts.
        rows: offending ones, from 0; `count` of them in all.
    """
    changes = {"data.split.by": kind, f"data.split.{kind}": column}
    return Finding(
        kind=kind,
        column=column,
        severity="warning",
        message=f"{message} (power {power:.2f} of 1; {by_chance:.2f} by chance).",
        measured=round(power, 6),
        bound=round(max(by_chance, least), 6),
        rows=rows,
        count=count,
        remedy=f"{remedy}: changes {changes}.",
        changes=changes,
    )


# Chance: whether as many pairs of equal rows in two splits are no more than dealing rows out at random parts.


def probability(alike: int, near: int, first: int, second: int) -> float:
    """Return how probable it is that chance parts as many pairs of almost equal samples, or more.

    Args:
        alike: inputs of the first split with an almost equal one in the second.
        near: inputs of the first split with another one of the same split near them, two to a pair.
        first, second: inputs of the splits.
    """
    from scipy import stats

    if not alike:
        return 1.0
    parted = 2 * second / (first + 2 * second)  # of the pairs that the first split has a part in
    return float(stats.binom.sf(alike - 1, alike + near // 2, parted))


def is_beyond_chance(alike: int, near: int, first: int, second: int, *, once_in: float, most: float) -> bool:
    """Return whether chance does not explain so many pairs, which are counted as in `probability`.

    Args:
        once_in: an event that chance produces less than once in so many times is not explained by it.
        most: times the share of near samples within the first split up to which a share is no surprise: splits by time,
            group or class are not dealt out by chance.
    """
    return alike * first > most * near * second and probability(alike, near, first, second) * once_in < 1
