"""One table in three kinds of file is the same data; and every way in which such a file can be bad is told."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
import torch
from pyarrow import parquet
from tests.trainer.data.loading import load

from trainwright.trainer.base.errors import DataError
from trainwright.trainer.catalog.names import from_library
from trainwright.trainer.data.assemble import from_loaded
from trainwright.trainer.data.sections import SplitSection
from trainwright.trainer.data.sources import json_lines
from trainwright.trainer.data.sources.cells import Wanted
from trainwright.trainer.data.table import transform

KINDS = ("csv", "jsonl", "parquet", "arrow")
ROWS = [{"width": 0.5 * number, "height": number % 3, "kind": "ab"[number % 2]} for number in range(24)]


@pytest.fixture
def files(tmp_path: Path) -> dict[str, Path]:
    paths = {kind: tmp_path / f"table.{kind}" for kind in KINDS}
    lines = ["width,height,kind", *(",".join(map(str, row.values())) for row in ROWS)]
    paths["csv"].write_text("\n".join(lines))
    paths["jsonl"].write_text("\n".join(json.dumps(row) for row in ROWS) + "\n\n")
    parquet.write_table(pa.Table.from_pylist(ROWS), paths["parquet"])
    paths["arrow"].mkdir()  # as the Hugging Face library's save_to_disk writes it, in two parts
    for number, part in enumerate((ROWS[:10], ROWS[10:])):
        table = pa.Table.from_pylist(part)
        with pa.ipc.new_stream(str(paths["arrow"] / f"data-{number:05}-of-00002.arrow"), table.schema) as writer:
            writer.write_table(table)
    listed = [{"filename": f"data-{number:05}-of-00002.arrow"} for number in (0, 1)]
    (paths["arrow"] / "state.json").write_text(json.dumps({"_data_files": listed, "_split": None}))
    return paths


@pytest.mark.requirement("TRAIN-1", "REPRO-4")
def test_a_table_is_the_same_data_in_any_kind_of_file(files: dict[str, Path]) -> None:
    loaded = {kind: load(kind, path, target="kind") for kind, path in files.items()}
    splits = {kind: from_loaded(table, SplitSection(), source=kind) for kind, table in loaded.items()}
    for kind, table in loaded.items():
        assert table.class_names == ["a", "b"]
        assert table.feature_names == ["width", "height"]
        assert torch.equal(table.samples.tensors[0], loaded["csv"].samples.tensors[0])
        prints = {name: record.fingerprint for name, record in splits[kind].records.items()}
        assert prints == {name: record.fingerprint for name, record in splits["csv"].records.items()}


@pytest.mark.requirement("TRAIN-1", "ARCH-1")
def test_one_list_of_objects_is_the_table_of_the_same_lines(files: dict[str, Path]) -> None:
    lines = [line for line in files["jsonl"].read_text().splitlines() if line]
    listed = files["jsonl"].with_suffix(".json")
    listed.write_text("[\n" + ",\n".join(lines) + "\n]")
    tables = [load("jsonl", path, target="kind") for path in (files["jsonl"], listed)]
    assert torch.equal(tables[0].samples.tensors[0], tables[1].samples.tensors[0])
    assert from_library("data", "cars.json") == {"data.use": "jsonl", "data.args.path": "cars.json"}
    assert [place for place, _ in json_lines.records_of(listed)][:2] == ["row 1", "row 2"]


@pytest.mark.requirement("TRAIN-1")
@pytest.mark.parametrize(
    ("name", "content", "told"),
    [
        ("a.csv", "x,y,x\n1,2,3\n4,5,6\n", "a.csv has two columns named 'x'"),
        ("a.csv", "x,y\n1,2\n1,2,3\n", "a.csv line 3 has 3 cells, the header has 2"),
        ("a.jsonl", '{"x": 1, "y": 2}\n{"x": 1, "y"', "a.jsonl line 2 is no JSON"),
        ("a.jsonl", '{"x": 1, "y": 2}\n[1, 2]', "line 2 is not an object, but list"),
        ("a.jsonl", '{"x": 1, "y": 2}\n{"x": 1, "z": 2}', "line 2: the target 'y' is empty"),
        ("a.jsonl", '{"x": {"z": 1}, "y": 2}\n', "a.jsonl has no column to predict 'y' from"),
        ("a.jsonl", '{"x": 1, "y": ""}\n', "a.jsonl line 1: the target 'y' is empty"),
        ("a.jsonl", "\n\n", "a.jsonl has no row with data"),
        ("a.jsonl", '[{"x": 1, "y": 2}, 3]', "a.jsonl row 2 is not an object, but int"),
        ("a.jsonl", '[{"x": 1, "y": 2}', "a.jsonl is no JSON"),
        ("a.jsonl", b"\xff\xfe", "a.jsonl cannot be read"),
        ("a.parquet", b"PAR1 and no more", "a.parquet cannot be read"),
        ("a.parquet", b"", "a.parquet cannot be read"),
    ],
)
def test_a_bad_file_is_told_with_its_place(name: str, content: Any, told: str, tmp_path: Path) -> None:
    path = tmp_path / name
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    with pytest.raises(DataError, match=told):
        load(path.suffix[1:], path, target="y")


@pytest.mark.requirement("TRAIN-1")
@pytest.mark.parametrize(
    ("late", "told"),
    [
        ({"x": 2.5, "y": "b"}, None),
        ({"x": 10**30, "y": "b"}, None),
        ({"x": None, "y": 7}, None),
        ({"x": True, "y": "b"}, None),
        ({"x": 1, "y": "b", "z": 1}, "line 5002 has keys that none of the first 100 rows has: z"),
        ('{"x": 1, "y": "a"} {"x": 2, "y": "b"}', "line 5002 is no JSON: Extra data"),
    ],
    ids=["fraction", "vast", "number as text", "boolean", "new key", "two objects"],
)
def test_lines_that_arrow_parses_are_the_same_rows_as_those_parsed_one_by_one(
    late: Any, told: str | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(json_lines, "ROWS", 100)
    path, table = tmp_path / "t.jsonl", json_lines.JsonLinesTexts(path="t.jsonl", text="y")
    rows = [{"x": row, "y": f"{'ab'[row % 2]} 2024-01-01" * 30} for row in range(5000)]
    lines = [json.dumps(row) for row in rows]
    one_by_one: list[int] = []
    slow = json_lines._File._line_by_line
    monkeypatch.setattr(json_lines._File, "_line_by_line", lambda *given: one_by_one.append(given[-1]) or slow(*given))

    def read() -> list[Any]:
        return [row for batch in table.read(path, Wanted(["x", "y"])) for row in batch.to_pylist()]

    path.write_text("\n".join(lines))
    assert read() == rows
    assert not one_by_one
    path.write_text("\n".join([*lines, "", json.dumps(late) if isinstance(late, dict) else late]))
    if told is not None:
        with pytest.raises(DataError, match=told):
            read()
        return
    found = [{name: transform.text_of(cell) for name, cell in row.items()} for row in read()]
    assert found == [{name: transform.text_of(cell) for name, cell in row.items()} for row in [*rows, late]]
    assert one_by_one[0] > 1000, "what was parsed before is not parsed again"


@pytest.mark.requirement("TRAIN-1")
def test_a_folder_of_the_hugging_face_library_that_is_damaged_or_holds_several_splits_is_told(
    files: dict[str, Path],
) -> None:
    part = files["arrow"] / "data-00001-of-00002.arrow"
    part.write_bytes(part.read_bytes()[:-200])
    with pytest.raises(DataError, match="table.arrow cannot be read"):
        load("arrow", files["arrow"], target="kind")
    (files["arrow"] / "dataset_dict.json").write_text('{"splits": ["train", "extra"]}')
    (files["arrow"] / "train").mkdir()
    with pytest.raises(DataError, match="holds the splits train, extra") as caught:
        load("arrow", files["arrow"], target="kind")
    assert "table.arrow/train" in caught.value.remedy


@pytest.mark.requirement("TRAIN-1")
def test_a_parquet_file_that_was_cut_short_is_told(files: dict[str, Path]) -> None:
    path = files["parquet"]
    path.write_bytes(path.read_bytes()[:-100])
    with pytest.raises(DataError, match="table.parquet cannot be read"):
        load("parquet", path, target="kind")
