"""Validation of a frame: the aggregates of all checks in one pass over the rows, then what is not passed in detail."""

from __future__ import annotations

import sys
import time
import traceback
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

from trainwright.trainer.base.errors import DataError, TrainwrightError
from trainwright.trainer.data.validation import CHECKS
from trainwright.trainer.data.validation.check import Check, Context, Finding
from trainwright.trainer.data.validation.expectations import DOCUMENT
from trainwright.trainer.data.validation.families.classes import rows_of
from trainwright.trainer.data.validation.families.uniqueness import hashable
from trainwright.trainer.data.validation.repeats import repeated_rows
from trainwright.trainer.data.validation.report import MOST_ROWS, NotChecked, Report, Verdict

if TYPE_CHECKING:
    import polars as pl

Each = TypeVar("Each")
JOINT = "\x1f"
"""Between a column and an aggregate's name."""


def validate(context: Context) -> Report:
    """Return the verdicts of all families on the rows."""
    began = time.monotonic()
    out = {name for name in context.expectations.without if name in CHECKS}
    families = {name: family for name, family in CHECKS.items() if name not in out}
    planned = {name: _made(name, partial(family.planned, context)) for name, family in families.items()}
    values = _values(context, planned)
    verdicts = [one for name, checks in planned.items() for one in _verdicts(context, name, checks, values)]
    not_checked = [NotChecked(what=name, why="the expectations leave it out (without)") for name in sorted(out)]
    taken = context.expectations.not_taken_over
    not_checked += [NotChecked(what=what, why="it has no counterpart here") for what in taken]
    for name, family in families.items():
        verdicts += _made(name, partial(family.found, context))
        not_checked += _made(name, partial(family.left_out, context))
    not_checked += [
        NotChecked(what=f"column {name}", why="its name stands for others: rename it") for name in context.unnamed
    ]
    rows = int(values.get(f"{JOINT}rows", 0))
    return Report(
        checks=verdicts,
        not_checked=not_checked,
        rows=rows,
        rows_read=rows,
        columns=dict(context.kinds),
        target=", ".join(context.targets) or None,
        expectations=context.expectations.values(),
        expectations_digest=context.expectations.digest(),
        seconds=round(time.monotonic() - began, 3),
    )


def _made(name: str, make: Callable[[], Iterable[Each]]) -> list[Each]:
    """Return what a family yields. Raises DataError, which names the family, where its checks cannot be made."""
    import polars as pl

    try:
        return list(make())
    except TrainwrightError:
        raise
    except (Exception, pl.exceptions.PanicException) as error:
        sys.stderr.write("validation: " + "".join(traceback.format_exception(error)))
        raise DataError(
            f"The checks of {name!r} cannot be made: {type(error).__name__}: {' '.join(str(error).split())[:200]}.",
            remedy="Correct the cells or the expectation that they read. If both are right, the fault is ours: "
            "report it with the traceback in worker.log.",
            document=DOCUMENT,
            details={"family": name},
        ) from error


def _values(context: Context, planned: Mapping[str, list[Check]]) -> dict[str, Any]:
    """Return the aggregates' values of all families' checks. Raises DataError, as `_made`."""
    import polars as pl

    try:
        return _one_pass(context, [check for checks in planned.values() for check in checks])
    except (Exception, pl.exceptions.PanicException):
        _require_readable(context)
        for name, checks in planned.items():  # of which family, a pass of each alone shows
            _made(name, partial(_one_pass, context, checks))
        raise


def _require_readable(context: Context) -> None:
    """Check that the rows can be read at all: then a fault is the reader's, and no check's. Raises DataError."""
    import polars as pl

    try:
        context.frame.select(pl.all().is_null().sum()).collect(engine="streaming")
    except (Exception, pl.exceptions.PanicException) as error:
        raise DataError(
            f"The rows cannot be read: {type(error).__name__}: {' '.join(str(error).split())[:300]}.",
            remedy="Correct the file that data.args.path names, or write it anew.",
            document=DOCUMENT,
        ) from error


def _verdicts(context: Context, family: str, checks: list[Check], values: Mapping[str, Any]) -> list[Verdict]:
    return _made(family, lambda: (_verdict(context, family, one, one.evaluate(_own(one, values))) for one in checks))


def _name(check: Check, asked: str) -> str:
    return f"{'' if asked == 'rows' else check.column or ''}{JOINT}{asked}"


def _one_pass(context: Context, checks: list[Check]) -> dict[str, Any]:
    """Return the aggregates' values by name, all computed while the rows are read once."""
    import polars as pl

    asked: dict[str, pl.Expr] = {f"{JOINT}rows": pl.len()}
    for check in checks:
        for name, expression in check.asks.items():
            asked.setdefault(_name(check, name), expression)
    found = context.frame.select(expression.alias(name) for name, expression in asked.items())
    return found.collect(engine="streaming").row(0, named=True)


def _own(check: Check, values: Mapping[str, Any]) -> dict[str, Any]:
    own = {name: values[_name(check, name)] for name in check.asks}
    return own if check.reads is None else {**own, **check.reads()}


def _verdict(context: Context, family: str, check: Check, found: Finding) -> Verdict:
    return Verdict(
        family=family,
        name=check.name,
        column=check.column,
        severity=check.severity,
        passed=found.passed,
        value=found.value,
        bound=found.bound,
        count=found.count,
        rows=[] if found.passed or not found.count else _rows(context, check),
        text=found.text,
        remedy="" if found.passed else found.remedy,
        details=found.details,
    )


def _rows(context: Context, check: Check) -> list[int]:
    """Return the numbers of the first offending rows."""
    if check.offending is not None:
        return rows_of(context, check.offending)
    if check.name == "duplicates":
        return repeated_rows(context, hashable(context), MOST_ROWS)
    if check.name in {"unique", "unique_together"} and check.column is not None:
        if check.name == "unique":
            return repeated_rows(context, [check.column], MOST_ROWS, filled=True)
        return repeated_rows(context, check.column.split("+"), MOST_ROWS)
    return []
