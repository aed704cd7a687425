"""The benchmarks' own judgement: a comparison that could not fail would prove nothing."""

from __future__ import annotations

import importlib
import json
import shutil
import sqlite3
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from trainwright.trainer.checkpoints.index import list_checkpoints
from trainwright.trainer.run import RunDirectory

pytestmark = [pytest.mark.long, pytest.mark.slow, pytest.mark.timeout(600)]

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def resume() -> Any:
    """benchmarks/resume, as `make bench-resume` runs it."""
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(ROOT / "benchmarks" / "resume"))
        yield importlib.import_module("killing")


@pytest.fixture(scope="module")
def ended(resume: Any, tmp_path_factory: pytest.TempPathFactory) -> RunDirectory:
    """A run of the benchmark that was left alone."""
    import torch

    torch.set_num_threads(1)
    run: RunDirectory = resume.make_run(tmp_path_factory.mktemp("whole"), "augmented data, batch norm, dropout")
    resume.finish(run)
    return run


def _flip(path: Path) -> None:
    data = bytearray(path.read_bytes())
    data[-3] ^= 1
    path.write_bytes(bytes(data))


def _edit_state(path: Path) -> None:
    state = json.loads((path / "state.json").read_text())
    state["progress"]["epochs_without_improvement"] += 1
    (path / "state.json").write_text(json.dumps(state))


def _edit_metrics(run: RunDirectory) -> None:
    with sqlite3.connect(next(run.path.glob("metrics*.sqlite"))) as connection:
        connection.execute("UPDATE metrics SET value = value * (1 + 1e-15) WHERE key = 'train/loss' AND step = 7")
    connection.close()


DAMAGE = {
    "model.safetensors": lambda run: _flip(list_checkpoints(run)[-1].path / "model.safetensors"),
    "optimizer.safetensors": lambda run: _flip(list_checkpoints(run)[-1].path / "optimizer.safetensors"),
    "state.json: progress": lambda run: _edit_state(list_checkpoints(run)[-1].path),
    "metric train/loss": _edit_metrics,
}


@pytest.mark.requirement("REPRO-6")
def test_the_resume_benchmark_sees_the_smallest_difference(resume: Any, ended: RunDirectory, tmp_path: Path) -> None:
    assert resume.differences(ended, ended) == []
    for number, (named, damage) in enumerate(DAMAGE.items()):
        copy = tmp_path / str(number) / ended.run_id
        shutil.copytree(ended.path, copy)
        damage(RunDirectory(copy))
        assert any(named in difference for difference in resume.differences(RunDirectory(copy), ended)), named


@pytest.mark.requirement("REPRO-6")
def test_the_resume_benchmark_kills_and_resumes(resume: Any, ended: RunDirectory, tmp_path: Path) -> None:
    import collections
    import random

    assert ended.status().attempt == 1
    moments: collections.Counter[str] = collections.Counter()
    tally = resume.kill_and_resume(tmp_path, "augmented data, batch norm, dropout", 1, random.Random(0), moments)
    assert tally.kills == moments.total() >= 1
    assert (tally.in_identical, tally.identical_runs) == (tally.kills, tally.runs)


@pytest.mark.requirement("TRAIN-10")
def test_a_run_of_many_epochs_holds_no_more_memory_files_or_processes_at_its_end(tmp_path: Path) -> None:
    """`make bench-soak` does this over 2,000 epochs. A tensor kept for each step would be 1 MiB here, a file 64."""
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(ROOT / "benchmarks"))
        soak = importlib.import_module("soak")
    found = soak.over_epochs(80, tmp_path)
    assert found["open_files_growth"] <= 4  # those of a checkpoint being written come and go
    assert found["processes_growth"] == 0
    assert found["memory_growth_mib"] < 8.0


@pytest.mark.requirement("TRAIN-11")
def test_the_size_benchmark_measures_a_look_of_the_kind_that_it_names(tmp_path: Path) -> None:
    """`make bench-size` does this with two million rows. A later look that was in truth a first one is refused."""
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(ROOT / "benchmarks"))
        size = importlib.import_module("first_look")
    size.write_files(tmp_path, 24_000)
    for kind in size.KINDS:
        path = tmp_path / f"24000.{kind}"
        with pytest.raises(RuntimeError, match="was not kept"):
            size.later_look(path, tmp_path / "empty" / kind)
        size.first_look(path, tmp_path / "looks")
        size.later_look(path, tmp_path / "looks")


@pytest.mark.requirement("DIAG-8", "DIAG-10")
def test_the_fault_suite_names_a_rate_that_diverges_and_cures_it_and_says_nothing_of_a_sound_run() -> None:
    """`make monitor-faults` does this over thirty kinds and forty sound ones, each over several seeds."""

    def figures(only: str) -> dict[str, Any]:
        asked = [sys.executable, "-P", "benchmarks/monitor_faults", "--seeds", "2", "--only", only]
        ended = subprocess.run(asked, cwd=ROOT, capture_output=True, text=True, check=True)
        found: dict[str, Any] = json.loads(ended.stdout.splitlines()[-1])
        return found

    faulty = figures("rate diverges, numbers")
    assert (faulty["runs"], faulty["named_percent"], faulty["cured_percent"], faulty["precision"]) == (1, 100, 100, 1)
    sound = figures("a good start, frozen")
    assert (sound["healthy"], sound["false_stops"], sound["precision"]) == (1, 0, None)
