"""Slices by the columns of a real CSV: each chooses the very rows whose cells are so."""

from __future__ import annotations

import csv
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from trainwright.tools.evaluation.slices import WORDS, slice_orders
from trainwright.trainer.assembly.build import build_data
from trainwright.trainer.base.errors import ConfigurationError
from trainwright.trainer.clean_room.slices import TESTS
from trainwright.trainer.config import parse_config
from trainwright.trainer.data.table.transform import FALSE, TRUE
from trainwright.trainer.evidence.data import data_evidence

pytestmark = pytest.mark.requirement("PIPE-3", "TRAIN-1")
Row = dict[str, str]


@pytest.fixture(scope="module")
def table(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, list[Row]]:
    """Return a folder with `churn.csv`, and its rows."""
    folder, draw = tmp_path_factory.mktemp("table"), np.random.default_rng(0)
    found = [
        {
            "plan": "" if n % 9 == 0 else str(draw.choice(["basic", "plus", "gold"])),
            "premium": ["yes", "no"][n % 2],
            "joined": f"202{n % 4}-0{1 + n % 9}-1{n % 10}",
            "seen": f"2026-01-{10 + n % 20} {n % 24:02d}:30",
            "age": str(int(draw.integers(18, 80))),
            "left": str(draw.choice(["stays", "goes"])),
        }
        for n in range(240)
    ]
    with (folder / "churn.csv").open("w", newline="") as file:
        writer = csv.DictWriter(file, list(found[0]))
        writer.writeheader()
        writer.writerows(found)
    return folder, found


def ordered(folder: Path, **gate: Any) -> tuple[dict[str, list[dict[str, Any]]], Any]:
    config = parse_config({
        "model": {"use": "mlp"}, "data": {"use": "csv", "args": {"path": "churn.csv", "target": "left"}},
        "evaluation_gate": gate,
    })  # fmt: skip
    splits = build_data(config, folder)
    return slice_orders(config, data_evidence(splits, folder)), splits


@pytest.mark.parametrize(
    ("text", "is_in"),
    [
        ("plan=basic", lambda row: row["plan"] == "basic"),
        ("plan!=basic", lambda row: row["plan"] != "basic"),
        ("premium=yes", lambda row: row["premium"] == "yes"),
        ("premium=False", lambda row: row["premium"] == "no"),
        ("joined>=2022-01-01", lambda row: row["joined"] >= "2022-01-01"),
        ("seen<2026-01-20", lambda row: row["seen"] < "2026-01-20"),
        ("age>=65 & plan=gold", lambda row: int(row["age"]) >= 65 and row["plan"] == "gold"),
    ],
)
def test_a_slice_is_of_the_rows_whose_cells_are_so(
    table: tuple[Path, list[Row]], text: str, is_in: Callable[[Row], bool]
) -> None:
    folder, rows = table
    orders, splits = ordered(folder, slices={text: {"accuracy": 0.5}})
    part = splits.samples["validation"]
    inputs = np.stack([part.raw[row][0].numpy() for row in range(len(part))])
    chosen = np.ones(len(inputs), dtype=bool)
    for test in orders["slices"][0]["tests"]:
        chosen &= TESTS[test["test"]](inputs[:, test["column"]], test["value"])
    assert chosen.tolist() == [is_in(rows[row]) for row in part.rows.tolist()]
    assert 0 < chosen.sum() < len(chosen)


@pytest.mark.parametrize(
    ("text", "error", "remedy"),
    [
        ("plan=gould", "'gould' is no value of the column. Near: gold", "Values: "),
        ("plam=basic", "no column 'plam'. Near: plan", "Columns: plan, premium, joined, seen, age, left"),
        ("plan>=basic", "the values of 'plan' have no order", "Write plan=basic"),
        ("premium=maybe", "'maybe' is no value", "true and false"),
        ("joined>=soon", "'soon' is no value", "2026-11-23"),
    ],
)
def test_what_the_table_has_not_is_refused_with_what_it_has(
    table: tuple[Path, list[Row]], text: str, error: str, remedy: str
) -> None:
    with pytest.raises(ConfigurationError, match=error) as refused:
        ordered(table[0], slices={text: {"accuracy": 0.5}})
    assert remedy in refused.value.remedy


def test_groups_are_named_by_the_values_and_words_are_those_of_the_shipped_transform(
    table: tuple[Path, list[Row]],
) -> None:
    orders, _ = ordered(table[0], groups={"premium": {"accuracy": 0.1}, "plan": {"accuracy": 0.1}})
    named = {group["name"]: set(group["values"].values()) for group in orders["groups"]}
    assert named == {"premium": {"false", "true"}, "plan": {"basic", "plus", "gold"}}
    assert (set(WORDS["true"]), set(WORDS["false"])) == (TRUE, FALSE)
