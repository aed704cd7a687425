"""`make bench-search`: its sums on given figures, and that the bare script does the work that a trial of ours does."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from tests.trainer.start_a_run import make_run, work

from trainwright.tools.hyperparameter_tuner.methods import tpe
from trainwright.tools.hyperparameter_tuner.methods.question import STARTUP_TRIALS

FOLDER = Path(__file__).parents[2] / "benchmarks" / "search"
MODULES = tuple(path.stem for path in FOLDER.glob("[a-z]*.py"))


@pytest.fixture
def search() -> Iterator[Any]:
    """`search(name)` imports a file of the benchmark, of whose names other benchmarks have some too."""
    others = {name: sys.modules.pop(name) for name in MODULES if name in sys.modules}
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(FOLDER))
        yield importlib.import_module
    for name in MODULES:
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


@pytest.mark.slow
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
