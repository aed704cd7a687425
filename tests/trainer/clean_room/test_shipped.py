"""A stranger evaluates a final model: its folder, the rows, numpy and ONNX Runtime, and nothing of Trainwright."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime
import pytest

from trainwright.trainer.clean_room import shipped

pytestmark = pytest.mark.requirement("GATE-6", "CKPT-5")

SCRIPT = "import sys; from pathlib import Path; sys.path.insert(0, '.'); from evaluation import shipped; "
SCRIPT += "sys.exit(shipped.main(Path.cwd(), sys.argv[1:]))"


@pytest.fixture
def model(room: Any, tmp_path: Path) -> Path:
    """The folder of a final model; its rows lie elsewhere."""
    folder = tmp_path / "final_model"
    shutil.copytree(Path(shipped.__file__).parent, folder / "evaluation", ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(room.folder / "model.onnx", folder)
    certified = {"rows": 90, "accuracy": float(np.mean(room.logits.argmax(1) == room.targets))}
    order = {**room.order, "program": {**room.order["program"], "path": "model.onnx"}, "libraries": []}
    order["rows"] = {"record": order["rows"]["record"]}
    record = {"order": order, "certified": {"validation": certified}, "rows": "../rows"}
    (folder / "evaluation.json").write_text(json.dumps(record))
    return folder


def evaluated(model: Path, libraries: Path, *arguments: str) -> tuple[int, dict[str, Any]]:
    """Run it in an isolated interpreter that finds Python's own library, numpy and ONNX Runtime."""
    script = f"import sys; sys.path.append({str(libraries)!r}); {SCRIPT}"
    command = [sys.executable, "-I", "-S", "-B", "-c", script, *arguments]
    done = subprocess.run(command, cwd=model, capture_output=True, text=True, check=False)
    return done.returncode, json.loads(done.stdout)


@pytest.fixture
def libraries(tmp_path: Path) -> Path:
    """A folder with numpy and ONNX Runtime alone."""
    (folder := tmp_path / "libraries").mkdir()
    for library in (np, onnxruntime):
        installed = Path(library.__file__).parent
        for path in (installed, installed.with_name(f"{installed.name}.libs")):
            if path.exists():
                (folder / path.name).symlink_to(path)
    return folder


def test_it_prints_the_certified_numbers_with_numpy_and_onnxruntime_alone(
    room: Any, model: Path, libraries: Path
) -> None:
    status, answer = evaluated(model, libraries, "--rows", str(room.folder))
    assert (status, answer["agrees"]) == (0, True)
    assert answer["validation"].items() >= answer["certified"]["validation"].items()
    assert evaluated(model, libraries, "--rows", str(room.folder / "rows"))[0] == 0
    shutil.copytree(room.folder / "rows", model / "rows")
    assert evaluated(model, libraries)[1]["validation"] == answer["validation"]


def test_without_the_rows_or_with_others_it_says_which_are_meant(room: Any, model: Path, libraries: Path) -> None:
    status, answer = evaluated(model, libraries)
    assert (status, answer["remedy"]) == (1, "Name the rows: python evaluate.py --rows ../rows")
    assert "no folder rows" in evaluated(model, libraries, "--rows", str(model))[1]["problem"]
    np.save(room.folder / "rows" / "input.npy", room.inputs + 1)
    assert "is not the file that was recorded" in evaluated(model, libraries, "--rows", str(room.folder))[1]["problem"]


def test_the_remedy_names_the_rows_from_where_it_is_called(
    model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    assert shipped.main(model, []) == 1
    assert json.loads(capsys.readouterr().out)["remedy"].endswith("python final_model/evaluate.py --rows rows")


def test_a_number_that_is_not_the_certified_one_is_no_agreement(room: Any, model: Path, libraries: Path) -> None:
    record = json.loads((model / "evaluation.json").read_text())
    record["certified"]["validation"]["accuracy"] = 1.0
    (model / "evaluation.json").write_text(json.dumps(record))
    status, answer = evaluated(model, libraries, "--rows", str(room.folder))
    assert (status, answer["agrees"]) == (1, False)
    assert answer["validation"]["accuracy"] < 1.0
    record["certified"]["validation"] = {"rows": 50}  # a policy's: its figures are of episodes
    (model / "evaluation.json").write_text(json.dumps(record))
    status, answer = evaluated(model, libraries, "--rows", str(room.folder))
    assert (status, "agrees" in answer) == (1, False)
    assert "for each of the episodes' seeds" in answer["remedy"]
