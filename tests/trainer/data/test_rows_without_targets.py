"""Rows without a target: refused with their lines, or left out where the configuration says so; in every file."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyarrow import parquet
from tests.trainer.data.loading import load

from trainwright.trainer.assembly.build import build_data
from trainwright.trainer.base.errors import DataError
from trainwright.trainer.config import parse_config
from trainwright.trainer.data.sections import SplitSection
from trainwright.trainer.data.sources import load_source, scan_source
from trainwright.trainer.data.sources.parquet_file import ParquetTexts
from trainwright.trainer.data.sources.reading import Reading
from trainwright.trainer.evidence.data import data_evidence

pytestmark = pytest.mark.requirement("TRAIN-1", "PIPE-2")
HEADER = "age,plan,left"


def lines_of(first: int, targets: list[str]) -> list[str]:
    return [HEADER, *(f"{first + row},p{row % 3},{target}" for row, target in enumerate(targets))]


@pytest.fixture
def tables(tmp_path: Path) -> Path:
    """Two files of 20 rows: no target in rows 3 and 4 of the first, and in all but the last of the second's first 5."""
    first = ["yes", "no", "", " ", *["yes", "no"] * 8]
    second = ["", "", "", "", "no", *["yes", "no", "no"] * 5]
    for name, (start, targets) in {"a": (0, first), "b": (100, second)}.items():
        (tmp_path / f"{name}.csv").write_text("\n".join(lines_of(start, targets)))
    return tmp_path


def load_all(root: Path, **args: Any) -> Any:
    return load_source("csv", {"path": "*.csv", "target": "left", **args}, root, SplitSection())


def test_the_refusal_names_the_lines_and_its_change_leaves_the_rows_out(tables: Path) -> None:
    with pytest.raises(DataError, match=r"a.csv line 4: the target 'left' is empty \(6 row.*b.csv line 2") as caught:
        load_all(tables)
    changes = caught.value.details["changes"]
    assert "data.args.drop_without_target" in caught.value.remedy
    data = {"use": "csv", "args": {"path": "*.csv", "target": "left", **{key[10:]: changes[key] for key in changes}}}
    config = parse_config({"model": {"use": "mlp"}, "data": data})
    evidence = data_evidence(build_data(config, tables), tables)
    assert evidence.skipped == 6
    assert evidence.skipped_files[:3] == ["a.csv line 4", "a.csv line 5", "b.csv line 2"]
    assert sum(split.size for split in evidence.splits.values()) == 34


def test_what_is_left_is_the_same_as_if_they_had_never_been_there(tables: Path, tmp_path: Path) -> None:
    found = load_all(tables, drop_without_target=True)
    for file in tables.glob("*.csv"):
        rows = [line for line in file.read_text().split("\n") if line.rpartition(",")[2].strip()]
        file.write_text("\n".join(rows))
    expected = load_all(tables)
    for one, two in zip(found.samples.base, expected.samples.base, strict=True):
        assert one.tolist() == two.tolist()


def test_a_scan_has_a_row_for_every_sample_and_errors_name_the_files_lines(tables: Path) -> None:
    args = {"path": "*.csv", "target": "left", "drop_without_target": True}
    frame = scan_source("csv", args, tables)
    assert frame is not None
    assert frame.collect()["age"].to_list() == [0, 1, *range(4, 20), *range(104, 120)]
    path = tables / "b.csv"
    path.write_text(path.read_text().replace("110,", "old,"))
    with pytest.raises(DataError, match="b.csv line 12, column 'age': 'old' is no finite number"):
        load_all(tables, drop_without_target=True)


@pytest.mark.parametrize(
    ("targets", "left"),
    [(["1.5", "NA", "nan", "2.5", ""], 2), (["red", "none", "NA", "blue", ""], 4), ([None, 1.0, float("nan"), 2.0], 2)],
    ids=["numbers", "names", "typed"],
)
def test_words_for_nothing_are_no_targets_where_the_others_are_numbers(
    targets: list[Any], left: int, tmp_path: Path
) -> None:
    path = tmp_path / "t.parquet"
    parquet.write_table(pa.table({"age": [float(row) for row in range(len(targets))], "left": targets}), path)
    found = load("parquet", path, target="left", drop_without_target=True)
    assert len(found.samples) == left


def test_no_row_with_a_target_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text("\n".join(lines_of(0, ["", ""])))
    with pytest.raises(DataError, match="t.csv: no row has a target 'left'"):
        load("csv", tmp_path / "t.csv", target="left", drop_without_target=True)


def test_texts_are_read_from_several_files_without_rows_that_have_no_target(tmp_path: Path) -> None:
    for name, first in (("a", 0), ("b", 30)):
        rows = [
            {"text": f"text number {first + row}", "kind": None if row == 3 else "xy"[row % 2]} for row in range(30)
        ]
        (tmp_path / f"{name}.jsonl").write_text("\n".join(map(json.dumps, rows)))
    args = {"path": "*.jsonl", "text": "text", "target": "kind"}
    with pytest.raises(DataError, match=r"a.jsonl line 4: the target 'kind' is empty \(2 row.*b.jsonl line 4"):
        load_source("jsonl", args, tmp_path, SplitSection())
    found = load_source("jsonl", {**args, "drop_without_target": True}, tmp_path, SplitSection())
    assert sum(len(part) for part in found.samples.values()) == 58
    assert found.skipped == ["a.jsonl line 4", "b.jsonl line 4"]
    assert [file.name for file in found.files] == ["a.jsonl", "b.jsonl"]
    modelled = load_source("jsonl", {"path": ["a.jsonl", "b.jsonl"], "text": "text"}, tmp_path, SplitSection())
    assert sum(modelled.text.pieces.values()) == 60
    (tmp_path / "b.jsonl").write_text('{"text": "a", "sort": "x"}')
    with pytest.raises(DataError, match="b.jsonl has other columns than a.jsonl: kind, sort"):
        load_source("jsonl", args, tmp_path, SplitSection())


def test_files_without_rows_do_not_move_the_places_of_others(tmp_path: Path) -> None:
    for name, values in (("a", [1, 2]), ("b", []), ("c", [3, 4])):
        parquet.write_table(pa.table({"x": pa.array(values, pa.int64())}), tmp_path / f"{name}.parquet")
    table = ParquetTexts(path="*.parquet", text="x")
    cells = Reading(table, table.files(tmp_path)).cells()
    assert [cells.where(row) for row in range(4)] == [
        "a.parquet row 1", "a.parquet row 2", "c.parquet row 1", "c.parquet row 2",
    ]  # fmt: skip
