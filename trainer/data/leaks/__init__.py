"""Leaks: what lets a model score on held-out rows as it will score nowhere else. One detector a file."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import TYPE_CHECKING

from trainwright.trainer.data.leaks.finding import Finding

if TYPE_CHECKING:
    import polars as pl

    from trainwright.trainer.data.leaks.table import LeakTable

Detector = Callable[["LeakTable"], list[Finding]]
OF_COPIES = frozenset({"duplicates", "near_duplicates", "preprocessing", "encoding", "interpolated"})
"""Detectors that read copies too; to the others, copies would make any column an id that tells the target."""
OF_ALL_COLUMNS = frozenset({"groups", "time"})
"""Detectors of how rows are split, by columns that need not be inputs."""
RANK = {"error": 0, "warning": 1, "info": 2}


def detectors() -> dict[str, Detector]:
    """Return the detectors by name, in the order in which they are asked."""
    from trainwright.trainer.data.leaks import (
        clumps,
        duplicates,
        encoding,
        groups,
        interpolated,
        names,
        near_duplicates,
        pairs,
        preprocessing,
        target,
        time,
        tokens,
    )

    modules = (
        duplicates, near_duplicates, groups, clumps, time, target, pairs, preprocessing, encoding, interpolated, names,
        tokens,
    )  # fmt: skip
    return {module.__name__.rpartition(".")[2]: module.find for module in modules}


def find_leaks(
    frames: Mapping[str, pl.DataFrame],
    target: str | None,
    *,
    inputs: Collection[str] | None = None,
    given: bool = False,
    apart: Collection[str] = (),
    grouped_by: str | None = None,
) -> list[Finding]:
    """Return the leaks in frames of rows by split (train, validation, test), the gravest first.

    Args:
        frames: rows as they are in the files; a column `__row` may hold their places there.
        target: the column to predict; without one only what needs none is looked for.
        inputs: columns that the model sees, None: all but the target. Others may still be groups or times.
        apart: columns that are no inputs for what they are: of the split, of other targets.
        grouped_by: the column whose values each lie in one split: of another one, no split by it may part these.
        given: whether someone divided the rows by files or a column, rather than the engine.
    """
    from trainwright.trainer.data.leaks import siblings
    from trainwright.trainer.data.leaks.duplicates import without_copies
    from trainwright.trainer.data.leaks.table import LeakTable

    every = LeakTable.of(frames, target, given=given)
    seen = every if inputs is None else every.with_columns(inputs)
    single = without_copies(seen)
    single_every = every.chosen_as(single)
    found: list[Finding] = []
    for name, find in detectors().items():
        table = seen if name in OF_COPIES else single_every if name in OF_ALL_COLUMNS else single
        found += find(table)
    if grouped_by is not None:
        found = [one for one in found if one.kind != "group" or single_every.nests(grouped_by, one.column)]
    return sorted(siblings.find(single_every.without(apart), single, _explained(found)), key=_rank)


def _explained(found: list[Finding]) -> list[Finding]:
    """Leave out what another finding of the same column explains: an encoded column also tells the target."""
    encoded: set[str | None] = {one.column for one in found if one.kind == "preprocessing" and one.column}
    groups = {one.column for one in found if one.kind == "group"} - encoded
    kept = [one for one in found if not (one.kind == "target" and one.column in encoded | groups)]
    kept = [one for one in kept if not (one.kind == "clumps" and groups)]  # a column names them
    told = {name for one in kept if one.kind == "target" for name in (one.column, one.beside)}
    explained: dict[str, set[str | None]] = {"group": encoded, "time": told}
    return [one for one in kept if one.column not in explained.get(one.kind, ())]


def _rank(finding: Finding) -> int:
    return RANK[finding.severity]
