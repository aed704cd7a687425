"""Classes: how often each label of the target occurs, and whether there is anything to learn."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from trainwright.trainer.data.validation.check import ROW, Context, Family
from trainwright.trainer.data.validation.families.categories import among
from trainwright.trainer.data.validation.report import MOST_ROWS, NotChecked, Severity, Verdict
from trainwright.trainer.data.validation.values import empty, severity_of

if TYPE_CHECKING:
    import polars as pl

MOST_CLASSES = 1000
FIRST = 100_000
"""Rows that show first whether the target is one of classes."""
BALANCE = 0.02
"""The rarest class's rows over the most frequent one's, below which a warning is worth it."""
FEW = 5
"""Rows of a class: with fewer, some split may have none."""


class Classes(Family):
    """Labels of the target."""

    name = "classes"

    def found(self, context: Context) -> Iterable[Verdict]:
        """Yield the verdicts on the target."""
        if context.target not in context.kinds:
            return
        counts = _counted(context, context.target)
        yield self._varies(context.target, counts)
        if context.task == "regression" or len(counts) > MOST_CLASSES or len(counts) < 2:
            return
        if context.task is None and len(counts) > 20 and context.kinds[context.target] != "text":
            return
        yield self._balanced(context, context.target, counts)
        yield self._enough(context, context.target, counts)
        if context.expectations.classes.only is not None:
            yield self._known(context, context.target, context.expectations.classes.only)

    def left_out(self, context: Context) -> Iterable[NotChecked]:
        """Yield the classes, where the target is no column of the frame."""
        if context.target not in context.kinds:
            why = "the data names no column as its target"
            if context.options.get("masks"):
                why = "classes are of pixels: their shares are in `understood` of the smoke run"
            yield NotChecked(what="class balance", why=why)

    def _verdict(self, target: str, name: str, severity: Severity, **found: Any) -> Verdict:
        return Verdict(family=self.name, name=name, column=target, severity=severity, **found)

    def _varies(self, target: str, counts: dict[str, int]) -> Verdict:
        told = (
            f"the target {target} is always {next(iter(counts), 'empty')!r}"
            if len(counts) < 2
            else (f"the target {target} has {len(counts)} different values")
        )
        remedy = "Choose another target (data.args.target), or bring rows of other classes."
        return self._verdict(
            target,
            "target_varies",
            "error",
            passed=len(counts) > 1,
            value=len(counts),
            bound=2,
            text=told,
            remedy=remedy,
        )

    def _balanced(self, context: Context, target: str, counts: dict[str, int]) -> Verdict:
        given = context.expectations.classes.balance_at_least
        bound = BALANCE if given is None else given
        severity: Severity = severity_of(context, "balance", "warning" if given is None else "error")
        rarest, most = min(counts, key=lambda one: counts[one]), max(counts, key=lambda one: counts[one])
        found = counts[rarest] / counts[most]
        told = f"class {rarest!r} has {counts[rarest]} rows, class {most!r} has {counts[most]}: {found:.3g} as many"
        remedy = "Select by a metric that sees rare classes (f1_macro, balanced accuracy), weigh the loss "
        remedy += "(configs/losses.md), or bring more rows of the rare class."
        return self._verdict(
            target,
            "balance",
            severity,
            passed=found >= bound,
            value=round(found, 6),
            bound=bound,
            text=told,
            remedy=remedy,
            details={"classes": dict(list(counts.items())[:50])},
        )

    def _enough(self, context: Context, target: str, counts: dict[str, int]) -> Verdict:
        given = context.expectations.classes.samples_at_least
        bound = FEW if given is None else given
        severity: Severity = severity_of(context, "class_rows", "warning" if given is None else "error")
        few = {name: count for name, count in counts.items() if count < bound}
        shown = ", ".join(f"{name!r} ({count})" for name, count in list(few.items())[:8])
        told = f"classes with fewer than {bound} rows: {shown or 'none'}"
        remedy = "Bring more rows of these classes, join them with others, or drop them."
        rows = rows_of(context, among(context, target, list(few))) if few else []
        return self._verdict(
            target,
            "class_rows",
            severity,
            passed=not few,
            value=min(counts.values()),
            bound=bound,
            count=sum(few.values()),
            rows=rows,
            text=told,
            remedy=remedy,
        )

    def _known(self, context: Context, target: str, only: list[Any]) -> Verdict:
        bad = ~among(context, target, only) & ~empty(context, target)
        count = int(context.frame.select(bad.sum()).collect(engine="streaming").item() or 0)
        told = f"{count} labels of {target} are outside the classes {', '.join(map(str, only[:8]))}"
        remedy = "Correct these labels, or add the class to classes.only (recorded as loosened)."
        rows = rows_of(context, bad) if count else []
        return self._verdict(
            target,
            "labels",
            "error",
            passed=not count,
            value=count,
            bound=0,
            count=count,
            rows=rows,
            text=told,
            remedy=remedy,
        )


def _counted(context: Context, target: str) -> dict[str, int]:
    """Return the rows of each value of the target that is not empty, the most frequent first; some of too many."""
    import polars as pl

    filled = context.frame.filter(~empty(context, target))
    if filled.head(FIRST).select(pl.col(target).n_unique()).collect(engine="streaming").item() > MOST_CLASSES:
        filled = filled.head(FIRST)  # there are too many, which is all that is asked: those of all rows take memory
    kept = filled.group_by(target).agg(pl.len().alias(ROW))
    found = kept.sort(ROW, target, descending=[True, False]).head(MOST_CLASSES + 1).collect(engine="streaming")
    return {str(value): int(count) for value, count in found.iter_rows()}


def rows_of(context: Context, bad: pl.Expr) -> list[int]:
    """Return the numbers of the first rows for which it is true."""
    kept = context.numbered.filter(bad).select(ROW).head(MOST_ROWS)
    return [int(number) for number in kept.collect(engine="streaming")[ROW]]
