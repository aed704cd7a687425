"""Sides that rows keep from one plan to the next, as the smoke runs of earlier plans recorded them. Free of torch."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from trainwright.trainer.run.directory import RunDirectory
from trainwright.trainer.run.split_rows import CONTENT, HASH, INPUTS, RECORD, SplitRows, tell_apart

if TYPE_CHECKING:
    from trainwright.trainer.data.marks import Marks

WAYS = {"contents": slice(HASH, CONTENT), "inputs": slice(CONTENT, INPUTS), "places": slice(INPUTS, RECORD)}
"""What a row is known by, and where it stands in a record."""


@dataclass(frozen=True)
class Plan:
    """The rows of one earlier plan."""

    source: str
    test: list[bytes]
    others: list[bytes]

    @classmethod
    def of(cls, run: RunDirectory) -> Plan | None:
        """Return what a smoke run recorded; None where not all rows are. Raises IntegrityError for a changed file."""
        kept = run.part(SplitRows)
        if not kept.kept or kept.level or kept.size < RECORD:
            return None
        found = kept.read(run.artifacts)
        return cls(kept.source, found["test"], found["train"] + found["validation"])

    def way(self, marks: Marks) -> str:
        """Return by what its rows and those with these marks are known: places in the same files, telling inputs, else
        contents."""
        if self.source and self.source == marks.source:
            return "places"
        rows = self.test + self.others
        own = {one[WAYS["inputs"]] for one in rows}, {one[WAYS["contents"]] for one in rows}
        is_told = tell_apart(*own) and tell_apart(set(marks.inputs), set(marks.contents))
        return "inputs" if is_told else "contents"


class KeptSides:
    """The sides of rows by earlier plans.

    Args:
        runs: folders of the smoke runs that these plans depend on.
    """

    def __init__(self, runs: Iterable[str]) -> None:
        self.plans = [plan for one in runs if (plan := Plan.of(RunDirectory(Path(one)))) is not None]

    def of(self, marks: Marks) -> tuple[list[bool], list[bool]]:
        """Return which rows were test rows of an earlier plan, and which were its other rows, (rows,) each."""
        was_test, was_other = ([False] * len(marks.contents) for _ in range(2))
        for plan in self.plans:
            way = plan.way(marks)
            others = {one[WAYS[way]] for one in plan.others}
            test = {one[WAYS[way]] for one in plan.test} - others  # of rows with equal marks in both, neither is told
            for row, mark in enumerate(getattr(marks, way)):
                was_test[row] |= mark in test
                was_other[row] |= mark in others
        return was_test, was_other
