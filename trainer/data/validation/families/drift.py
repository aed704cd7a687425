"""Drift: how far each column's distribution is from that of a reference, and all numbers of a row together."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import numpy as np
import polars as pl

from trainwright.trainer.data.validation import distances
from trainwright.trainer.data.validation.check import Context, Family
from trainwright.trainer.data.validation.expectations import DriftExpectations
from trainwright.trainer.data.validation.report import NotChecked, Verdict
from trainwright.trainer.data.validation.values import NUMBERS, dates_of_text, kind_of

PSI = 0.2
"""Bound where a reference is given and no bound: the field's word for a shift."""
COMPARED = (*NUMBERS, "date", "boolean", "text")
MAX_CATEGORIES = 100
"""Different texts above which a column is free text, and compared by its lengths."""


class Drift(Family):
    """Distances from a reference."""

    name = "drift"

    def found(self, context: Context) -> Iterable[Verdict]:
        """Yield the verdict of each distance that has a bound, of each column."""
        bounds = context.expectations.drift
        if context.reference is None or bounds is None:
            return
        there = context.reference.collect_schema().names()
        columns = [name for name in (bounds.columns or context.kinds) if name in there and name in context.kinds]
        wanted = [name for name in columns if context.kinds[name] in (*COMPARED, "embedding")]
        (found, size), (reference, _) = evenly(context.frame, wanted), evenly(context.reference, wanted)
        found, reference = with_dates(found), with_dates(reference)
        read = {"rows": len(found), "of": size, "reference_rows": len(reference)}
        for column in wanted:
            kind = kind_of(found[column].dtype) if found[column].dtype == reference[column].dtype else "text"
            for name, value, bound in _distances(kind, reference[column], found[column], bounds):
                yield self._verdict(name, column, value=value, bound=bound, bounds=bounds, read=read)
        if bounds.mmd_at_most is not None:
            names = [column for column in wanted if context.kinds[column] in NUMBERS]
            joint = _joint(reference, found, names)
            if joint is not None:
                yield self._verdict("mmd", None, value=joint, bound=bounds.mmd_at_most, bounds=bounds, read=read)

    def left_out(self, context: Context) -> Iterable[NotChecked]:
        """Yield drift, where there is no reference, and columns that the reference lacks."""
        if context.expectations.drift is None:
            yield NotChecked(what="drift", why="no reference is named (drift.reference)")
        elif context.reference is None:
            yield NotChecked(what="drift", why="the reference could not be read as a table of rows")
        else:
            there = set(context.reference.collect_schema().names())
            for column in context.kinds.keys() - there:
                yield NotChecked(what=f"drift of {column}", why="the reference has no such column")

    def _verdict(
        self,
        name: str,
        column: str | None,
        *,
        value: float,
        bound: float,
        bounds: DriftExpectations,
        read: dict[str, int],
    ) -> Verdict:
        return Verdict(
            family=self.name,
            name=name,
            column=column,
            severity=bounds.severity,
            passed=value <= bound,
            value=round(value, 6),
            bound=bound,
            text=f"{name} of {column or 'all numbers together'} against {bounds.reference} is {value:.4g}, at most "
            f"{bound:g} is expected",
            remedy=""
            if value <= bound
            else f"See what changed in {column or 'the data'} since {bounds.reference} was "
            "made; where it is meant, make newer data the reference.",
            details=read,
        )


def _distances(
    kind: str, reference: pl.Series, found: pl.Series, bounds: DriftExpectations
) -> Iterable[tuple[str, float, float]]:
    """Yield name, value and bound of each distance of a column."""
    psi_bound = bounds.psi_at_most
    if psi_bound is None and not any((bounds.ks_at_most, bounds.chi2_at_most, bounds.wasserstein_at_most)):
        psi_bound = PSI
    of: list[tuple[str, float | None, Callable[[Any, Any], float]]]
    pair: tuple[Any, Any]
    if kind == "embedding":
        pair = reference.drop_nulls().to_numpy(), found.drop_nulls().to_numpy()
        yield "mmd", distances.mmd(*map(_matrix, pair)), 0.01 if bounds.mmd_at_most is None else bounds.mmd_at_most
        return
    if kind == "text" and max(reference.n_unique(), found.n_unique()) > MAX_CATEGORIES:
        reference, found = reference.str.len_chars(), found.str.len_chars()
        kind = "integer"
    if kind in {"text", "boolean"}:
        pair = counts(reference), counts(found)
        of = [("psi", psi_bound, distances.categories_psi), ("chi2", bounds.chi2_at_most, distances.chi2)]
    else:
        pair = finite(reference), finite(found)
        of = [
            ("psi", psi_bound, distances.psi),
            ("ks", bounds.ks_at_most, distances.ks),
            ("wasserstein", bounds.wasserstein_at_most, distances.wasserstein),
        ]
    if not len(pair[0]) or not len(pair[1]):
        return
    for name, bound, distance in of:
        if bound is not None:
            yield name, distance(*pair), bound


def _matrix(rows: Any) -> Any:
    return np.stack([np.asarray(row, dtype=np.float64) for row in rows])


def _joint(reference: pl.DataFrame, found: pl.DataFrame, columns: list[str]) -> float | None:
    """Return the discrepancy of all numbers of a row together; None where no row has them all."""
    if not columns:
        return None
    one, other = (rows.select(columns).fill_nan(None).drop_nulls().to_numpy() for rows in (reference, found))
    return distances.mmd(one.astype(float), other.astype(float)) if min(len(one), len(other)) > 1 else None


# Samples of a frame: evenly spaced rows, in memory, for statistics that need no more.

MOST = 100_000
MAX_COUNTED = 200


def evenly(frame: pl.LazyFrame, columns: list[str], most: int = MOST) -> tuple[pl.DataFrame, int]:
    """Return at most so many evenly spaced rows of some columns, and how many rows there are."""
    size = int(frame.select(pl.len()).collect(engine="streaming").item())
    every = max(-(-size // most), 1)
    return frame.select(columns).gather_every(every).collect(engine="streaming"), size


def with_dates(found: pl.DataFrame) -> pl.DataFrame:
    """Return the rows with columns of text that hold dates alone (2026-01-31, with or without a time) as dates."""
    texts = [name for name, dtype in found.schema.items() if dtype == pl.String]
    read = found.select(dates_of_text(pl.col(name)).alias(name) for name in texts)
    whole = [name for name in texts if 0 < read[name].count() == found[name].count()]
    return found.with_columns(read[name] for name in whole)


def finite(values: pl.Series) -> np.ndarray[Any, np.dtype[np.float64]]:
    """Return the finite numbers of a column of numbers, dates or truths, (filled,)."""
    physical = values.to_physical() if values.dtype.is_temporal() else values
    found = physical.cast(pl.Float64, strict=False).drop_nulls().to_numpy()
    return np.asarray(found[np.isfinite(found)])


def counts(values: pl.Series) -> dict[str, int]:
    """Return how often each value occurs; beyond a number of different ones, the rest together."""
    table = values.drop_nulls().cast(pl.String).value_counts(sort=True)
    found = {str(name): int(count) for name, count in table.iter_rows()}
    kept = dict(list(found.items())[:MAX_COUNTED])
    rest = sum(found.values()) - sum(kept.values())
    return {**kept, "(other)": rest} if rest else kept
