"""Twins: two columns that say the same, each value of one beside one value of the other (class and pclass)."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import combinations

import polars as pl

from trainwright.trainer.data.validation.check import Context, Family
from trainwright.trainer.data.validation.families.leaks import inputs_of
from trainwright.trainer.data.validation.report import Verdict
from trainwright.trainer.data.validation.values import severity_of

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
