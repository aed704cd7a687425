"""Tables with names, dates, holes and texts: what each column is taken for, what is fitted, and what is refused."""

from __future__ import annotations

import csv
import json
import subprocess
import sys
from datetime import date, timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
import torch
from pyarrow import feather, parquet
from tests.trainer.data.loading import load

from trainwright.trainer.base.errors import ConfigurationError, DataError
from trainwright.trainer.data.assemble import from_loaded
from trainwright.trainer.data.preprocessing import Table, restored
from trainwright.trainer.data.sections import SplitSection
from trainwright.trainer.data.sources import SOURCES
from trainwright.trainer.data.sources.text_files import find_files
from trainwright.trainer.data.table import transform
from trainwright.trainer.data.table.infer import infer
from trainwright.trainer.evidence.data import data_evidence
from trainwright.trainer.jobs.export.predict import known_categories
from trainwright.trainer.run import RunKind

ROWS = 200
HEADER = ["customer_id", "joined", "seen", "plan", "age", "fee", "premium", "note", "left"]


def rows(count: int = ROWS) -> list[list[str]]:
    draw = np.random.default_rng(0)
    found = []
    for n in range(count):
        day = date(2020, 1, 1) + timedelta(int(draw.integers(0, 900)))
        plan = "gold" if n == 0 else str(draw.choice(["basic", "plus", "Größe"]))
        note = ["the bill was wrong again", "all fine so far", "cannot log in today"][int(draw.integers(0, 3))]
        cells = [f"C{n:05d}", f"{day}", f"{day:%d.%m.%Y} {n % 24:02d}:30", plan, str(n % 60), f"{n * 0.5}"]
        cells += ["yes" if n % 3 else "no", note, "ab"[n % 2]]
        for hole, every in ((1, 11), (3, 13), (4, 7), (7, 17)):
            cells[hole] = "" if n % every == every - 1 else cells[hole]
        found.append(cells)
    return found


def written(path: Path, table: list[list[str]] | None = None, delimiter: str = ",", encoding: str = "utf-8") -> Path:
    with path.open("w", newline="", encoding=encoding) as file:
        csv.writer(file, delimiter=delimiter).writerows([HEADER, *(rows() if table is None else table)])
    return path


@pytest.mark.requirement("TRAIN-1", "PIPE-2")
def test_the_kind_of_every_column_is_inferred_with_its_reason_and_can_be_said(tmp_path: Path) -> None:
    path = written(tmp_path / "t.csv")
    loaded = load("csv", path, target="left")
    assert loaded.schema.kinds == {
        "customer_id": "ignore", "joined": "date", "seen": "date", "plan": "category", "age": "number", "fee": "number",
        "premium": "boolean", "note": "text",
    }  # fmt: skip
    assert "identifier: 200 of 200" in loaded.schema.columns[0].reason
    numbered = infer("", [str(row) for row in range(200)], named=False)  # the index that pandas and R write
    assert (numbered.kind, infer("", ["1", "1", "2"] * 70, named=False).kind) == ("ignore", "number")
    assert all(column.reason for column in loaded.schema.columns)
    evidence = data_evidence(from_loaded(loaded, SplitSection(), source="csv"), tmp_path)
    assert evidence.columns is not None
    assert evidence.columns[0]["kind"] == "ignore"
    said = load("csv", path, target="left", columns={"age": "category", "note": "ignore"})
    assert said.schema.kinds["age"] == "category"
    assert said.feature_names == ["joined", "seen", "plan", "age", "fee", "premium"]
    assert evidence.understood["inputs"] == "7: joined, seen, plan, age, fee, premium, note"
    other = data_evidence(from_loaded(said, SplitSection(), source="csv"), tmp_path)
    assert other.fingerprint != evidence.fingerprint


@pytest.mark.requirement("REPRO-4", "PIPE-1")
def test_what_is_fitted_comes_from_the_train_split_alone_and_restores_from_its_record(tmp_path: Path) -> None:
    splits = from_loaded(load("csv", written(tmp_path / "t.csv"), target="left"), SplitSection(), source="csv")
    fitted = splits.preprocessing
    assert isinstance(fitted, Table)
    train, held = splits.samples["train"], splits.samples["test"]
    prepared = train.tensors[0]
    assert torch.isfinite(prepared).all()
    assert torch.isfinite(held.tensors[0]).all()
    assert splits.feature_groups is not None
    assert sum(splits.feature_groups) == prepared.shape[1]
    assert prepared.shape[1] > 64
    ages = next(column for column in fitted.columns if column["name"] == "age")
    raw = train.raw.column(0)[:, 4]
    assert ages["fill"] == float(np.nanmedian(raw.numpy()))
    again = restored(json.loads(json.dumps(fitted.record())))
    assert torch.equal(again(held.raw.tensors[0]), held.tensors[0])
    changed = held.raw.tensors[0].clone()
    changed[:, 3] = 99.0  # a category that nobody met
    assert torch.isfinite(again(changed)).all()


@pytest.mark.requirement("PIPE-1", "CKPT-5")
def test_a_calendar_is_right_for_every_day_of_centuries() -> None:
    from trainwright.trainer.data.preprocessing.table import _calendar

    days = torch.arange(-60_000, 90_000, 37, dtype=torch.float32)
    months, weekdays = _calendar(days)
    wanted = [date(1970, 1, 1) + timedelta(int(day)) for day in days.tolist()]
    assert months.tolist() == [day.month - 1 for day in wanted]
    assert weekdays.tolist() == [day.weekday() for day in wanted]


@pytest.mark.requirement("TRAIN-1")
@pytest.mark.parametrize(("delimiter", "encoding"), [(";", "utf-8"), ("\t", "utf-16"), ("|", "cp1252")])
def test_delimiters_are_found_and_encodings_found_or_asked_for(delimiter: str, encoding: str, tmp_path: Path) -> None:
    wanted = load("csv", written(tmp_path / "plain.csv"), target="left")
    table = rows()
    if delimiter == ";":  # as spreadsheets write it where numbers have a decimal comma
        table = [[*cells[:5], cells[5].replace(".", ","), *cells[6:]] for cells in table]
    path = written(tmp_path / "t.csv", table, delimiter, encoding)
    args: dict[str, Any] = {"target": "left"}
    if encoding == "cp1252":
        with pytest.raises(DataError, match=r"t.csv cannot be read as utf-8: line \d+ has the byte .*Größe") as caught:
            load("csv", path, **args)
        args["encoding"] = caught.value.details["changes"]["data.args.encoding"]
    loaded = load("csv", path, **args)
    assert torch.allclose(loaded.samples.base[0], wanted.samples.base[0], equal_nan=True)
    source = SOURCES["csv"].model_validate({"path": "t.csv", **args})
    frame = source.scan(tmp_path)
    assert frame is not None
    assert frame.collect()["plan"][1] == table[1][3]
    known = {column.name: set(column.values.values()) for column in loaded.schema.features}
    schema = loaded.schema.shipped(known)
    served = transform.encode_rows(transform.read_rows(path, schema), schema)
    assert np.array_equal(served, loaded.samples.base[0].numpy(), equal_nan=True)


@pytest.mark.requirement("TRAIN-1")
def test_several_files_and_patterns_are_one_table(tmp_path: Path) -> None:
    table = rows()
    whole = load("csv", written(tmp_path / "whole.csv"), target="left")
    for name, part in (("a", table[:90]), ("b", table[90:])):
        written(tmp_path / f"part-{name}.csv", part)
    for path in ("part-*.csv", ["part-a.csv", "part-b.csv"]):
        loaded = SOURCES["csv"].model_validate({"path": path, "target": "left"}).load(tmp_path, SplitSection())
        assert torch.equal(torch.nan_to_num(loaded.samples.base[0]), torch.nan_to_num(whole.samples.base[0]))
        assert [file.name for file in loaded.files] == ["part-a.csv", "part-b.csv"]
    source = SOURCES["csv"].model_validate({"path": "part-*.csv", "target": "left"})
    assert source.scan(tmp_path).collect().height == ROWS
    (tmp_path / "part-c.csv").write_text("other,left\n1,a\n")
    with pytest.raises(DataError, match=r"part-c.csv has other columns than part-a.csv"):
        source.load(tmp_path, SplitSection())
    (tmp_path / "more").mkdir()
    (tmp_path / "more" / "a.parquet").touch()
    there = {"no*.csv": "code_root there is: more/, part-a", "more/*.csv": "more there is: a.par", "../*": "code_root"}
    for path, lying in there.items():
        with pytest.raises(ConfigurationError, match=f"the pattern matches no file under .*; in {lying}"):
            SOURCES["csv"].model_validate({"path": path, "target": "left"}).load(tmp_path, SplitSection())
    with pytest.raises(ConfigurationError, match="in more there is: a.parquet"):
        find_files("more/*.txt", tmp_path)


@pytest.mark.requirement("TRAIN-1")
def test_typed_files_say_what_text_says(tmp_path: Path) -> None:
    wanted = load("csv", written(tmp_path / "t.csv"), target="left")
    table = pa.Table.from_pylist([dict(zip(HEADER, cells, strict=True)) for cells in rows()])
    typed = table.set_column(
        1, "joined", pa.array([date.fromisoformat(cell) if cell else None for cell in table["joined"].to_pylist()])
    )
    ages = [int(cell) if cell else None for cell in table["age"].to_pylist()]
    typed = typed.set_column(4, "age", pa.array(ages)).set_column(
        6, "premium", pa.array([cell == "yes" for cell in table["premium"].to_pylist()])
    )
    parquet.write_table(typed, tmp_path / "t.parquet")
    feather.write_feather(typed, tmp_path / "t.arrow")
    lines = (json.dumps(row, default=str) + "\n" for row in typed.to_pylist())
    (tmp_path / "t.jsonl").write_text("".join(lines))
    for kind in ("parquet", "arrow", "jsonl"):
        loaded = load(kind, tmp_path / f"t.{kind}", target="left")
        assert torch.equal(torch.nan_to_num(loaded.samples.base[0]), torch.nan_to_num(wanted.samples.base[0])), kind


def spoiled(column: int, cell: str, *places: int) -> list[list[str]]:
    table = rows()
    for place in places:
        table[place][column] = cell
    return table


@pytest.mark.requirement("TRAIN-1", "REPRO-4")
def test_a_row_keeps_its_split_by_hash_whatever_rows_are_added_or_taken_away(tmp_path: Path) -> None:
    table = rows()
    section = SplitSection.model_validate({"by": "hash"})
    found: list[dict[float, str]] = []
    for name, part in (("all.csv", table), ("fewer.csv", table[40:][::-1])):  # categories then appear in another order
        source = SOURCES["csv"].model_validate({"path": written(tmp_path / name, part).name, "target": "left"})
        splits = from_loaded(source.load(tmp_path, section), section, source="csv")
        fees = {split: samples.raw.column(0)[:, 5].tolist() for split, samples in splits.samples.items()}
        found.append({fee: split for split, some in fees.items() for fee in some})
    assert len(found[1]) == ROWS - 40
    assert found[1].items() <= found[0].items()


BAD = {
    "mixed types": (spoiled(4, "old", 5, 9), {}, "line 7, column 'age': 'old' is no finite number .*line 11"),
    "a date that is none": (
        spoiled(1, "soon", 3), {"columns": {"joined": "date"}}, "line 5, column 'joined': 'soon' is no date",
    ),
    "infinite": (spoiled(5, "inf", 4), {}, "line 6, column 'fee': 'inf' is no finite number"),
    "empty targets": (spoiled(8, "", 2, 3), {}, r"line 4: the target 'left' is empty \(2 row"),
    "one class": (spoiled(8, "a", *range(ROWS)), {}, "one class only"),
    "a constant target": (
        spoiled(8, "1.5", *range(ROWS)), {"task": "regression"}, "the target 'left' is constant|The target 'left' is c",
    ),
    "a ragged row": ([*rows()[:4], ["1", "2"], *rows()[4:]], {}, "line 6 has 2 cells, the header has 9"),
    "an unknown column": (rows(), {"columns": {"ages": "number"}}, "no column 'ages'.* Near: age"),
    "nothing but identifiers": (rows(), {"features": ["left2"]}, "no column 'left2'"),
    "only ignored columns": (
        rows(), {"features": ["age"], "columns": {"age": "ignore"}}, "no column to predict 'left' from .*as configured",
    ),
}  # fmt: skip


@pytest.mark.requirement("PIPE-2")
@pytest.mark.parametrize("fault", BAD)
def test_a_bad_cell_is_named_with_its_rows_and_the_next_call(fault: str, tmp_path: Path) -> None:
    table, args, told = BAD[fault]
    with pytest.raises(DataError, match=told) as caught:
        load("csv", written(tmp_path / "t.csv", table), target="left", **args)
    assert caught.value.remedy


@pytest.mark.requirement("PIPE-2")
def test_a_column_without_a_value_is_left_out_and_the_target_has_no_kind(tmp_path: Path) -> None:
    path = written(tmp_path / "t.csv", spoiled(7, "", *range(ROWS)))
    assert "no value in any row" in next(
        column.reason for column in load("csv", path, target="left").schema.columns if column.name == "note"
    )
    with pytest.raises(ConfigurationError, match="names the target"):
        load("csv", path, target="left", columns={"left": "category"})


UNSERVED = {
    "short.csv": ("age,plan\n41,basic\n42\n", "line 3 has 1 cells, the header has 2"),
    "long.csv": ("age,plan\n41,basic\n42,plus,3\n", "line 3 has 3 cells, the header has 2"),
    "twice.csv": ("age,plan,age\n41,basic,42\n", "two columns named 'age'"),
    "semicolon.csv": ("age;plan\n41;basic\n", "no row has the column 'age'; the first row has: age;plan"),
    "bad.csv": ("age,plan\n41,basic\nold,plus\n", "row 2, column 'age': 'old' is no finite number"),
    "torn.jsonl": ('{"age": 41, "plan": "basic"}\n{"age":\n', "line 2 is no JSON"),
    "list.jsonl": ("[41]\n", "row 1 is not an object, but int"),
}


@pytest.mark.requirement("CKPT-5", "PIPE-2")
@pytest.mark.parametrize("name", UNSERVED)
def test_what_is_no_row_is_refused_in_one_sentence(name: str, tmp_path: Path) -> None:
    content, told = UNSERVED[name]
    (tmp_path / "t.csv").write_text("age,plan,left\n" + "".join(f"{n},p{n % 3},{n % 2}\n" for n in range(30)))
    schema = load("csv", tmp_path / "t.csv", target="left").schema.shipped({"plan": {0, 1, 2}})
    (tmp_path / name).write_text(content)
    with pytest.raises(ValueError, match=told):
        transform.encode_rows(transform.read_rows(tmp_path / name, schema), schema)


@pytest.mark.long
@pytest.mark.requirement("CKPT-5", "PIPE-1")
def test_raw_rows_are_predicted_by_the_shipped_files_as_in_training(tmp_path: Path, make_run: Any, work: Any) -> None:
    root = tmp_path / "code"
    root.mkdir()
    path = written(root / "t.csv", spoiled(8, "", 0, 5))
    values = {
        "model": {"use": "mlp", "args": {"hidden": [8]}}, "training": {"epochs": 2},
        "data": {"use": "csv", "args": {"path": "t.csv", "target": "left", "drop_without_target": True}},
    }  # fmt: skip
    source = make_run(tmp_path / "source", values, code_root=str(root))
    assert work(source) == 0, source.log.read_text()
    run = make_run(tmp_path / "export", values, kind=RunKind.EXPORT, source_run=str(source.path), code_root=str(root))
    assert work(run) == 0, run.log.read_text()
    skew = run.evidence("export")["skew"]
    assert skew["passed"]
    assert skew["rows_compared"] == 30
    folder = run.artifacts / "final_model"
    command = [sys.executable, "-P", str(folder / "predict.py"), "--json", str(path)]
    told = subprocess.run(command, capture_output=True, text=True, check=True, cwd=tmp_path).stdout
    answers = [json.loads(line)["answer"] for line in told.splitlines()]
    loaded = load("csv", path, target="left", drop_without_target=True)
    splits = from_loaded(loaded, SplitSection(), source="csv")
    assert len(answers) == ROWS
    assert {one["label"] for one in answers} <= set(splits.class_names)
    schema = json.loads((folder / "schema.json").read_text())
    shipped = json.loads(json.dumps(loaded.schema.shipped(known_categories(splits.preprocessing))))
    measured = {"range": None, "median": None}
    assert [column | measured for column in schema["columns"]] == [column | measured for column in shipped["columns"]]
