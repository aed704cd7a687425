"""The benchmarks' own judgement: a comparison that could not fail would prove nothing."""

from __future__ import annotations

import importlib
import json
import shutil
import sqlite3
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from tests.trainer.start_a_run import make_run, work

from trainwright.tools.hyperparameter_tuner.methods import tpe
from trainwright.tools.hyperparameter_tuner.methods.question import STARTUP_TRIALS
from trainwright.tools.hyperparameter_tuner.trials import COMPLETED, PRUNED, TrialRecord
from trainwright.trainer.checkpoints.index import list_checkpoints
from trainwright.trainer.run import RunDirectory

pytestmark = [pytest.mark.long, pytest.mark.slow, pytest.mark.timeout(600)]

ROOT = Path(__file__).parents[2]
SEARCH, TUNER = ROOT / "benchmarks" / "search", ROOT / "benchmarks" / "tuner"
OF_SEARCH = tuple(path.stem for path in SEARCH.glob("[a-z]*.py"))
OF_TUNER = ("tasks", "curves", "replay", "real", "figures", "settings", "plain_optuna")


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
    """`make bench-data` does this with two million rows. A later look that was in truth a first one is refused."""
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(ROOT / "benchmarks" / "data"))
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


@pytest.fixture
def search() -> Iterator[Any]:
    """`search(name)` imports a file of the benchmark, of whose names other benchmarks have some too."""
    others = {name: sys.modules.pop(name) for name in OF_SEARCH if name in sys.modules}
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(SEARCH))
        yield importlib.import_module
    for name in OF_SEARCH:
        sys.modules.pop(name, None)
    sys.modules.update(others)


def moments(of: ModuleType, number: int, planned: float, sealed: float) -> Any:
    """One trial that spends a second in each part but the last."""
    return of.Moments(number, planned, planned + 1, planned + 2, planned + 3, planned + 4, planned + 5, planned + 6,
                      sealed, epochs=1, steps=1)  # fmt: skip


@pytest.mark.requirement("TUNE-3")
def test_the_parts_of_a_trial_add_up_to_what_the_waves_took(search: Any) -> None:
    of, figures = search("moments"), search("figures")
    waves = [moments(of, 0, 100.0, 108.0), moments(of, 1, 100.0, 110.0), moments(of, 2, 111.0, 119.0),
             moments(of, 3, 111.0, 119.0)]  # fmt: skip
    parts = figures.parts_of(waves, 2, asked_at=98.0)
    assert parts["training"] == parts["spawn and imports"] == 1.0
    assert parts["seal"] == 2.5
    assert parts["waits for its wave"] == 0.5
    assert parts["between waves"] == 1.0
    assert parts["start of the study"] == 2.0
    of_a_wave = sum(parts[name] for name in (*figures.PARTS, "waits for its wave"))
    assert parts["start of the study"] + 2 * of_a_wave + parts["between waves"] == 119.0 - 98.0
    late = [replace(waves[0], started=105.0), *waves[1:]]
    assert figures.parts_of(late, 2, asked_at=98.0)["spawn and imports"] == 1.75


@pytest.mark.requirement("TUNE-3")
def test_the_last_line_gives_the_worst_task_and_the_median_and_counts_the_confirmation_apart(search: Any) -> None:
    figures = search("figures")
    tasks = {
        "digits": {"seconds": {"ours": [30.0, 50.0], "confirmation": [10.0, 10.0], "bare": [20.0, 20.0],
                               "ray": [80.0, 80.0]}, "parts": [{"training": 1.0}, {"training": 2.0}]},
        "text": {"seconds": {"ours": [20.0], "confirmation": [4.0], "bare": [20.0], "ray": [10.0]}, "parts": []},
    }  # fmt: skip
    found = figures.summary_of(tasks)
    assert (found["ratio_to_bare"], found["ratio_to_bare_median"]) == (2.0, 1.5)
    assert (found["ratio_to_bare_with_confirmation"], found["ratio_to_ray"]) == (2.5, 2.0)
    assert found["seconds"]["digits"] == {"ours": 40.0, "confirmation": 10.0, "bare": 20.0, "ray": 80.0}
    assert found["parts"] == {"digits": {"training": 1.5}}
    without = {"digits": {"seconds": {"ours": [30.0], "confirmation": [1.0], "bare": [], "ray": []}, "parts": []}}
    assert not any(name.startswith("ratio") for name in figures.summary_of(without))
    assert "40.0" in "\n".join(figures.table_of("digits", 6, tasks["digits"]))


@pytest.mark.requirement("TUNE-3")
def test_contestants_take_turns_in_another_order_each_time(search: Any) -> None:
    order = search("figures").order_of
    orders = [order(["ours", "bare", "ray"], repetition) for repetition in range(6)]
    assert all(sorted(one) == ["bare", "ours", "ray"] for one in orders)
    assert len({tuple(one) for one in orders}) == 6


@pytest.mark.requirement("TUNE-3")
def test_the_bare_script_samples_as_a_study_does(search: Any) -> None:
    from trainwright.tools.hyperparameter_tuner.domain import Domain
    from trainwright.tools.hyperparameter_tuner.methods.question import Question
    from trainwright.trainer.config import SearchSection

    bare, tasks = search("bare"), search("tasks")
    section = SearchSection.model_validate({"space": tasks.SPACE})
    question = Question(section, Domain(section, {}), "maximize", [], [], [], seed=1)
    ours, theirs = tpe.sampler(question), bare.sampler(1)
    assert bare.STARTUP_TRIALS == STARTUP_TRIALS
    for name in ("_n_startup_trials", "_n_ei_candidates", "_multivariate", "_group", "_constant_liar"):
        assert getattr(theirs, name) == getattr(ours, name), name


@pytest.mark.requirement("TUNE-3")
def test_the_bare_script_trains_and_validates_the_rows_and_batches_that_a_run_does(search: Any, tmp_path: Path) -> None:
    bare, tasks = search("bare"), search("tasks")
    task = replace(tasks.TASKS["digits"], epochs=2, batch_size=256)
    task.prepare(tmp_path)
    plain, reported = bare.Plain.read(tmp_path), []
    done = bare.train(plain, 1e-3, 1e-4, tmp_path / "best.pt", lambda *epoch: reported.append(epoch))
    run = work(make_run(tmp_path / "run", task.config(tmp_path)))
    epochs = [event.data for event in run.events("epoch")]
    assert (tmp_path / "best.pt").exists()
    assert done["steps"] == run.status().step == epochs[-1]["step"] > 2
    assert done["epochs"] == len(reported) == len(epochs) == 2
    record = run.evidence("data")
    assert record is not None
    sizes = {name: record["splits"][name]["size"] for name in ("train", "validation")}
    assert {name: len(plain.rows[f"{name}_targets"]) for name in sizes} == sizes


@pytest.fixture
def part() -> Iterator[Callable[[str], ModuleType]]:
    """Imports a file of benchmarks/tuner, whatever other benchmarks' files have its name."""
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(TUNER))
        for name in OF_TUNER:
            patch.delitem(sys.modules, name, raising=False)
        yield importlib.import_module
        for name in OF_TUNER:
            sys.modules.pop(name, None)


@pytest.mark.requirement("TUNE-2")
def test_a_real_study_equals_its_replay(
    part: Callable[[str], ModuleType], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tasks = part("tasks")
    monkeypatch.setattr(tasks, "EPOCHS", 4)
    pruning = {"name": "successive_halving", "bracket": 4, "warmup_epochs": 1, "reduction_factor": 2}
    search = {"method": "random", "trials": 6, "width": 2, "space": tasks.SPACE, "pruning": pruning}
    curves = part("curves").Curves(tasks.TASKS["breast_cancer"], 0, tmp_path)
    found, epochs = part("real").differences(tasks.TASKS["breast_cancer"], 0, search, curves)
    assert found == []
    assert curves.trained == 6
    assert epochs == (4 + 2 + 2) + (2 + 1 + 2), "rungs after 1 and 2: of four two and one go on, of two one and one"


@pytest.mark.requirement("TUNE-2")
def test_a_table_that_differs_in_its_last_bit_is_named(part: Callable[[str], ModuleType]) -> None:
    told = part("real").told
    table = [TrialRecord(0, {"a": 1}, COMPLETED, 0.5, {1: 0.5}), TrialRecord(1, {"a": 2}, PRUNED, None, {1: 0.1 + 0.2})]
    assert told(table, list(table)) == []
    assert told(table, [table[0], replace(table[1], intermediate={1: 0.3})]) == [
        "trial 1: intermediate {1: 0.30000000000000004}, replayed {1: 0.3}"
    ]
    assert told(table, [replace(table[0], state=PRUNED, value=None), table[1]]) == [
        "trial 0: state 'completed', replayed 'pruned'", "trial 0: value 0.5, replayed None"
    ]  # fmt: skip
    assert told(table, table[:1]) == ["2 trials, replayed 1"]


@pytest.mark.requirement("TUNE-2")
def test_epochs_saved_and_regret_by_hand_and_the_worst_task_counts(part: Callable[[str], ModuleType]) -> None:
    figures = part("figures")

    def trial(number: int, epochs: int, value: float | None) -> TrialRecord:
        values = dict.fromkeys(range(1, epochs + 1), 0.5)
        return TrialRecord(number, {}, PRUNED if value is None else COMPLETED, value, values)

    whole = [trial(0, 27, 0.9), trial(1, 27, 0.8)]
    saved, regret = figures.compared([trial(0, 9, None), trial(1, 27, 0.8)], whole)
    assert (saved, regret) == (pytest.approx(100 / 3), pytest.approx(10.0))
    assert figures.compared(whole, whole) == (0.0, 0.0)
    assert figures.compared([trial(0, 9, None)], whole)[1] == pytest.approx(90.0), "nothing completed is no success"
    of_tasks = {"a": [(80.0, 0.0), (80.0, 0.4)], "b": [(76.0, 0.1)]}
    found = figures.summary(of_tasks)
    assert (found["epochs_saved_percent"], found["regret_points"]) == (76.0, 0.2)
    assert figures.table({("random", "x"): of_tasks}, ["a", "b"])[-1].endswith("| 76.0 %, 0.20 | yes |")
    worse: dict[str, Any] = {"a": [(80.0, 0.0)], "b": [(74.0, 0.0)]}
    assert figures.table({("random", "x"): worse}, ["a", "b"])[-1].endswith("| no |")
