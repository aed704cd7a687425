"""Validation of a frame: the aggregates of all checks in one pass over the rows, then what is not passed in detail."""

from __future__ import annotations

import sys
import time
import traceback
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import polars as pl

from trainwright.trainer.base.errors import ConfigurationError, DataError, TrainwrightError
from trainwright.trainer.data.sections import SplitSection
from trainwright.trainer.data.sources import SOURCES
from trainwright.trainer.data.sources.file_kinds import kind_of_file
from trainwright.trainer.data.sources.tables import Table
from trainwright.trainer.data.validation.check import Check, Context, Finding, repeated_rows
from trainwright.trainer.data.validation.expectations import DOCUMENT, Expectations, read_expectations
from trainwright.trainer.data.validation.families import CHECKS
from trainwright.trainer.data.validation.families.classes import rows_of
from trainwright.trainer.data.validation.families.uniqueness import hashable
from trainwright.trainer.data.validation.report import MAX_ROWS, NotChecked, Report, Verdict
from trainwright.trainer.data.validation.values import kind_of

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
        found = _made(name, partial(family.found, context))
        verdicts += [one for one in found if isinstance(one, Verdict)]
        not_checked += [one for one in found if isinstance(one, NotChecked)]
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
    try:
        return _one_pass(context, [check for checks in planned.values() for check in checks])
    except (Exception, pl.exceptions.PanicException):
        _require_readable(context)
        for name, checks in planned.items():  # of which family, a pass of each alone shows
            _made(name, partial(_one_pass, context, checks))
        raise


def _require_readable(context: Context) -> None:
    """Check that the rows can be read at all: then a fault is the reader's, and no check's. Raises DataError."""
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
        column=found.column or check.column,
        severity=check.severity,
        passed=found.passed,
        value=found.value,
        bound=found.bound,
        count=found.count,
        rows=[] if found.passed or not found.count else _rows(context, check, found),
        text=found.text,
        remedy="" if found.passed else found.remedy,
        details=found.details,
    )


def _rows(context: Context, check: Check, found: Finding) -> list[int]:
    """Return the numbers of the first offending rows."""
    if (offending := check.offending if found.offending is None else found.offending) is not None:
        return rows_of(context, offending)
    if check.name == "duplicates":
        return repeated_rows(context, hashable(context), MAX_ROWS)
    if check.name in {"unique", "unique_together"} and check.column is not None:
        if check.name == "unique":
            return repeated_rows(context, [check.column], MAX_ROWS, filled=True)
        return repeated_rows(context, check.column.split("+"), MAX_ROWS)
    return []


# Validation of one file outside of a project: the checks of every run, on the split that a run would draw.


def validate_file(path: Path, target: str | None = None, expectations: str | None = None) -> Report:
    """Return the verdicts on a table in a file.

    Args:
        target: the column to predict; without it no label, and no leak that needs one, is checked.
        expectations: a file of expectations beside the data.

    Raises:
        ConfigurationError: a kind that no source reads, no such column, or expectations that cannot be read.
        DataError: the file cannot be read.
    """
    source = _source_of(path)
    frame = source.model_validate({"path": path.name, "text": "*"}).scan(path.parent).collect()
    kinds = {name: kind_of(dtype) for name, dtype in frame.schema.items()}
    if target is not None and target not in kinds:
        raise ConfigurationError(
            f"{path.name} has no column {target!r}; it has {', '.join(list(kinds)[:20])}.",
            remedy="Give --target one of them, or leave it out.",
            document=DOCUMENT,
        )
    known = read_expectations(expectations, path.parent) if expectations else Expectations()
    context = Context(
        frame=frame.lazy(),
        kinds=kinds,
        expectations=known,
        targets=[target] if target else [],
        splits=_drawn(frame.height),
        source=source.name,
        options={"path": path.name, **({"target": target} if target else {})},
    )
    return validate(context)


def _source_of(path: Path) -> type[Table]:
    """Return the source that reads a file, by its content or else its ending. Raises ConfigurationError."""
    tables = {name: kind for name, kind in SOURCES.items() if issubclass(kind, Table) and kind.endings}
    found = kind_of_file(path)
    use = found.use if found is not None else None
    endings = {suffix[1:].lower() for suffix in path.suffixes[-2:]}
    use = use or next((name for name, kind in tables.items() if not endings.isdisjoint(kind.endings)), None)
    if use not in tables:
        known = ", ".join(f".{ending}" for kind in tables.values() for ending in kind.endings)
        raise ConfigurationError(
            f"{path.name} is {found.said if found else 'of an unknown kind'}; tables end in {known}.",
            remedy="Give a file of one of these kinds; a folder of pictures is validated by a project's smoke run.",
            document=DOCUMENT,
        )
    return tables[use].form_of({"text": "*"})  # type: ignore[return-value]  # every table has a form for texts


def _drawn(rows: int) -> dict[str, np.ndarray[tuple[int], np.dtype[np.int64]]]:
    """Return a random split of rows in the default shares; none of few."""
    section = SplitSection()
    order = np.random.default_rng(section.seed).permutation(rows).astype(np.int64)
    test, validation = int(section.test * rows), int(section.validation * rows)
    if not test or not validation:
        return {}
    parts = np.split(order, [test, test + validation])
    return {name: np.sort(part) for name, part in zip(("test", "validation", "train"), parts, strict=True)}
