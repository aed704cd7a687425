"""The file that a sentence names, and the tables of a folder."""

from __future__ import annotations

import gzip
from pathlib import Path

import pytest

from trainwright.tools.training_architect.intent import with_intent
from trainwright.tools.training_architect.request import read_request
from trainwright.trainer.base.errors import ConfigurationError


def test_the_file_that_a_sentence_names_is_the_data(tmp_path):
    for name in ("ETTh1.csv", "other.csv", "pictures/a.png"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).touch()
    for sentence, path in (
        ("Forecast OT from ETTh1.csv, MAE at most 2.", "ETTh1.csv"),
        ("sort pictures/ by kind", "pictures"),
        ("join ETTh1.csv and other.csv", None),
        ("Forecast OT from ETTh1.csv, then add other.csv and make a second version", "ETTh1.csv"),
        ("read missing.csv, of v2.csv.old, ../ETTh1.csv and/or nothing", None),
        (f"predict {'a' * 300}.csv, or {'b' * 5000}/", None),
    ):
        request, noted = with_intent(read_request(intent=sentence).located(tmp_path))
        assert (request.data or {}).get("args", {}).get("path") == path, sentence
        assert [one for one in noted if one.startswith("data")] == (
            [f"data {path!r} was read from the intent"] if path else []
        )
        assert any(one.startswith("after the release: 'then add other.csv") for one in noted) == ("then" in sentence)
    assert read_request(intent="", model=f"a/{'b' * 300}").located(tmp_path).model


@pytest.mark.parametrize(
    ("files", "data", "said"),
    [
        ({"a.csv": "x,y"}, {"args": {"path": "shop/a.csv"}}, "the table of the folder is 'a.csv'"),
        (
            {"a.csv": "x,y", "b.csv": "x,y\r", "README.md": ""},
            {"args": {"path": "shop/*.csv"}},
            "are read as one table",
        ),
        ({"a.csv": "\ufeffx,y", "b.csv": "x,y"}, {"args": {"path": "shop/*.csv"}}, "are read as one table"),
        ({"a.csv.gz": "x,y", "b.csv.gz": "x,y"}, {"args": {"path": "shop/*.csv.gz"}}, "are read as one table"),
        (
            {"train.csv": "x,y", "test.csv": "x,y"},
            {"args": {"path": ["shop/train.csv", "shop/test.csv"]}, "split": {"by": "given"}},
            "as the files' names say: train.csv is train, test.csv is test",
        ),
        ({"crash_test_1.csv": "x", "crash_test_2.csv": "x"}, {"args": {"path": "shop/*.csv"}}, "the 2 files"),
    ],
)
def test_a_folder_of_tables_is_read_as_the_tables_it_holds(tmp_path, files, data, said):
    _laid(tmp_path / "shop", files)
    request = read_request(intent="who buys again", data="shop/").located(tmp_path)
    assert request.data == {"use": "csv", **data}
    assert any(said in one for one in with_intent(request)[1])


def test_a_folder_of_texts_is_read_as_texts_and_no_pictures(tmp_path):
    _laid(tmp_path / "wiki", {"train.txt": "a", "valid.txt": "b", "README": "", "LICENSE.txt": ""})
    request = read_request(intent="a word language model", data="wiki").located(tmp_path)
    assert request.data == {"use": "text", "args": {"path": ["wiki/train.txt", "wiki/valid.txt"]}}
    said = "the 2 texts of 'wiki' are read as one; train.txt, valid.txt are named for a split, and are split anew"
    assert said in with_intent(request)[1]
    (tmp_path / "wiki" / "LICENSE.txt").unlink()
    assert read_request(intent="a model", data="wiki").located(tmp_path).data["args"] == {"path": ["wiki/*.txt"]}
    _laid(tmp_path / "notes", {"readme.txt": "", "a.png": ""})
    assert read_request(intent="sort", data="notes").located(tmp_path).data["use"] == "images"


@pytest.mark.parametrize(
    ("files", "message", "remedy"),
    [
        (
            {"a.csv": "x,y", "b.csv": "x,z", "c.parquet": ""},
            r"3 tables .*\(a.csv, b.csv, c.parquet\)",
            "for each prediction",
        ),
        ({"a.csv": "x,y", "b.csv.gz": "x,z"}, "2 tables of other columns", "a row for each prediction"),
        (
            {"train.csv": "x,y", "test.csv": "x,y", "more.csv": "x,y"},
            r"named for a split \(train.csv, test.csv\) and others \(more.csv\)",
            "data='shop/*.csv'",
        ),
    ],
)
def test_a_folder_of_tables_that_are_not_one_is_refused(tmp_path, files, message, remedy):
    _laid(tmp_path / "shop", files)
    with pytest.raises(ConfigurationError, match=message) as refused:
        read_request(intent="who buys again", data="shop/").located(tmp_path)
    assert remedy in refused.value.remedy


def test_a_split_that_the_call_names_stays_beside_files_that_are_named_for_one(tmp_path):
    _laid(tmp_path / "shop", {"train.csv": "x,y", "test.csv": "x,y"})
    own = {"use": "images", "args": {"path": "shop"}, "split": {"by": "group", "group": "x"}}
    data = read_request(intent="who buys again", data=own).located(tmp_path).data
    assert data == {"use": "csv", "args": {"path": ["shop/train.csv", "shop/test.csv"]}, "split": own["split"]}


@pytest.mark.parametrize(
    ("files", "data"),
    [
        (
            {"data-0.arrow": "", "state.json": "{}", "dataset_info.json": "{}"},
            {"use": "arrow", "args": {"path": "shop/"}},
        ),
        ({"cars.json": ' [{"x": 1}]'}, {"use": "jsonl", "args": {"path": "shop/cars.json"}}),
        (
            {"rows.csv": "x,y", "meta.json": '{"from": "a laboratory"}'},
            {"use": "csv", "args": {"path": "shop/rows.csv"}},
        ),
    ],
    ids=["save_to_disk", "a list of rows", "a table with settings"],
)
def test_of_json_a_list_is_a_table_and_an_object_lies_beside_it(tmp_path, files, data):
    _laid(tmp_path / "shop", files)
    assert read_request(intent="who buys again", data="shop/").located(tmp_path).data == data


def test_a_folder_of_pictures_beside_a_table_is_one_of_pictures(tmp_path):
    _laid(tmp_path / "shop", {"cat/a.png": "", "labels.csv": "x,y"})
    data = read_request(intent="who buys again", data="shop/").located(tmp_path).data
    assert data == {"use": "images", "args": {"path": "shop/"}}


def _laid(folder: Path, files: dict[str, str]) -> None:
    for name, text in files.items():
        (folder / name).parent.mkdir(exist_ok=True, parents=True)
        with gzip.open(folder / name, "wt") if name.endswith(".gz") else (folder / name).open("w") as file:
            file.write(f"{text}\n")
