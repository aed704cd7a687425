"""Sides that rows keep from one plan to the next, as the smoke runs of earlier plans recorded them. Free of torch."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from trainwright.trainer.run.directory import RunDirectory
from trainwright.trainer.run.split_rows import RECORD, Known, SplitRows, known_by

if TYPE_CHECKING:
    from trainwright.trainer.data.marks import Marks


@dataclass(frozen=True)
class Plan:
    """The rows of one earlier plan."""

    test: list[bytes]
    others: list[bytes]
    columns: list[str]
    source: str

    @classmethod
    def of(cls, run: RunDirectory) -> Plan | None:
        """Return what a smoke run recorded; None where not all rows are. Raises IntegrityError for a changed file."""
        kept = run.part(SplitRows)
        if not kept.kept or kept.level or kept.size < RECORD:
            return None
        found = kept.read(run.artifacts)
        return cls(found["test"], found["train"] + found["validation"], kept.columns, kept.source)


class KeptSides:
    """The sides of rows by earlier plans.

    Args:
        runs: folders of the smoke runs that these plans depend on.
    """

    def __init__(self, runs: Iterable[str]) -> None:
        self.plans = [plan for one in runs if (plan := Plan.of(RunDirectory(Path(one)))) is not None]

    def of(self, marks: Marks) -> tuple[list[bool], list[bool]]:
        """Return which rows were test rows of an earlier plan, and which were its other rows, (rows,) each."""
        was_test, was_other = ([False] * len(marks.records) for _ in range(2))
        now = Known(marks.records, marks.columns, marks.source)
        for plan in self.plans:
            _, before, after = known_by(Known(plan.test + plan.others, plan.columns, plan.source), now)
            test, others = ({*map(before, rows)} for rows in (plan.test, plan.others))
            for row, mark in enumerate(map(after, marks.records)):
                was_test[row] |= mark in test
                was_other[row] |= mark in others
        return was_test, was_other
