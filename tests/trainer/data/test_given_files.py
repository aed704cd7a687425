"""Splits that come as files or folders named train, validation and test."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from trainwright.trainer.assembly.build import build_data
from trainwright.trainer.base.errors import ConfigurationError, DataError
from trainwright.trainer.config import parse_config
from trainwright.trainer.data.sources import scan_source
from trainwright.trainer.data.split_methods.given import split_named

pytestmark = pytest.mark.requirement("TRAIN-1", "PIPE-2")
SIZES = {"train": 30, "validation": 8, "test": 12}


def splits_of(root: Path, use: str, args: dict[str, Any], **split: Any) -> Any:
    data = {"use": use, "args": args, "split": {"by": "given", **split}}
    return build_data(parse_config({"model": {"use": "mlp"}, "data": data}), root)


def sizes_of(splits: Any) -> dict[str, int]:
    return {name: len(part) for name, part in splits.samples.items()}


def write_tables(root: Path, names: dict[str, str]) -> None:
    first = 0
    for split, name in names.items():
        rows = range(first, first + SIZES[split])
        first += SIZES[split]
        file = root / name
        file.parent.mkdir(parents=True, exist_ok=True)
        if name.endswith(".csv"):
            file.write_text("width,kind\n" + "".join(f"{row},k{row % 2}\n" for row in rows))
        else:
            file.write_text("".join(json.dumps({"note": f"text {row}", "kind": f"k{row % 2}"}) + "\n" for row in rows))


@pytest.mark.parametrize(
    ("name", "split"),
    [
        ("train.csv", "train"),
        ("data/churn_VAL.csv.gz", "validation"),
        ("test/part-0.parquet", "test"),
        ("train-00000-of-00002.parquet", "train"),
        ("test/train.csv", "train"),
        ("train_test.csv", None),
        ("contest.csv", None),
    ],
)
def test_a_path_names_its_split_by_a_word_of_its_last_part_that_has_one(name: str, split: str | None) -> None:
    assert split_named(name) == split


@pytest.mark.parametrize(
    "path", [["train.csv", "validation.csv", "test.csv"], "*.csv", ["test.csv", "validation.csv", "train.csv"]]
)
def test_rows_of_a_table_are_in_the_split_that_their_file_is_named_for(tmp_path: Path, path: Any) -> None:
    write_tables(tmp_path, {name: f"{name}.csv" for name in SIZES})
    args = {"path": path, "target": "kind"}
    splits = splits_of(tmp_path, "csv", args)
    assert sizes_of(splits) == SIZES
    frame: Any = scan_source("csv", args, tmp_path)
    widths = frame.collect()["width"].cast(float).to_list()
    ends = {"train": (0, 29), "validation": (30, 37), "test": (38, 49)}
    for name, part in splits.samples.items():
        inside = [widths[row] for row in part.rows.tolist()]
        assert (min(inside), max(inside)) == ends[name], "validation sees the rows in the same order"


def test_texts_in_several_files_are_one_table_and_keep_their_files_splits(tmp_path: Path) -> None:
    write_tables(tmp_path, {name: f"{name}/rows.jsonl" for name in SIZES})
    args = {"path": [f"{name}/rows.jsonl" for name in SIZES], "text": "note", "target": "kind", "tokenizer": "bytes"}
    splits = splits_of(tmp_path, "jsonl", args)
    assert sizes_of(splits) == SIZES
    assert len(splits.files) == 3
    with (tmp_path / "test" / "rows.jsonl").open("a") as file:
        file.write('{"note": "", "kind": "k0"}\n')
    with pytest.raises(DataError, match=r"rows\.jsonl line 13"):
        splits_of(tmp_path, "jsonl", args)


def test_without_a_file_for_validation_its_share_is_drawn_from_train(tmp_path: Path) -> None:
    write_tables(tmp_path, {name: f"{name}.csv" for name in ("train", "test")})
    args = {"path": ["train.csv", "test.csv"], "target": "kind"}
    splits = splits_of(tmp_path, "csv", args, validation=0.2)
    assert sizes_of(splits) == {"train": 24, "validation": 6, "test": 12}
    assert max(splits.samples["validation"].rows.tolist()) < 30


def test_files_whose_names_say_no_split_are_named(tmp_path: Path) -> None:
    write_tables(tmp_path, {"train": "train.csv", "test": "rows.csv"})
    with pytest.raises(DataError, match=r"and rows\.csv names not one of train") as refused:
        splits_of(tmp_path, "csv", {"path": ["train.csv", "rows.csv"], "target": "kind"})
    assert "data.split.column" in refused.value.remedy
    with pytest.raises(DataError, match="needs files, or folders of pictures, that are named train"):
        splits_of(tmp_path, "iris", {})


def test_a_column_of_another_way_to_split_is_still_required(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match=r"needs the column, data\.split\.group"):
        splits_of(tmp_path, "csv", {"path": "a.csv", "target": "y"}, by="group")
