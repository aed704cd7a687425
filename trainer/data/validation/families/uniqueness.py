"""Uniqueness: values and rows that occur once; columns that say the same as another, nothing, or where a row stands."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import replace
from functools import partial
from itertools import combinations
from typing import Any

import polars as pl

from trainwright.trainer.data.validation.check import (
    CONTENT,
    MAX_IN_A_SET,
    Check,
    Context,
    Family,
    Finding,
    repeated,
    row_hash,
)
from trainwright.trainer.data.validation.families.leaks import inputs_of, without_columns
from trainwright.trainer.data.validation.natural import are_natural
from trainwright.trainer.data.validation.report import NotChecked, Severity, Verdict
from trainwright.trainer.data.validation.values import expected, numbers, severity_of

# Uniqueness: columns whose values occur once, alone or together, and rows that equal an earlier one.

ALLOWED = 0.01
"""Share of rows that may equal an earlier one before it is worth a warning."""


class Uniqueness(Family):
    """Values and rows that occur once."""

    name = "uniqueness"

    def planned(self, context: Context) -> Iterable[Check]:
        """Yield the checks of columns, of columns together, and of whole rows."""
        for column, one in expected(context).items():
            if one.unique:
                yield _alone(context, column, one.severity)
        for columns in context.expectations.rows.unique_together:
            if set(columns) <= context.kinds.keys():
                yield _together(context, "+".join(columns), columns, "error", 0.0)
        if hashable(context) and not _implied(context):
            yield _together(context, None, hashable(context), _severity(context), _allowed(context))

    def left_out(self, context: Context) -> Iterable[NotChecked]:
        """Yield repeated rows, where they would repeat a value of a column that is checked anyway."""
        if implied := _implied(context):
            yield NotChecked(what="duplicates", why=f"{implied}.unique covers it: equal rows repeat it")


def _implied(context: Context) -> str | None:
    """Return a column whose values have to differ, and with them the rows."""
    return next((name for name, one in expected(context).items() if one.unique and one.severity == "error"), None)


def hashable(context: Context) -> list[str]:
    """Return the columns whose values can be compared, of wide samples their whole content."""
    content = [CONTENT] if context.summaries else []
    return content + [column for column, kind in context.kinds.items() if kind not in {"other", "embedding"}]


def _severity(context: Context) -> Severity:
    given = context.expectations.rows.duplicates_at_most is not None
    return severity_of(context, "duplicates", "error" if given else "warning")


def _allowed(context: Context) -> float:
    given = context.expectations.rows.duplicates_at_most
    return ALLOWED if given is None else given


def _is_large(context: Context) -> bool:
    return sum(map(len, context.splits.values())) > MAX_IN_A_SET


def _alone(context: Context, column: str, severity: Severity) -> Check:
    asks, reads = {"filled": pl.col(column).count()}, None
    if _is_large(context):
        reads = partial(_repeats, context, [column], filled=True)
    else:
        asks["different"] = pl.col(column).drop_nulls().n_unique()
    return Check("unique", column, severity, asks, partial(_unique, column), reads=reads)


def _together(context: Context, name: str | None, columns: list[str], severity: Severity, allowed: float) -> Check:
    asks, reads = {"rows": pl.len()}, None
    if _is_large(context):
        reads = partial(_repeats, context, columns)
    else:
        asks[f"different {name or 'rows'}"] = row_hash(columns).n_unique()
    evaluate = partial(_copies, name or "rows", allowed)
    if name is None and context.expectations.rows.duplicates_at_most is None:
        evaluate = partial(_copies_or_natural, context, columns)
    check = "duplicates" if name is None else "unique_together"
    return Check(check, name, severity, asks, evaluate, reads=reads)


def _repeats(context: Context, columns: list[str], *, filled: bool = False) -> dict[str, int]:
    return {"repeats": len(repeated(context, columns, filled=filled))}


def _unique(column: str, asked: Mapping[str, Any]) -> Finding:
    count = asked["repeats"] if "repeats" in asked else int(asked["filled"]) - int(asked["different"])
    told = f"{count} of {asked['filled']} values of {column} repeat an earlier one"
    return Finding(count == 0, count, 0, count, told, f"Drop the rows that repeat a value of {column}.")


def _copies_or_natural(context: Context, columns: list[str], asked: Mapping[str, Any]) -> Finding:
    found = _copies("rows", ALLOWED, asked)
    if found.passed or not are_natural(context, columns):
        return found
    told = f"{found.text.partition(', at most')[0]}, as rows of few different values do"
    return replace(found, passed=True, text=told, remedy="")


def _copies(name: str, allowed: float, asked: Mapping[str, Any]) -> Finding:
    rows = int(asked["rows"])
    count = asked["repeats"] if "repeats" in asked else rows - int(asked[f"different {name}"])
    told = f"{count} of {rows} rows repeat an earlier one" + ("" if name == "rows" else f" in {name}")
    told += f" ({count / max(rows, 1):.2%}), at most {allowed:.2%} may"
    remedy = "Drop the copies, or give them a weight; equal rows always go to the same split."
    return Finding(count <= allowed * rows, count, allowed, count, told, remedy)


# Twins: two columns that say the same, each value of one beside one value of the other (class and pclass).

MIN_ROWS = 50
FIRST = 20_000
"""Rows that show first which columns may be twins."""
MAX_VALUES = 0.25
"""Share of the rows that may differ: columns whose every row differs go together by nature."""


class Twins(Family):
    """Pairs of inputs of which one is a renaming of the other."""

    name = "twins"

    def found(self, context: Context) -> Iterable[Verdict]:
        """Return a verdict for each pair."""
        names = [
            name for name in inputs_of(context) or () if context.kinds.get(name) not in {None, "other", "embedding"}
        ]
        if context.source == "images" or len(names) < 2:
            return
        first = context.frame.select(names).head(FIRST).collect(engine="streaming")
        if first.height < MIN_ROWS:
            return
        counts = {name: first[name].n_unique() for name in names}
        for one, other in combinations(names, 2):
            if counts[one] != counts[other] or not 2 <= counts[one] <= MAX_VALUES * first.height:
                continue
            if _same(first.lazy(), one, other) and _same(context.frame, one, other):
                yield Verdict(
                    family=self.name, name="twins", column=other, severity=severity_of(context, "twins", "info"),
                    passed=False, value=one, text=f"{one} and {other} say the same: each value of one goes with one of "
                    "the other.",
                    remedy=f"Leave one of them out (data.args.features, or columns: {{{other}: ignore}}), as soon as "
                    "importance is read from the inputs: it is divided among them.",
                )  # fmt: skip


def _same(frame: pl.LazyFrame, one: str, other: str) -> bool:
    """Return whether as many pairs as values of either occur in a lazy frame."""
    pair = pl.struct(one, other).n_unique()
    found = frame.select(pair=pair, one=pl.col(one).n_unique(), other=pl.col(other).n_unique())
    together, first, second = found.collect(engine="streaming").row(0)
    return bool(together == first == second)


# Constants: columns with one value only, which no model can learn from.


class Constants(Family):
    """Columns of one value."""

    name = "constants"

    def planned(self, context: Context) -> Iterable[Check]:
        """Yield a check of each column but the target: its least value is not its greatest."""
        if context.source == "images":  # sizes and channels may well be the same
            return
        severity = severity_of(context, "constant", "info" if _are_codes(context) else "warning")
        for column, kind in context.kinds.items():
            if kind in {"other", "embedding"} or column in context.targets or column in context.summaries:
                continue
            found = pl.col(column).fill_nan(None) if kind == "number" else pl.col(column)
            asks = {"min": found.min(), "max": found.max()}
            yield Check(
                "constant", column, severity, asks, partial(_judge_constant, column, is_own=":" in context.source)
            )


def _are_codes(context: Context) -> bool:
    """Whether samples of the user's own are vectors of whole numbers, such as words: a place may well never vary."""
    inputs = [kind for name, kind in context.kinds.items() if name not in context.targets]
    return ":" in context.source and len(inputs) > 1 and set(inputs) == {"integer"}


def _judge_constant(column: str, asked: Mapping[str, Any], *, is_own: bool) -> Finding:
    least, most = asked["min"], asked["max"]
    shown = str(least)[:40]
    told = f"{column} is always {shown!r}" if least is not None else f"{column} has no value"
    how = "of the samples" if is_own else "with data.args.features"
    remedy = f"Leave {column} out {how}: nothing can be learned from it."
    is_constant = least is None or least == most
    return Finding(not is_constant, shown if is_constant else None, None, 0, told if is_constant else "", remedy)


# Running numbers: inputs that count the rows, from which a model learns their order and nothing of new rows.

MIN_COUNTED = 50
BY_ONE = 0.9
"""Share of the rows that are one above the row before; rows that were dropped leave holes."""


class RunningNumbers(Family):
    """Inputs that rise by one from row to row, all the way: a count within each group begins again."""

    name = "running_numbers"

    def planned(self, context: Context) -> Iterable[Check]:
        """Yield a check of each input of whole numbers; none of windows over time, or of rows drawn from them."""
        if context.source == "images" or context.options.get("series") or context.is_sample:
            return
        severity = severity_of(context, "running_number", "warning")
        for column in inputs_of(context) or []:
            if context.kinds.get(column) == "integer":
                found = numbers(context, column)
                asks = {
                    "least": found.min(),
                    "most": found.max(),
                    "by_one": (found.diff() == 1).sum(),
                    "rows": pl.len(),
                }
                judge = partial(_judge_count, column, without_columns(context, [column]))
                yield Check("running_number", column, severity, asks, judge)


def _judge_count(column: str, changes: dict[str, Any], asked: Mapping[str, Any]) -> Finding:
    rows, by_one = int(asked["rows"]), int(asked["by_one"] or 0)
    if rows < MIN_COUNTED or by_one < BY_ONE * (rows - 1) or asked["most"] - asked["least"] < rows - 1:
        return Finding(passed=True)
    told = f"{column} counts the rows: {by_one} of {rows} are one above the row before, from {asked['least']} on"
    how = f"changes {json.dumps(changes)}" if changes else "it is no input of the samples then"
    remedy = f"Leave it out: {how}. Where it is a time, data.split.by time says so."
    return Finding(False, by_one, None, 0, told, remedy, {"changes": changes} if changes else {})
