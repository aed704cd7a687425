"""Classes: how often each label of the target occurs, in which splits, and whether there is anything to learn."""

from __future__ import annotations

import re
import unicodedata
from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
import polars as pl

from trainwright.trainer.data.validation.check import ROW, Context, Family
from trainwright.trainer.data.validation.families.bounds import among
from trainwright.trainer.data.validation.report import MAX_ROWS, NotChecked, Severity, Verdict
from trainwright.trainer.data.validation.values import empty, severity_of

MAX_CLASSES = 1000
FIRST = 100_000
"""Rows that show first whether the target is one of classes."""
BALANCE = 0.02
"""The rarest class's rows over the most frequent one's, below which a warning is worth it."""
RARE = 0.1
"""Share of the held-out rows up to which classes that train lacks are a warning."""
FEW = 5
"""Rows of a class: with fewer, some split may have none."""
SPLIT = "__split__"
SIGNS = " \t\r\n.,;:!?'\"`\u00b4\u2018\u2019\u201c\u201d\u00ab\u00bb\u00a0"
"""Signs around a label that make no other label of it; `+`, `<` and the like do: `A+`, `<=50K`."""
MAX_NAMED = 8


class Classes(Family):
    """Labels of the target."""

    name = "classes"

    def found(self, context: Context) -> Iterable[Verdict]:
        """Yield the verdicts on the target."""
        for target in context.targets:
            yield from self._of(context, target)

    def _of(self, context: Context, target: str) -> Iterable[Verdict]:
        by_split = _counted(context, target)
        counts = {label: sum(rows.values()) for label, rows in by_split.items()}
        yield self._varies(target, counts)
        if context.task == "regression" or len(counts) > MAX_CLASSES or len(counts) < 2:
            return
        if context.task is None and len(counts) > 20 and context.kinds[target] != "text":
            return
        yield self._balanced(context, target, counts)
        yield self._enough(context, target, counts)
        if context.expectations.classes.only is None and context.kinds[target] == "text":
            yield self._told_apart(context, target, counts)
        if context.splits and not context.is_sample and (context.task or context.kinds[target] == "text"):
            yield self._in_train(context, target, by_split)
        if context.expectations.classes.only is not None:
            yield self._known(context, target, context.expectations.classes.only)

    def left_out(self, context: Context) -> Iterable[NotChecked]:
        """Yield the classes, where the target is no column of the frame."""
        if not context.targets:
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
            target, "target_varies", "error", passed=len(counts) > 1, value=len(counts), bound=2, text=told,
            remedy=remedy,
        )  # fmt: skip

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
            target, "balance", severity, passed=found >= bound, value=round(found, 6), bound=bound, text=told,
            remedy=remedy, details={"classes": dict(list(counts.items())[:50])},
        )  # fmt: skip

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
            target, "class_rows", severity, passed=not few, value=min(counts.values()), bound=bound,
            count=sum(few.values()), rows=rows, text=told, remedy=remedy,
        )  # fmt: skip

    def _told_apart(self, context: Context, target: str, counts: dict[str, int]) -> Verdict:
        """Check that no two labels are one but for case, signs around them, or how a number is written."""
        alike: dict[str, list[str]] = {}
        for label in counts:
            alike.setdefault(_plain(label), []).append(label)
        groups = [labels for plain, labels in alike.items() if plain and len(labels) > 1]
        shown = "; ".join(" and ".join(f"{one!r} ({counts[one]})" for one in labels) for labels in groups[:MAX_NAMED])
        rare = [label for labels in groups for label in labels[1:]]  # the most frequent is first
        return self._verdict(
            target, "labels_alike", severity_of(context, "labels_alike", "error"), passed=not groups,
            value=len(groups), bound=0, count=sum(counts[one] for one in rare),
            rows=rows_of(context, among(context, target, rare)) if rare else [],
            text=f"labels of {target} that differ in case, blanks or punctuation alone: {shown or 'none'}",
            remedy="Write each class in one way in the file, or join them (of a table: data.args.labels, each spelling "
            "with its class); where they are different classes, name all in classes.only of data.expectations.",
        )  # fmt: skip

    def _in_train(self, context: Context, target: str, by_split: Mapping[str, Counter[str]]) -> Verdict:
        """Check that train has every class of the other splits: what was never shown is never predicted.

        A few rows of rare classes, which any split may leave out of train, are a warning.
        """
        held = {label: rows["validation"] + rows["test"] for label, rows in by_split.items()}
        new = [label for label, rows in by_split.items() if not rows["train"] and held[label]]
        known = {_plain(label): f"; train has {label!r}" for label, rows in by_split.items() if rows["train"]}
        few = 0 < sum(held[one] for one in new) <= RARE * sum(held.values()) and not known.keys() & set(
            map(_plain, new)
        )
        severity = severity_of(context, "classes_in_train", "warning" if few else "error")
        shown = ", ".join(
            f"{label!r} ({', '.join(f'{rows} in {split}' for split, rows in by_split[label].items() if split)}"
            f"{known.get(_plain(label), '')})"
            for label in new[:MAX_NAMED]
        )
        return self._verdict(
            target, "classes_in_train", severity, passed=not new,
            value=len(new), bound=0, count=sum(by_split[label].total() for label in new),
            rows=rows_of(context, among(context, target, new)) if new else [],
            text=f"classes of {target} without a row in train: {shown or 'none'}"
            + (f" and {len(new) - MAX_NAMED} more" if len(new) > MAX_NAMED else ""),
            remedy="Correct these labels, bring rows of these classes for train, or take the rows out of the file.",
        )  # fmt: skip

    def _known(self, context: Context, target: str, only: list[Any]) -> Verdict:
        bad = ~among(context, target, only) & ~empty(context, target)
        count = int(context.frame.select(bad.sum()).collect(engine="streaming").item() or 0)
        told = f"{count} labels of {target} are outside the classes {', '.join(map(str, only[:8]))}"
        remedy = "Correct these labels, or add the class to classes.only (recorded as loosened)."
        rows = rows_of(context, bad) if count else []
        return self._verdict(
            target, "labels", "error", passed=not count, value=count, bound=0, count=count, rows=rows, text=told,
            remedy=remedy,
        )  # fmt: skip


def _plain(label: str) -> str:
    """Return a label without case, signs around it and between its words; of a number, what it is."""
    bare = unicodedata.normalize("NFKC", label).strip(SIGNS).casefold()
    try:
        return repr(float(bare))
    except ValueError:
        return re.sub(r"(?<=\w)[\s_-]+(?=\w)", " ", bare)


def _counted(context: Context, target: str) -> dict[str, Counter[str]]:
    """Return the rows of each value of the target that is not empty, by split; some of too many.

    The most frequent is first. Blanks around a label are none of it, as in training; rows of no split are under "".
    """
    filled = context.numbered.filter(~empty(context, target))
    if filled.head(FIRST).select(pl.col(target).n_unique()).collect(engine="streaming").item() > MAX_CLASSES:
        filled = filled.head(FIRST)  # there are too many, which is all that is asked: those of all rows take memory
    kept = filled.group_by(target, _split(context).alias(SPLIT)).agg(pl.len().alias(ROW))
    found: dict[str, Counter[str]] = {}
    names = ("", *context.splits)
    for value, split, count in kept.collect(engine="streaming").iter_rows():
        found.setdefault(str(value).strip(), Counter())[names[split]] += count
    ordered = sorted(found, key=lambda label: (-found[label].total(), label))
    return {label: found[label] for label in ordered[: MAX_CLASSES + 1]}


def _split(context: Context) -> pl.Expr:
    """Return the number of each numbered row's split, from 1; 0 of none."""
    numbers = np.zeros(1 + max((int(rows.max()) for rows in context.splits.values() if len(rows)), default=-1), np.int8)
    for number, rows in enumerate(context.splits.values(), start=1):
        numbers[rows] = number

    def of(rows: pl.Series) -> pl.Series:
        places = rows.to_numpy()
        inside = places < len(numbers)
        return pl.Series(np.where(inside, numbers[np.where(inside, places, 0)], 0).astype(np.int8))

    if not len(numbers):
        return pl.lit(0, dtype=pl.Int8)
    return pl.col(ROW).map_batches(of, return_dtype=pl.Int8, is_elementwise=True)


def rows_of(context: Context, bad: pl.Expr) -> list[int]:
    """Return the numbers of the first rows for which it is true."""
    kept = context.numbered.filter(bad).select(ROW).head(MAX_ROWS)
    return [int(number) for number in kept.collect(engine="streaming")[ROW]]
