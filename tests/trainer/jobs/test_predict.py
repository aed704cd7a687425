"""predict.py, assembled and run on small programs: what people have in, the answer in their terms out."""

from __future__ import annotations

import csv
import io
import json
import os
import re
import subprocess
import sys
from collections.abc import Callable, Sequence
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
import torch
from onnx import TensorProto, helper
from PIL import Image

from trainwright.trainer.base.errors import IntegrityError
from trainwright.trainer.data.table.schema import Column, TableSchema
from trainwright.trainer.data.tensors import TensorSamples
from trainwright.trainer.jobs.export.predict import _add_ranges, predict_text, use_lines
from trainwright.trainer.jobs.export.proof import answered, beyond_training, wrong_answer
from trainwright.trainer.prediction.assembly import ANSWERS, INPUTS, assembled
from trainwright.trainer.prediction.prompts import write_on

pytestmark = pytest.mark.requirement("CKPT-5", "PIPE-1")

Ran = Callable[..., subprocess.CompletedProcess[str]]
COLUMNS = TableSchema(
    [
        Column("age", "number", "as written"),
        Column("plan", "category", "as written", values={"basic": 0, "family": 1}),
        Column("since", "date", "as written", format="day.month.year"),
    ],
    [Column("left", "category", "the target")],
    {"delimiter": ";", "encoding": "utf-8-sig"},
    takes_missing=True,
).shipped({"plan": {0, 1}})
COLUMNS["columns"][0]["range"], COLUMNS["columns"][2]["range"] = [18.0, 80.0], [19000.0, 19300.0]
TABLE = {"kind": "table", **COLUMNS, "answer": {"kind": "classes", "target": "left", "classes": ["no", "yes"]}}
NUMBERS = {"kind": "numbers", "target": "price", "names": None}
NEEDS = "numpy onnxruntime"
ROW = {"age": 41, "plan": "family", "since": "05.03.2022"}


def sums(weights: Any, kind: int = TensorProto.FLOAT, shape: Sequence[Any] = ("rows", "any")) -> Any:
    """Return a program that multiplies its input, flattened and without holes, by weights (inputs, outputs)."""
    wide = np.asarray(weights, dtype=np.float32)
    given = helper.make_tensor_value_info("input", kind, list(shape))
    made = helper.make_tensor_value_info("output", TensorProto.FLOAT, ["rows", wide.shape[1]])
    steps = [
        helper.make_node("Cast", ["input"], ["real"], to=TensorProto.FLOAT),
        helper.make_node("Flatten", ["real"], ["flat"]),
        helper.make_node("MatMul", ["flat", "weights"], ["output"]),
    ]
    graph = helper.make_graph(steps, "g", [given], [made], [onnx.numpy_helper.from_array(wide, "weights")])
    return helper.make_model(graph, ir_version=10, opset_imports=[helper.make_opsetid("", 17)])


def released(folder: Path, schema: dict[str, Any], program: Any) -> Path:
    """Write a folder with predict.py, its schema and a program."""
    folder.mkdir(exist_ok=True)
    schema = {"program": {"file": "model.onnx", "inputs": ["input"]}, "needs": "numpy onnxruntime", **schema}
    (folder / "schema.json").write_text(json.dumps(schema))
    (folder / "predict.py").write_text(predict_text(schema))
    onnx.save(program, folder / "model.onnx")
    return folder


def run(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run predict.py as whoever has the folder does, away from this project."""
    command = [sys.executable, "-I", "-B", "predict.py", *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False, cwd=folder)


def used(folder: Path, line: str) -> subprocess.CompletedProcess[str]:
    """Run a line of use in the folder, as a shell does."""
    settings = {key: value for key, value in os.environ.items() if key != "PYTHONSAFEPATH"}
    command = ["bash", "-c", line.replace("python", sys.executable, 1)]
    return subprocess.run(command, cwd=folder, env=settings, capture_output=True, text=True, check=False)


def answers(done: subprocess.CompletedProcess[str]) -> list[dict[str, Any]]:
    """Return the JSON lines that it printed."""
    assert done.returncode == 0, done.stderr
    return [json.loads(line) for line in done.stdout.splitlines()]


@pytest.fixture(scope="module")
def table(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model of a table: yes with the age, no with the plan."""
    return released(tmp_path_factory.mktemp("table"), TABLE, sums([[0, 0.1], [2, 0], [0, 0]]))


def test_rows_of_any_delimiter_are_answered_with_label_and_probability(table: Path, tmp_path: Path) -> None:
    for mark in ";,\t|":
        (tmp_path / "rows.csv").write_text(
            mark.join(["id", *ROW]) + "\n" + mark.join(["a7", *map(str, ROW.values())]) + "\n"
        )
        done = run(table, str(tmp_path / "rows.csv"))
        assert done.stderr == ""
        (line,) = csv.DictReader(io.StringIO(done.stdout))
        assert (line["row"], line["id"], line["predicted_left"]) == ("1", "a7", "yes")
        assert float(line["probability_of_yes"]) == pytest.approx(1 / (1 + np.exp(2 - 4.1)), abs=1e-5)
    told = answers(run(table, "--json", json.dumps(ROW), json.dumps(ROW | {"age": 18})))
    assert [one["answer"]["label"] for one in told] == ["yes", "no"]
    assert sum(told[0]["answer"]["scores"].values()) == pytest.approx(1)


def test_values_that_training_did_not_meet_are_answered_with_a_note(table: Path) -> None:
    odd = {"age": 400, "plan": "gold", "since": "01.01.2001"}
    (told,) = answers(run(table, "--json", json.dumps(odd)))
    assert told["notes"] == [
        "age: 400 is beyond the training data (18 to 80)",
        "plan: 'gold' is not in the training data",
        "since: 01.01.2001 is beyond the training data (2022-01-08 to 2022-11-04)",
    ]
    (line,) = csv.DictReader(io.StringIO(run(table, json.dumps(odd)).stdout))
    assert line["note"] == "; ".join(told["notes"])


def test_a_category_in_other_capitals_is_read_as_the_one_of_training_and_noted(table: Path) -> None:
    plain, capital = (answers(run(table, "--json", json.dumps(ROW | {"plan": plan}))) for plan in ("basic", "BASIC"))
    assert capital[0]["answer"] == plain[0]["answer"]
    assert capital[0]["notes"] == ["plan: 'BASIC' was read as 'basic'"]


WRONG = {
    "a column that is missing": (
        "age;plan\n41;basic\n",
        "no row has the column 'since'",
        "the columns age, plan, since",
    ),
    "another kind": (
        "age;plan;since\nold;basic;01.02.2022\n",
        "row 1, column 'age': 'old' is no finite number",
        "Correct it",
    ),
    "a short line": ("age;plan;since\n41;basic\n", "line 2 has 2 cells, the header has 3", "Correct it"),
    "no rows": ("age;plan;since\n", "rows.csv: there is nothing to predict", "a file of rows"),
    "another encoding": ("caf\xe9;plan\n".encode("cp1252"), "no text in utf-8", "UTF-8"),
    "no file": (None, "No such file", "Name a file of rows"),
}


@pytest.mark.parametrize("fault", WRONG)
def test_wrong_rows_get_value_rule_and_remedy(fault: str, table: Path, tmp_path: Path) -> None:
    content, told, remedy = WRONG[fault]
    path = tmp_path / "rows.csv"
    if content is not None:
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
    done = run(table, str(path))
    assert done.returncode == 2
    assert told in done.stderr
    assert remedy in done.stderr
    assert "Traceback" not in done.stderr


def test_the_help_names_what_is_given_and_needed(table: Path) -> None:
    done = run(table, "--help")
    assert "Predictions of left from raw inputs" in done.stdout
    assert "CSV with any delimiter" in done.stdout
    assert "numpy onnxruntime" in done.stdout


def test_numbers_come_by_name_and_outputs_are_written_where_asked(tmp_path: Path) -> None:
    several = TABLE | {"answer": NUMBERS | {"names": ["price", "visits"]}}
    folder = released(tmp_path / "m", several, sums([[1, 0], [0, 1], [0, 0]]))
    done = run(folder, "--outputs", "o.npy", "--inputs", "i.npz", json.dumps(ROW))
    assert done.stdout.splitlines()[1] == "1,41.0,1.0,"
    assert done.stdout.startswith("row,predicted_price,predicted_visits")
    assert np.load(folder / "o.npy").tolist() == [[41.0, 1.0]]
    assert np.load(folder / "i.npz")["input"].shape == (1, 3)


def test_pictures_and_folders_of_them_get_masks_in_their_own_size(tmp_path: Path) -> None:
    schema = {
        "kind": "picture", "pictures": {"size": [2, 2], "channels": 1},
        "answer": {
            "kind": "mask", "target": "class", "classes": ["dark", "light"], "codes": [0, 0xFF0000], "of_colors": True,
        },
    }  # fmt: skip
    program = sums(np.eye(4), TensorProto.UINT8, ["rows", 1, 2, 2])
    graph = program.graph
    graph.node[2].output[0] = "moved"
    for name, value in (("shape", [-1, 1, 2, 2]), ("half", np.float32(-128))):
        graph.initializer.append(onnx.numpy_helper.from_array(np.array(value), name))
    graph.node.append(helper.make_node("Add", ["moved", "half"], ["centred"]))
    graph.node.append(helper.make_node("Reshape", ["centred", "shape"], ["output"]))
    graph.output[0].CopyFrom(helper.make_tensor_value_info("output", TensorProto.FLOAT, ["rows", 1, 2, 2]))
    folder = released(tmp_path / "m", schema, program)
    (tmp_path / "photos").mkdir()
    halves = np.repeat(np.array([[20, 240]], dtype=np.uint8), 6, axis=0).repeat(4, axis=1)
    Image.fromarray(halves).save(tmp_path / "photos" / "a.png")
    (told,) = answers(run(folder, "--json", "--out", str(tmp_path / "out"), str(tmp_path / "photos")))
    mask = np.asarray(Image.open(told["answer"]["mask"]))
    assert mask.shape == (6, 8, 3)
    assert (mask[:, 4:] == [255, 0, 0]).all()
    assert not mask[:, :4].any()
    assert told["answer"]["shares"] == {"dark": 0.5, "light": 0.5}
    (tmp_path / "torn.png").write_bytes(b"\x89PNG")
    assert "no picture of a known format" in run(folder, str(tmp_path / "torn.png")).stderr


def test_labels_of_arrays_are_those_likelier_than_not(tmp_path: Path) -> None:
    schema = {
        "kind": "array", "arrays": {"input": {"shape": [2], "dtype": "float32", "range": [-1.0, 1.0]}},
        "answer": {"kind": "labels", "target": "tags", "classes": ["big", "odd"]},
    }  # fmt: skip
    folder = released(tmp_path / "m", schema, sums(np.eye(2), shape=["rows", 2]))
    np.save(folder / "x.npy", np.array([[1.0, -1.0], [5.0, 0.5]]))
    told = answers(run(folder, "--json", "x.npy"))
    assert [one["answer"]["labels"] for one in told] == [["big"], ["big", "odd"]]
    assert told[1]["notes"] == ["input: 0.5 to 5 is beyond the training data (-1 to 1)"]
    assert answers(run(folder, "--json", "[[1.0, -1.0], [5.0, 0.5]]")) == told
    assert answers(run(folder, "--json", '{"input": [1, -1]}'))[0]["answer"] == told[0]["answer"]
    assert "[1, [2]]: setting an array element" in run(folder, "[1, [2]]").stderr
    np.save(folder / "y.npy", np.zeros((2, 3)))
    assert "a sample of input has the shape (3,)" in run(folder, "y.npy").stderr


@pytest.mark.parametrize("given", ["a fine day", "texts.csv", "texts.txt"])
def test_texts_are_read_as_they_are_or_from_a_file(given: str, tmp_path: Path) -> None:
    text = {"column": "text", "max_length": 6, "padding": 0, "tokenizer": {"name": "bytes"}}
    schema = {"kind": "text", "text": text, "answer": TABLE["answer"]}
    folder = released(tmp_path / "m", schema, sums(np.array([[0, 0], [0, 0.01]] + [[0, 0]] * 4), TensorProto.INT64))
    (folder / "texts.csv").write_text("id;text\n3;a fine day\n")
    (folder / "texts.txt").write_text("a fine day\n")
    (told,) = answers(run(folder, "--json", given))
    assert told["answer"]["probability"] == pytest.approx(1 / (1 + np.exp(-0.97)), abs=1e-6)
    assert told["input"]["text"] == "a fine day"
    assert told["notes"] == ["text: cut after 6 tokens"]
    assert run(folder, " ").returncode == 2


def test_writing_ends_with_the_document_the_most_tokens_or_a_stop() -> None:
    assert write_on(len, [7], {3}, 9) == ([1, 2], "document")
    assert write_on(len, [7], {30}, 2) == ([1, 2], "most_tokens")
    assert write_on(len, [7], {30}, 9, lambda w: "stop" if 2 in w else None) == ([1, 2], "stop")


def test_every_assembly_is_one_file_without_a_name_twice_and_imports_nothing_of_ours() -> None:
    for given, answer in product(INPUTS, ANSWERS):
        text = assembled(given, answer, "About")
        names = re.findall(r"^(?:def|class) (\w+)", text, re.MULTILINE)
        assert len(names) == len(set(names)) > 5, (given, answer)
        assert re.search(r"^\s*(from|import) trainwright", text, re.MULTILINE) is None
    for given, answer in [*product(INPUTS, ["classes"]), *product(["table"], ANSWERS)]:
        compile(assembled(given, answer, "About"), given, "exec")


@pytest.mark.parametrize("kind", ["table", "series", "array"])
def test_the_lines_of_use_run_as_they_stand(kind: str, tmp_path: Path) -> None:
    answer = {"series": {"kind": "forecast", "target": "x"}}.get(kind, NUMBERS)
    schema = {
        "kind": kind, **COLUMNS, "targets": ["x"], "answer": answer,
        "arrays": {"input": {"shape": [3], "dtype": "float32"}},
        "series": {
            "window": 1, "horizon": 1, "time": "since", "group": None, "dates": COLUMNS["columns"][2],
            "every": {"length": 86400.0, "unit": "second", "words": "day"},
        },
    }  # fmt: skip
    folder = released(tmp_path / "m", schema, sums([[1], [1], [0]], shape=["rows", *([1] * (kind == "series")), 3]))
    for line in use_lines(schema):
        done = used(folder, line)
        assert done.returncode == 0, (line, done.stderr)
    assert done.stdout.startswith("[{'input': {")


def test_examples_are_medians_which_are_values_that_occur() -> None:
    columns = [{"name": name, "kind": "number", "width": 1} for name in ("class", "fare")]
    rows = torch.tensor([[1.0, 7.25], [3.0, 8.05], [3.0, 512.33], [2.0, torch.nan], [3.0, 26.0]])
    _add_ranges(columns, TensorSamples(rows, torch.zeros(5)))
    assert [(one["median"], one["range"]) for one in columns] == [
        (3.0, [1.0, 3.0]),
        (8.05, [7.25, pytest.approx(512.33)]),
    ]
    schema = {"kind": "table", "columns": columns}
    command, in_python = use_lines(schema)
    assert command == 'python predict.py --json \'{"class": 3.0, "fare": 8.05}\''
    assert "predict({" in in_python


def test_values_that_training_never_met_are_counted_by_column(table: Path, tmp_path: Path) -> None:
    odd = {**ROW, "age": 99, "plan": "gold"}
    told = answered(table, [json.dumps(odd)], tmp_path, NEEDS)
    assert beyond_training([*told.notes, [], *told.notes]) == {"age": 2, "plan": 2}


def test_the_proof_sees_other_answers_and_a_script_that_fails(table: Path, tmp_path: Path) -> None:
    told = answered(table, [json.dumps(ROW)], tmp_path, NEEDS)
    outputs = torch.tensor([[2.0, 4.1]])
    assert torch.allclose(told.outputs, outputs)
    meaning = TABLE["answer"] | {"are_probabilities": False}
    assert wrong_answer(meaning, outputs, told.answers) == ""
    assert "'yes' (0.8909) for 'no'" in wrong_answer(meaning, outputs.flip(1), told.answers)
    assert wrong_answer(meaning, outputs.repeat(2, 1), told.answers) == "1 answers to 2 inputs"
    assert wrong_answer(NUMBERS, torch.tensor([[3.0]]), [{"value": 3.1}]).startswith("input 1: 3.1 for")
    labels = {"kind": "labels", "classes": ["a"]}
    assert "'a' has another" in wrong_answer(labels, torch.tensor([[0.0]]), [{"probabilities": {"a": 0.9}}])
    assert wrong_answer({"kind": "forecast"}, torch.tensor([[1.0, 2.0]]), [{"forecast": [{"s": 1}, {"s": 2}]}]) == ""
    with pytest.raises(IntegrityError, match="No such file"):
        answered(table, ["absent.csv"], tmp_path, NEEDS)
