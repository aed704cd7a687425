"""`requirements.txt` of the final model installs in a fresh environment (REPRO-3)."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from trainwright.tools.reports.phase_reports import requirement_lines, requirements_file
from trainwright.tools.workspace import Workspace
from trainwright.trainer.run.evidence import Environment

pytestmark = pytest.mark.requirement("REPRO-3")


@pytest.mark.long
def test_a_fresh_environment_resolves_every_line_of_the_final_models_requirements(
    at: Callable[[str], Workspace], tmp_path: Path
) -> None:
    file = at("finished").project_folder("flowers") / "final_model" / "requirements.txt"
    names = {line.partition("==")[0] for line in file.read_text().splitlines() if not line.startswith("#")}
    assert {"torch", "numpy"} <= names
    assert names.isdisjoint({"trainwright", "ruff", "pytest"})  # what it did not import is not asked for
    subprocess.run([sys.executable, "-m", "venv", tmp_path / "fresh"], check=True)
    pip = [tmp_path / "fresh" / "bin" / "python", "-m", "pip", "--disable-pip-version-check"]
    if subprocess.run([*pip, "download", "-q", "--no-deps", "-d", tmp_path, "six"], check=False).returncode:
        pytest.skip("pip reaches no package index from here")
    # every package and its dependencies are found and fit together; only the copying of their files is left out
    done = subprocess.run([*pip, "install", "-q", "--dry-run", "-r", file], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-2000:]


def test_local_labels_and_what_no_index_has_are_left_out() -> None:
    packages = {"torch": "2.13.0+cpu", "mine": "0.1", "trainwright": "0.1.0", "numpy": "2.4.1"}
    record = Environment(packages=packages, unreleased=["mine", "trainwright"])
    assert requirement_lines(record) == ["numpy==2.4.1", "torch==2.13.0"]


def test_only_what_the_run_imported_is_required_where_that_is_recorded() -> None:
    record = Environment(packages={"torch": "2.13.0", "ruff": "0.17"}, unreleased=[])
    assert requirement_lines(record, ["torch"]) == ["torch==2.13.0"]


def test_the_file_says_what_is_enough_to_use_the_model(at: Callable[[str], Workspace]) -> None:
    lines = (at("finished").project_folder("flowers") / "final_model" / "requirements.txt").read_text().splitlines()
    assert "# To train it again: pip install -r requirements.txt" in lines
    assert "# To use it, fewer are enough (predict.py): pip install numpy onnxruntime" in lines
    assert "To use it" not in requirements_file(Environment(packages={}, unreleased=[]), [])
