"""The agent tasks: what is laid out is the same each time, and no figure is believed that the program does not give."""

from __future__ import annotations

import importlib
import json
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest
from tests.worlds.flowers import World

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"
NAMES = (
    "bearings", "boxes", "captions", "commands", "mixtures", "molecules", "paper", "pumps", "reviews_accelerate",
    "shop", "takeover", "topics", "weather_lit",
)  # fmt: skip


@pytest.fixture(scope="module")
def agents() -> Iterator[Callable[[str], ModuleType]]:
    """Imports a file of benchmarks/agents, whose names are short and left to nobody else."""
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(BENCHMARKS / "walks"))
        patch.syspath_prepend(str(BENCHMARKS / "agents"))
        forget()
        yield importlib.import_module
        forget()


def forget() -> None:
    folder = str(BENCHMARKS)
    places = {
        name: str(getattr(one, "__file__", None) or getattr(one, "__path__", "")) for name, one in sys.modules.items()
    }
    for name in [name for name, place in places.items() if folder in place]:
        sys.modules.pop(name)


def content(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def test_there_is_a_sentence_and_a_goal_for_each_task(agents: Any) -> None:
    tasks = agents("listed").TASKS
    assert tuple(sorted(tasks)) == NAMES
    assert len({task.field for task in tasks.values()}) == len(NAMES)
    assert all(str(task.goal.target) in task.sentence for task in tasks.values()), "the goal is the sentence's"


@pytest.mark.parametrize("name", NAMES)
def test_a_task_is_laid_out_with_the_same_bytes_and_knows_nothing_of_us(agents: Any, tmp_path: Path, name: str) -> None:
    task = agents("listed").TASKS[name]
    for place in ("one", "two"):
        task.lay_out(tmp_path / place)
    files = content(tmp_path / "one")
    assert files == content(tmp_path / "two")
    assert name == "takeover" or not [path for path, text in files.items() if b"trainwright" in text.lower()]
    assert all(len(known) >= 400 for known in task.truth(tmp_path / "one"))


@pytest.fixture
def irises(agents: Any, flowers: World) -> tuple[Any, Path]:
    """A task whose project is finished, and its folder."""
    flowers.set_back("finished")
    folder = flowers.folder
    task = agents("task")

    def truth(work: Path) -> list[Any]:
        return [task.columns(work / "iris.csv", ("species",)).astype(int)]

    (folder / "code").rename(folder / "work")
    goal = task.Goal("accuracy", 0.6)
    return task.Task("irises", "a table", "", goal, print, truth, table="iris.csv"), folder


def replaced(path: Path, before: object, after: object) -> None:
    text = path.read_text()
    assert str(before) in text
    path.write_text(text.replace(str(before), str(after)))


@pytest.mark.slow
@pytest.mark.long
def test_figures_and_rows_of_a_release_are_found_again_from_outside(agents: Any, irises: tuple[Any, Path]) -> None:
    found = agents("verifying").verify(*irises)
    assert found.problems == []
    assert found.is_right
    assert found.is_met
    assert found.rows == "30 of 30 by inputs and targets"
    model = irises[1] / "workspace" / "projects" / "flowers" / "final_model"
    held = agents("final_model").ReleasedModel(model).held_back()
    rows = np.loadtxt(model / "rows.csv", delimiter=",", skiprows=1, dtype=str)
    assert (len(rows), Counter(rows[:, 1])["test"]) == (len(set(rows[:, 0])), 30)
    table = np.loadtxt(irises[1] / "work" / "iris.csv", delimiter=",", skiprows=1)
    named, found_again = table[rows[rows[:, 1] == "test", 0].astype(int)], [*held.inputs.values(), held.targets]
    assert np.allclose(sorted(named.tolist()), sorted(np.column_stack(found_again).tolist())), "it names these"
    assert agents("verifying").verify(*irises, entries_before=10_000).state == "not played"


@pytest.mark.slow
@pytest.mark.parametrize("file", ["evaluation.json", "metrics.json", "README.md"])
def test_a_forged_figure_is_named_with_its_file(agents: Any, irises: tuple[Any, Path], file: str) -> None:
    model = irises[1] / "workspace" / "projects" / "flowers" / "final_model"
    true = json.loads((model / "metrics.json").read_text())["test"]["metrics"]["accuracy"]
    replaced(model / file, true, 0.987)
    [problem] = agents("verifying").verify(*irises).problems
    assert problem == f"{file} says accuracy 0.987, and the program gives {true:.6g}"


@pytest.mark.slow
def test_rows_that_are_not_the_user_s_are_counted(agents: Any, irises: tuple[Any, Path]) -> None:
    replaced(irises[1] / "work" / "iris.csv", "\n6.", "\n9.")
    [problem] = agents("verifying").verify(*irises).problems
    assert "held-back rows are not the user's, by inputs and targets" in problem


def test_a_group_of_which_rows_are_neither_in_test_nor_in_validation_is_in_train(agents: Any) -> None:
    tracing, groups = agents("tracing"), np.array(["a", "a", "b", "b", "c"])
    test, validation = (tracing.Traced(2, "inputs", places) for places in ([[0], [2]], [[1]]))
    assert tracing.in_train_too(groups, test, validation) == ["b"]


def test_calls_are_those_of_the_transcript_and_documents_count_by_their_characters(agents: Any, tmp_path: Path) -> None:
    lines = [
        {"tool": "advance", "seconds": 2.0, "characters": 100},
        {"verb": "read", "of": "a document", "seconds": 0.5, "chars": 4000},
        {"verb": "call", "of": "advance", "seconds": 1.0, "text": "four"},
    ]
    (tmp_path / "calls.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    counting = agents("counting")
    assert counting.counts(tmp_path) == counting.Counts(2, 4104, 3.5)
    assert counting.counts(tmp_path / "nobody") == counting.Counts()


def test_a_scripted_player_answers_by_the_choice_that_the_sentence_names(agents: Any) -> None:
    following = agents("players.by_next").following
    asked = {"argument": "metric", "question": "Which?", "choices": ["mae", "r2"]}
    form = {"tool": "plan_training", "arguments": {"intent": "prices", "metric": "<metric>"}}
    for sentence, metric in (("prices, r2 of 0.7", "r2"), ("prices", "mae")):
        assert following({"next": form, "questions": [asked]}, sentence).arguments["metric"] == metric
    assert following({"next": form, "questions": [{**asked, "choices": None}]}, "prices") is None
    within = {**form, "arguments": {"data": {"args": {"target": "<rooms|price>"}}}}
    assert following({"next": within}, "the price").arguments == {"data": {"args": {"target": "price"}}}
    assert following({"projects": [{"next": form}]}, "") is None
