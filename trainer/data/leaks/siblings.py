"""Columns that go with one that gives the target away: what was known too late seldom stands in one column alone.

They are looked at again whether the leak is an input still or was left out: what is alike in name, what is a date as it
is, and what rises and falls with it among rows of equal targets.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection

import numpy as np

from trainwright.trainer.base.arrays import Array
from trainwright.trainer.data.leaks import target as targets
from trainwright.trainer.data.leaks.duplicates import is_key
from trainwright.trainer.data.leaks.finding import Finding
from trainwright.trainer.data.leaks.power import inputs_of, power_of, predicted_alone
from trainwright.trainer.data.leaks.table import Column, LeakTable, Target

TOGETHER = 0.3
"""Correlation of the ranks of two columns, of both what the target explains taken off."""
MIN_POWER = 0.1
MAX_NAMED = 5
WORD = re.compile(r"[^\W\d_]{3,}")
CAMEL = re.compile(r"(?<=[a-z])(?=[A-Z])")
ANY = frozenset({"the", "number", "count", "total", "sum", "mean", "avg", "min", "max", "value", "code", "feature"})
"""Words of names that say nothing of when or where from."""
BINS = 10


def find(every: LeakTable, inputs: LeakTable, found: list[Finding]) -> list[Finding]:
    """Return what was found, the leaks among the inputs with their siblings; and a finding for each one left out.

    Args:
        every: the rows with the columns that somebody left out too.
        inputs: the same rows with what the model sees.
        found: in the inputs.
    """
    target, seen = inputs.target, {column.name: column for column in inputs.columns}
    if target is None or len(inputs.rows) < targets.MIN_ROWS:
        return found
    left = [column.name for column in every.columns if column.name not in seen]
    leaks = {one.column for one in found if one.kind == "target"}
    rest = [column for column in inputs.columns if column.name not in leaks and not is_key(column)]
    known: dict[str, list[tuple[Column, str]]] = {}
    named: set[str] = set()
    columns = {column.name: column for column in (*inputs.columns, *every.columns)}
    for one in (*targets.find(every, asked=left), *(one for one in found if one.kind == "target")):
        if (leak := columns.get(str(one.column))) is None:  # of a column that neither table holds: a distance of two
            continue
        likely = [each for each in _alike(leak, rest, target, every) if each[0].name not in named]
        known[leak.name] = likely[:MAX_NAMED]
        named |= {column.name for column, _ in known[leak.name]}
    told = [_with(one, known.get(str(one.column), [])) if one.kind == "target" else one for one in found]
    return told + [_left_out(name, likely) for name, likely in known.items() if name in left]


def _alike(leak: Column, rest: list[Column], target: Target, every: LeakTable) -> list[tuple[Column, str]]:
    """Return the columns that go with a leak and tell something of the target, the likeliest first, each with why."""
    found = []
    for column in rest:
        if column.distinct < 2 or column.kind == "text":
            continue
        together, shared = _together(leak, column, target), _shared(leak.name, column.name, every)
        why = [f"goes with it among equal targets, {together:.2f}"] * (together >= TOGETHER)
        why += [f"named like it ({', '.join(sorted(shared))})"] * bool(shared)
        why += ["a date as it is"] * (leak.kind == column.kind == "date")
        if why and (power := power_of(predicted_alone(column, target), target)) >= MIN_POWER:
            found.append((together + power, column, f"{', '.join(why)}; power {power:.2f}"))
    return [(column, why) for _, column, why in sorted(found, key=lambda one: -one[0])]


def _together(one: Column, other: Column, target: Target) -> float:
    """Return how closely two columns, or what is missing in them, rise and fall together at equal targets, 0 to 1."""
    if not (one.is_numeric and other.is_numeric):
        return 0.0
    pairs = [(inputs_of([one])[:, 0], inputs_of([other])[:, 0])]
    if all(targets.MISSING_SHARE <= column.missing.mean() <= 1 - targets.MISSING_SHARE for column in (one, other)):
        pairs.append((one.missing.astype(float), other.missing.astype(float)))
    return max(abs(_correlation(_rest(first, target), _rest(second, target))) for first, second in pairs)


def _rest(values: Array, target: Target) -> Array:
    """Return the ranks of values, (rows,), less their mean among rows of an equal or a near target."""
    from scipy import stats

    ranks = stats.rankdata(values)
    level = target.values
    if target.classes is None:
        level = np.searchsorted(np.quantile(level, np.linspace(0, 1, BINS + 1)[1:-1]), level)
    sums, counts = np.bincount(level.astype(int), ranks), np.bincount(level.astype(int))
    found: Array = ranks - (sums / np.maximum(counts, 1))[level.astype(int)]
    return found


def _correlation(first: Array, second: Array) -> float:
    scale = float(np.sqrt((first**2).sum() * (second**2).sum()))
    return float((first * second).sum()) / scale if scale > 1e-6 * len(first) else 0.0


def _shared(one: str, other: str, every: LeakTable) -> set[str]:
    """Return the words that two names share and few other columns have."""
    counts = Counter(word for column in every.columns for word in _words(column.name))
    most = max(3, len(every.columns) // 3)
    return {word for word in _words(one) & _words(other) if counts[word] <= most}


def _words(name: str) -> set[str]:
    return {word.lower() for word in WORD.findall(CAMEL.sub("_", name))} - ANY


def _with(one: Finding, likely: Collection[tuple[Column, str]]) -> Finding:
    told = "; ".join(f"{column.name!r} ({why})" for column, why in likely)
    return one.model_copy(update={"message": f"{one.message} Look again at {told}."}) if told else one


def _left_out(name: str, likely: list[tuple[Column, str]]) -> Finding:
    changes = {f"data.args.columns.{column.name}": "ignore" for column, _ in likely}
    told = "; ".join(f"{column.name!r} ({why})" for column, why in likely)
    still = f"what goes with it is an input still: {told}" if told else "no input goes with it"
    ask = f"Ask by when each of them is known; what is not where the model is used is ignored: changes {changes}."
    return Finding(
        kind="sibling",
        column=name,
        severity="warning" if told else "info",
        message=f"{name!r} gives the target away and is left out; {still}.",
        measured=len(likely),
        bound=0,
        remedy=ask if told else "Nothing is to be done.",
        changes=changes,
    )
