"""No row that a plan tested on is trained on later, whatever is done to the data and to how they are divided."""

from __future__ import annotations

import csv
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyarrow import parquet

from trainwright.trainer.base.errors import DataError
from trainwright.trainer.data import marks
from trainwright.trainer.data.assemble import from_loaded, from_user
from trainwright.trainer.data.sections import SplitSection
from trainwright.trainer.data.sources import load_source
from trainwright.trainer.data.splits import Splits
from trainwright.trainer.evidence.split_rows import rows_of
from trainwright.trainer.run.split_rows import KeptSides, Plan

pytestmark = pytest.mark.requirement("REPRO-4", "GATE-5")
ROWS = 60


@pytest.fixture(autouse=True)
def _nothing_kept() -> Iterator[None]:
    yield
    marks.use(None)


class Project:
    """A table that changes, what is configured of it, and its plans, each of which a model was evaluated on."""

    def __init__(self, folder: Path, seed: int) -> None:
        self.folder, self.draws = folder, np.random.default_rng(seed)
        self.next, self.ignored = ROWS, list[str]()
        self.section: dict[str, Any] = {"seed": seed % 5}
        self.is_recoded, self.added, self.source = False, 0, "csv"
        self.rows = [self._row(number) for number in range(ROWS)]
        self.plans: list[Plan] = []
        self.tested: set[int] = set()
        self.trained: set[int] = set()

    def _row(self, number: int) -> dict[str, Any]:
        a, b, c = self.draws.normal(size=3).round(6)
        more = {f"new{one}": float(self.draws.normal()) for one in range(1, self.added + 1)}
        return {"id": number, "a": a, "b": b, "c": c, "g": f"g{number // 3}", "y": int(self.draws.integers(2)), **more}

    def add_rows(self) -> None:
        self.rows += [self._row(self.next + number) for number in range(12)]
        self.next += 12

    def delete_rows(self) -> None:
        self.rows = [row for row in self.rows if row["id"] % 7 != 3]

    def leave_a_column_out(self) -> None:
        self.ignored = [] if self.ignored else ["c"]

    def add_a_column(self) -> None:
        self.added += 1
        for row in self.rows:
            row[f"new{self.added}"] = float(self.draws.normal())

    def rescale_a_column(self) -> None:
        for row in self.rows:
            row["b"] = 2.54 * row["b"]

    def recode_the_target(self) -> None:
        self.is_recoded = not self.is_recoded

    def shuffle_the_file(self) -> None:
        self.rows = [self.rows[place] for place in self.draws.permutation(len(self.rows))]

    def write_another_format(self) -> None:
        self.source = "parquet" if self.source == "csv" else "csv"

    def draw_the_split_anew(self) -> None:
        self.section["seed"] += 11

    def change_the_shares(self) -> None:
        self.section |= {"validation": 0.25, "test": 0.3}

    def divide_by_group(self) -> None:
        self.section |= {"by": "group", "group": "g"}

    def plan(self) -> None:
        """Divide the rows as they are now, check who is where, and keep the plan."""
        words = ["no", "yes"] if self.is_recoded else [0, 1]
        rows = [{**row, "y": words[row["y"]]} for row in self.rows]
        with (self.folder / "rows.csv").open("w", newline="") as file:
            written = csv.DictWriter(file, [*rows[0]])
            written.writeheader()
            written.writerows(rows)
        parquet.write_table(pa.Table.from_pylist(rows), self.folder / "rows.parquet")
        kinds = dict.fromkeys(("g", *self.ignored), "ignore")
        args = {
            "path": f"rows.{self.source}",
            "target": "y",
            "columns": {**kinds, "id": "number"},
            "task": "classification",
        }
        marks.use(KeptSides([]) if not self.plans else with_plans(self.plans))
        section = SplitSection.model_validate(self.section)
        loaded = load_source(self.source, args, self.folder, section)
        splits = from_loaded(loaded, section, source=self.source, args=args)
        ids = {name: {self.rows[row]["id"] for row in part.rows.tolist()} for name, part in splits.samples.items()}
        there = {row["id"] for row in self.rows}
        assert not self.tested & (ids["train"] | ids["validation"])
        assert ids["test"] >= self.tested & there
        assert self.section.get("by") == "group" or not self.trained & ids["test"]
        self.tested |= ids["test"]
        self.trained |= (ids["train"] | ids["validation"]) - self.tested
        self.plans.append(plan_of(splits))


def plan_of(splits: Splits) -> Plan:
    recorded = rows_of(splits)
    assert recorded is not None
    found, level, columns = recorded
    assert level == 0
    return Plan(found["test"], found["train"] + found["validation"], columns, splits.placed_in)


def with_plans(plans: list[Plan]) -> KeptSides:
    sides = KeptSides([])
    sides.plans = plans
    return sides


CHANGES = [
    Project.add_rows, Project.delete_rows, Project.leave_a_column_out, Project.add_a_column, Project.rescale_a_column,
    Project.recode_the_target, Project.shuffle_the_file, Project.write_another_format, Project.draw_the_split_anew,
    Project.change_the_shares, Project.divide_by_group,
]  # fmt: skip
Steps = list[list[Callable[[Project], None]]]
HISTORIES = given(
    seed=st.integers(0, 10_000), steps=st.lists(st.lists(st.sampled_from(CHANGES), max_size=3), min_size=1, max_size=4)
)


def play(folder: Path, seed: int, steps: Steps) -> None:
    project = Project(folder, seed)
    project.plan()
    for changes in steps:
        for change in changes:
            change(project)
        project.plan()


@settings(max_examples=12, deadline=None)
@HISTORIES
def test_over_drawn_histories_no_test_row_is_trained_on(
    tmp_path_factory: pytest.TempPathFactory, seed: int, steps: Steps
) -> None:
    play(tmp_path_factory.mktemp("history"), seed, steps)


@pytest.mark.long
@pytest.mark.timeout(900)
@settings(max_examples=500, deadline=None)
@HISTORIES
def test_over_five_hundred_histories_neither(tmp_path_factory: pytest.TempPathFactory, seed: int, steps: Steps) -> None:
    play(tmp_path_factory.mktemp("history"), seed, steps)


def test_samples_of_the_users_own_keep_their_sides_too() -> None:
    def splits(first: int, last: int, seed: int) -> Splits:
        samples = [(np.array([number, number**2], dtype=np.float32), number % 3) for number in range(first, last)]
        return from_user(samples, SplitSection(seed=seed), source="mine.py:rows", seed=0)

    def numbers(found: Splits, name: str) -> set[int]:
        return {int(found.samples[name][place][0][0]) for place in range(len(found.samples[name]))}

    before = splits(0, 80, 1)
    marks.use(with_plans([plan_of(before)]))
    after = splits(5, 120, 2)
    assert numbers(after, "test") >= numbers(before, "test") & set(range(5, 120))
    assert numbers(after, "test") & set(range(80)) == numbers(before, "test") & set(range(5, 120))
    assert numbers(after, "test") & set(range(80, 120)), "of new rows some are tested on"


def test_rows_that_are_alike_but_for_a_target_keep_their_sides_in_a_file_of_another_order_with_another_column(
    tmp_path: Path,
) -> None:
    draws = np.random.default_rng(0)
    rows = [
        {
            "kind": "abcd"[draws.integers(4)],
            "fare": draws.integers(9),
            "age": draws.integers(20),
            "y": draws.integers(2),
        }
        for _ in range(300)
    ]
    section = SplitSection()

    def split(written: list[dict[str, Any]]) -> tuple[Splits, dict[str, set[tuple[Any, ...]]]]:
        with (tmp_path / "rows.csv").open("w", newline="") as file:
            table = csv.DictWriter(file, [*written[0]])
            table.writeheader()
            table.writerows(written)
        kinds = {"kind": "category", "fare": "number", "age": "number"}
        args = {"path": "rows.csv", "target": "y", "columns": kinds, "task": "classification"}
        splits = from_loaded(load_source("csv", args, tmp_path, section), section, source="csv", args=args)
        known = ("kind", "fare", "age", "y")
        held = {
            name: {tuple(written[row][column] for column in known) for row in part.rows.tolist()}
            for name, part in splits.samples.items()
        }
        return splits, held

    before, first = split(rows)
    marks.use(with_plans([plan_of(before)]))
    more = [*rows, *({**row, "fare": 9 + number} for number, row in enumerate(rows[:40]))]
    _, second = split([{**more[place], "family": draws.integers(5)} for place in draws.permutation(len(more))])
    assert not first["test"] & (second["train"] | second["validation"])
    assert second["test"] - first["test"], "of new rows some are tested on"


def test_a_split_that_the_kept_sides_leave_empty_is_refused_with_both_ways_out() -> None:
    samples = [(np.array([number], dtype=np.float32), number % 2) for number in range(60)]
    before = from_user(samples, SplitSection(), source="mine.py:rows", seed=0)
    marks.use(with_plans([plan_of(before)]))
    tested = {int(before.samples["test"][place][0][0]) for place in range(len(before.samples["test"]))}
    untested = [sample for sample in samples if int(sample[0][0]) not in tested]
    with pytest.raises(DataError, match="test would be empty") as caught:
        from_user(untested, SplitSection(), source="mine.py:rows", seed=0)
    assert "bring rows that it did not have, or create another project" in caught.value.remedy
    more = [(np.array([number], dtype=np.float32), number % 2) for number in range(100, 160)]
    after = from_user([*untested, *more], SplitSection(), source="mine.py:rows", seed=0)
    assert all(after.samples["test"][place][0][0] >= 100 for place in range(len(after.samples["test"])))
