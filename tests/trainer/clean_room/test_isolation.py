"""The clean room takes nothing but its order: no environment, no working folder, no file that is another."""

from __future__ import annotations

import ast
import hashlib
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from trainwright.trainer import clean_room

pytestmark = pytest.mark.requirement("GATE-6")

LIES = "import sys\nprint('a lie')\nsys.stderr.write('LIES')\nraise SystemExit(3)\n"


def test_it_answers_with_the_numbers_of_the_program_on_the_rows(room: Any) -> None:
    answer = room.answer()
    found = answer["splits"]["validation"]
    assert (found["size"], found["rows"], found["not_computed"]) == (90, 90, {})
    assert found["metrics"]["accuracy"] == np.mean(room.logits.argmax(1) == room.targets)
    assert set(answer["versions"]) == {"python", "numpy", "onnxruntime"}


def test_environment_and_working_folder_have_no_effect(room: Any, tmp_path: Path) -> None:
    honest, there = room.answer()["splits"], tmp_path / "there"
    there.mkdir()
    for name in ("sitecustomize", "usercustomize", "numpy", "onnxruntime", "trainwright", "json", "clean_room", "rows"):
        (there / f"{name}.py").write_text(LIES)
    variables = ("PYTHONPATH", "PYTHONHOME", "PYTHONUSERBASE", "PYTHONPYCACHEPREFIX")
    answer = room.answer(cwd=there, **dict.fromkeys(variables, str(there)), PYTHONSTARTUP=str(there / "numpy.py"))
    assert answer["splits"] == honest


def test_its_files_import_each_other_and_three_libraries_alone() -> None:
    allowed = {*sys.stdlib_module_names, "numpy", "onnxruntime", "torch"}
    for path in Path(clean_room.__file__).parent.glob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.ImportFrom):
                names = [] if node.level == 1 else [node.module or "above"]
            else:
                names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            assert {name.partition(".")[0] for name in names} <= allowed, path.name


def test_a_process_that_is_not_isolated_evaluates_nothing(room: Any) -> None:
    entry = Path(clean_room.__file__).parent / "__main__.py"
    process = subprocess.run([sys.executable, str(entry)], input="{}", capture_output=True, text=True, check=False)
    assert "not isolated" in process.stdout


@pytest.mark.parametrize("damaged", ["rows/input.npy", "rows/target.npy", "model.onnx"])
def test_a_file_that_is_not_the_recorded_one_is_refused(damaged: str, room: Any) -> None:
    path = room.folder / damaged
    content = bytearray(path.read_bytes())
    content[-1] ^= 1
    path.write_bytes(content)
    answer = room.answer()
    assert "is not the file that was recorded" in answer["problem"]
    assert Path(damaged).name in answer["problem"]
    assert answer["remedy"]


def test_a_pickled_array_is_refused_unread(room: Any) -> None:
    class Trap:
        def __reduce__(self) -> Any:
            return os.system, ("touch sprung",)

    np.save(room.folder / "rows" / "input.npy", np.array([Trap()] * 90, dtype=object), allow_pickle=True)
    record = room.order["rows"]["record"]["splits"]["validation"]["inputs"]["input"]
    content = (room.folder / "rows" / "input.npy").read_bytes()
    record |= {"digest": hashlib.sha256(content).hexdigest(), "dtype": "object", "shape": [90]}
    assert "no plain .npy array" in room.answer(cwd=room.folder)["problem"]
    assert not (room.folder / "sprung").exists()


@pytest.mark.parametrize("way", ["rows/../../secret.npy", "ABSOLUTE", "rows/link.npy"])
def test_a_path_out_of_the_folder_is_refused(way: str, room: Any, tmp_path_factory: pytest.TempPathFactory) -> None:
    secret = room.folder.parent / "secret.npy"
    np.save(secret, room.inputs)
    (room.folder / "rows" / "link.npy").symlink_to(secret)
    name = str(secret) if way == "ABSOLUTE" else way
    record = room.order["rows"]["record"]["splits"]["validation"]["inputs"]["input"]
    record |= {"path": name, "digest": hashlib.sha256(secret.read_bytes()).hexdigest()}
    assert "lies outside the folder" in room.answer()["problem"]


@pytest.mark.parametrize(
    ("key", "value", "told"),
    [
        ("program", {"path": "nowhere.onnx", "form": "onnx", "digest": ""}, "no program nowhere.onnx"),
        ("splits", ["test"], "No rows of the test split"),
        ("libraries", [], "numpy"),
        (
            "rows",
            {"folder": ".", "record": {"problem": "Rows are objects.", "remedy": "Use arrays."}},
            "Rows are objects.",
        ),
        ("rows", None, "TypeError"),
    ],
)
def test_what_cannot_be_evaluated_is_answered_with_problem_and_remedy(
    key: str, value: Any, told: str, room: Any
) -> None:
    room.order[key] = value
    answer = room.answer()
    assert told in answer["problem"]
    assert answer["remedy"]


def test_an_order_that_is_no_json_is_answered_with_a_problem() -> None:
    entry = Path(clean_room.__file__).parent / "__main__.py"
    command = [sys.executable, "-I", "-S", "-B", str(entry)]
    process = subprocess.run(command, input="no order", capture_output=True, text=True, check=False)
    assert set(json.loads(process.stdout)) == {"problem", "remedy"}
    assert process.stderr == ""


def test_a_program_that_is_none_or_fails_on_the_rows_is_answered_with_a_problem(room: Any) -> None:
    good = room.order["program"]
    room.order["program"] = room.written("none.onnx", b"no program")
    assert "cannot load none.onnx" in room.answer()["problem"]
    room.order["program"] = good
    room.fix(np.zeros((90, 5), np.float32), room.targets)
    assert "fails on the stored rows" in room.answer()["problem"]


def test_weights_outside_the_programs_file_are_not_read(room: Any) -> None:
    import onnx

    model = onnx.load(room.folder / "model.onnx")
    onnx.save(model, room.folder / "big.onnx", save_as_external_data=True, location="big.data", size_threshold=0)
    content = (room.folder / "big.onnx").read_bytes()
    room.order["program"] = room.written("big.onnx", content)
    assert "problem" in room.answer(cwd=room.folder)
