"""Target leaks: a column that gives the answer away, by its values, by what is missing in it, or by a date's distance.

A column is suspected where it alone says nearly everything of rows that were not fitted on, or far more than all other
columns together. A column that holds earlier rows' targets (a lag) is known in time and no leak; one that holds later
rows' is.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from itertools import combinations

import numpy as np

from trainwright.trainer.base.arrays import Array
from trainwright.trainer.data.leaks.duplicates import is_key
from trainwright.trainer.data.leaks.finding import Finding
from trainwright.trainer.data.leaks.power import inputs_of, out_of_fold, power_of, predicted_alone
from trainwright.trainer.data.leaks.table import Column, LeakTable, Target
from trainwright.trainer.data.leaks.time import times

PERFECT = 0.985
"""Power of one column that no honest measurement has."""
SUSPECT = 0.85
MIN_ROWS = 40
LESS_WRONG = 0.5
"""Times the error of all other columns together, at most."""
ONCE_IN = 1000.0
MISSING_SHARE = 0.02
MISSING_PHI = 0.75
"""Correlation of what is missing with a class."""
LAGS = 12
EQUAL_SHARE = 0.9
MAX_DATES = 6
MAX_CLASSES = 10
MIN_OF_CLASS = 8


def find(table: LeakTable, asked: Collection[str] | None = None) -> list[Finding]:
    """Return a finding for each column that gives the target away; of those asked for alone, beside all others."""
    target = table.target
    if target is None or len(table.rows) < MIN_ROWS:
        return []
    if asked is not None and not asked:
        return []
    found: dict[str, Finding] = {}
    for one in [
        *_missing(table, target),
        *_shifted(table, target),
        *_values(table, target, asked),
        *_distances(table, target),
    ]:
        found.setdefault(one.column or "", one)
    return [one for one in found.values() if asked is None or one.column in asked]


def _values(table: LeakTable, target: Target, asked: Collection[str] | None = None) -> Iterator[Finding]:
    usable = [column for column in table.columns if not is_key(column) and column.kind != "text"]
    lags = {column.name for column in usable if _shift(table, target, column) < 0}
    alone = {column.name: predicted_alone(column, target) for column in usable if column.distinct > 1}
    powers = {name: power_of(predicted, target) for name, predicted in alone.items()}
    for column in usable:
        power = powers.get(column.name, 0.0)
        if power < SUSPECT or column.name in lags or (asked is not None and column.name not in asked):
            continue
        # another column that says nearly everything leaks the same, and is no rival
        rest = [other for other in usable if other is not column and powers.get(other.name, 0.0) < PERFECT]
        rest = rest if asked is None else [other for other in rest if other.name not in asked]
        beaten = _beats(alone[column.name], rest, target)
        if power >= PERFECT or beaten:
            yield _finding(column.name, power, "" if not beaten else ", far more than all other columns do")


def _beats(predicted: Array, rest: list[Column], target: Target) -> bool:
    """Return whether predictions by one column are clearly better than those by all others together."""
    if not rest:
        return False
    others = out_of_fold(inputs_of(rest), target)
    if target.classes is None:
        alone = float(((target.values - predicted) ** 2).mean())
        return power_of(predicted, target) >= 0.95 and alone <= 0.25 * float(((target.values - others) ** 2).mean())
    from scipy import stats

    right, theirs = predicted == target.values, others == target.values
    gained, lost = int((right & ~theirs).sum()), int((~right & theirs).sum())
    if (~right).sum() > LESS_WRONG * (~theirs).sum():
        return False
    return float(stats.binom.sf(gained - 1, gained + lost, 0.5)) * ONCE_IN < 1


def _missing(table: LeakTable, target: Target) -> Iterator[Finding]:
    if not target.is_classes:
        return
    for column in table.columns:
        missing = column.missing
        if not MISSING_SHARE <= missing.mean() <= 1 - MISSING_SHARE:
            continue
        phis = [abs(float(np.corrcoef(missing, one)[0, 1])) for one in target.indicators.T if 0 < one.mean() < 1]
        if phis and max(phis) >= MISSING_PHI:
            yield _finding(column.name, max(phis), ", by what is missing in it", MISSING_PHI)


def _distances(table: LeakTable, target: Target) -> Iterator[Finding]:
    """Yield columns of dates whose distance to another date gives the target away: dates after the fact."""
    for first, second in combinations(table.of_kind("date")[:MAX_DATES], 2):
        apart = Column(f"{second.name} - {first.name}", "number", second.values - first.values, np.array([]))
        if apart.distinct < 2:
            continue
        power, best = max((_gained(apart, (first, second), one) for one in _each_class(target)), default=(0.0, 0.0))
        if power >= SUSPECT and best > 0.1:
            later = second if np.nanmean(apart.values) > 0 else first
            other = first if later is second else second
            found = _finding(later.name, power, f", by its distance to {other.name!r}", SUSPECT)
            yield found.model_copy(update={"beside": other.name})


def _each_class(target: Target) -> list[Target]:
    """Return each class against the others, or the numbers."""
    if target.classes is None or len(target.classes) == 2:
        return [target]
    return [
        Target(target.name, (target.values == one).astype(np.int64), ["other", name])
        for one, name in enumerate(target.classes[:MAX_CLASSES])
        if (target.values == one).sum() >= MIN_OF_CLASS
    ]


def _gained(apart: Column, dates: tuple[Column, ...], target: Target) -> tuple[float, float]:
    """Return the power of a distance, and how much that is more than what either date has."""
    power = power_of(predicted_alone(apart, target), target)
    if power < SUSPECT:
        return power, 0.0
    return power, power - max(power_of(predicted_alone(column, target), target) for column in dates)


def _shifted(table: LeakTable, target: Target) -> Iterator[Finding]:
    for column in table.numeric():
        if _shift(table, target, column) > 0:
            yield _finding(column.name, 1.0, ": it holds the targets of later rows", EQUAL_SHARE, certain=True)


def _shift(table: LeakTable, target: Target, column: Column) -> int:
    """Return by how many rows in time a column is the target shifted: above 0 of later rows, 0: it is not."""
    if column.kind != "number" or target.is_classes:
        return 0
    for time in times(table):
        order = np.argsort(time.values, kind="stable")
        values, wanted = column.values[order], target.values[order]
        for away in range(1, min(LAGS, len(order) - 1) + 1):
            if np.isclose(values[away:], wanted[:-away], rtol=1e-5, atol=1e-8).mean() >= EQUAL_SHARE:
                return -away
            if np.isclose(values[:-away], wanted[away:], rtol=1e-5, atol=1e-8).mean() >= EQUAL_SHARE:
                return away
    return 0


def _finding(name: str, power: float, how: str, bound: float = PERFECT, *, certain: bool = False) -> Finding:
    changes = {f"data.args.columns.{name}": "ignore"}
    return Finding(
        kind="target",
        column=name,
        severity="error" if certain else "warning",
        message=f"Column {name!r} alone tells the target{how} (power {power:.3f} of 1 on rows it was not fitted on).",
        measured=round(power, 6),
        bound=bound,
        remedy=f"If it is not known when the model is used, ignore it: changes {changes}.",
        changes=changes,
    )
