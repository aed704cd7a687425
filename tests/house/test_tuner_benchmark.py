"""The benchmark of pruning: its replay is the product, and its comparisons can fail."""

from __future__ import annotations

import importlib
import sys
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from trainwright.tools.hyperparameter_tuner.trials import COMPLETED, PRUNED, TrialRecord

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from types import ModuleType

pytestmark = pytest.mark.timeout(600)

FOLDER = Path(__file__).parents[2] / "benchmarks" / "tuner"
MODULES = ("tasks", "curves", "replay", "real", "figures", "settings", "plain_optuna")


@pytest.fixture
def part() -> Iterator[Callable[[str], ModuleType]]:
    """Imports a file of benchmarks/tuner, whatever other benchmarks' files have its name."""
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(FOLDER))
        for name in MODULES:
            patch.delitem(sys.modules, name, raising=False)
        yield importlib.import_module
        for name in MODULES:
            sys.modules.pop(name, None)


@pytest.mark.slow
@pytest.mark.long
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
