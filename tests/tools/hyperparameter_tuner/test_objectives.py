"""Searches with several objectives: the front, the bounds of the best trial, and studies of two objectives."""

from __future__ import annotations

import math
import operator
import random
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from sqlalchemy import select
from tests.tools.hyperparameter_tuner.conftest import CONFIG, table_of, told, tried
from tests.worlds.records import Script
from tests.worlds.scripted import Scripted

from trainwright.tools.gates.study_check import front
from trainwright.tools.hyperparameter_tuner import start_study, study_status
from trainwright.tools.hyperparameter_tuner.analysis import draw_study, drawable_kinds, subject_of
from trainwright.tools.hyperparameter_tuner.report import tuning_report
from trainwright.tools.hyperparameter_tuner.suggest import suggest
from trainwright.tools.hyperparameter_tuner.trials import (
    COMPLETED,
    RUNNING,
    TrialRecord,
    best_trial,
    pareto_front,
    seen_by,
)
from trainwright.tools.verification import verify_workspace
from trainwright.tools.workspace import Workspace
from trainwright.tools.workspace.records import get_study, runs_of
from trainwright.tools.workspace.tables import Trial
from trainwright.trainer.base.errors import ConfigurationError
from trainwright.trainer.config import SearchSection, parse_config
from trainwright.trainer.run import RunSpecification

HIDDEN, RATE = "model.args.hidden", "optimizer.learning_rate"
SPACE: dict[str, Any] = {
    HIDDEN: {"type": "categorical", "choices": [[4], [8], [16], [32]]},
    RATE: {"type": "float", "low": 1e-4, "high": 1e-1, "log": True},
}
SMALL = {"metric": "parameters", "direction": "minimize"}
METHODS = ["nsga2", "tpe", "random", "quasi_random", "gaussian_process"]


def searched(
    method: str, trials: int, width: int = 2, *, seed: int = 3, before: list[TrialRecord] | None = None
) -> list[TrialRecord]:
    """Conduct a study of a known landscape: larger networks are better, up to the rate that suits them."""
    written = {"method": method, "trials": trials, "width": width, "seed": seed, "space": SPACE, "objectives": [SMALL]}
    search = SearchSection.model_validate({**written, "present_first": False})
    table = list(before or [])
    while len(table) < trials:
        parameters, attributes = suggest(search, "maximize", seen_by(len(table), search.wave, table))
        table.append(TrialRecord(len(table), parameters, attributes=attributes))
        if len(table) % width == 0:
            table = [trial if trial.state == COMPLETED else trained(trial) for trial in table]
    return table


def trained(trial: TrialRecord) -> TrialRecord:
    [hidden], rate = trial.parameters[HIDDEN], trial.parameters[RATE]
    value = 1 - 1 / hidden - 0.05 * abs(math.log10(rate) + 2)
    sizes = {"parameters": 75.0 * hidden}
    return replace(trial, state=COMPLETED, value=value, intermediate={1: value}, further=sizes)


@pytest.mark.requirement("TUNE-1", "TUNE-7")
@pytest.mark.parametrize("method", METHODS)
def test_a_study_of_two_objectives_is_the_same_however_it_is_split(method: str) -> None:
    trials = 8 if method == "gaussian_process" else 20
    whole = searched(method, trials)
    assert searched(method, trials, before=searched(method, 6)) == whole
    assert all(trial.state == COMPLETED for trial in whole)


@pytest.mark.long
@pytest.mark.requirement("TUNE-1")
def test_nsga2_breeds_later_generations_from_the_better_trials() -> None:
    tables = [searched("nsga2", 48, seed=seed) for seed in range(6)]
    table = tables[0]
    generations = [trial.attributes["NSGAIISampler:generation"] for trial in table]
    assert generations == sorted(generations)
    assert generations[-1] >= 3

    def distance(trials: list[TrialRecord]) -> float:
        return sum(abs(math.log10(trial.parameters[RATE]) + 2) for trial in trials) / len(trials)

    nearer = [distance(each[36:]) / distance(each[:12]) for each in tables]
    assert sum(nearer) / len(nearer) < 0.8, "their rates come nearer to the best one"


@pytest.mark.requirement("TUNE-4")
@given(st.lists(st.tuples(st.integers(0, 5), st.integers(0, 5), st.integers(0, 5)), max_size=12))
def test_the_front_holds_just_what_no_other_dominates(points: list[tuple[int, int, int]]) -> None:
    found = front(dict(enumerate(points)), ["maximize", "minimize", "minimize"])
    better = [(-a, b, c) for a, b, c in points]
    for number, point in enumerate(better):
        rivals = [other for other in better if other != point and all(map(operator.le, other, point))]
        assert (number in found) is not bool(rivals)
    assert [points[number][0] for number in found] == sorted((points[number][0] for number in found), reverse=True)


@pytest.mark.requirement("TUNE-4")
def test_the_best_trial_is_the_goals_best_within_the_bounds() -> None:
    draw = random.Random(1)
    sizes = [float(draw.randrange(100)) for _ in range(30)]
    table = [TrialRecord(n, {}, COMPLETED, draw.random(), further={"parameters": size}) for n, size in enumerate(sizes)]
    bounded = SearchSection.model_validate({"space": SPACE, "objectives": [SMALL | {"at_most": 20}]}).objectives
    best = best_trial(table, "maximize", bounded)
    assert best is not None
    assert best.value == max(one.value or 0 for one in table if one.further["parameters"] <= 20)
    assert best_trial(table, "maximize") is pareto_front(table, "maximize", bounded)[0]
    none = SearchSection.model_validate({"space": SPACE, "objectives": [SMALL | {"at_most": -1}]}).objectives
    assert best_trial(table, "maximize", none) is None


def scripted_values(plan: RunSpecification, epoch: int) -> dict[str, float]:
    value = 1 - 1 / hidden_of(plan) - 0.05 * abs(math.log10(plan.config.optimizer.learning_rate or 1) + 2) - 0.1 / epoch
    return {"loss": 2 * (1 - value), "accuracy": value}


def hidden_of(plan: RunSpecification) -> int:
    assert plan.config.model is not None
    (hidden,) = plan.config.model.args["hidden"]
    return int(hidden)


SCRIPT = Script(curve=scripted_values, parts={"resolved": {"parameters": lambda plan: 75 * hidden_of(plan)}})


@pytest.mark.long
@pytest.mark.requirement("TUNE-1", "TUNE-4", "TUNE-5", "TUNE-7", "PHASE-5")
def test_a_study_of_two_objectives_whose_conductor_ends_equals_the_one_in_peace_and_shows_its_front(
    launcher: Scripted, workspace: Workspace, make_project: Callable[..., str], tmp_path: Path
) -> None:
    launcher.script = SCRIPT
    search = {"method": "nsga2", "trials": 6, "width": 2, "space": SPACE, "seed": 3,
              "objectives": [SMALL | {"at_most": 700}, {"metric": "loss", "direction": "minimize"}]}  # fmt: skip
    peace, war = (make_project(workspace, name) for name in ("peace", "war"))
    launcher.is_conducting = False
    first = start_study(workspace, peace, search=search).study_id
    tried(workspace, first)
    launcher.is_conducting = True
    begun_runs, ends = len(launcher.started), [True]

    def until_it_ends(plan: RunSpecification, epoch: int) -> dict[str, float]:
        if ends and plan.project == war and len(launcher.started) == begun_runs + 4:
            ends.pop()
            raise SystemExit
        return scripted_values(plan, epoch)

    launcher.script = replace(SCRIPT, curve=until_it_ends)
    begun = start_study(workspace, war, search=search)
    notes = " ".join(begun.taken_as or [])
    assert "the best accuracy within parameters at most 700 is confirmed, and the gate goes by accuracy alone" in notes
    assert "no trial is pruned: pruning goes by one objective" in notes
    second = begun.study_id
    launcher.wait()
    assert ends == []
    launcher.is_conducting = False
    tried(workspace, second)
    view, table = study_status(workspace, second), table_of(workspace, second)
    assert told(table) == told(table_of(workspace, first))
    for trial in table:
        assert trial.further == {"parameters": 75.0 * trial.parameters[HIDDEN][0], "loss": 2 * (1 - (trial.value or 0))}
    assert view.best is not None
    within = [trial for trial in table if trial.further["parameters"] <= 700]
    assert view.best.number == max(within, key=lambda trial: trial.value or 0).number
    assert view.front is not None
    assert view.front_size == len(pareto_front(table, "maximize", SearchSection.model_validate(search).objectives))

    with workspace.session() as session:
        study = get_study(session, second)
        subject = subject_of(session, study)
        report = tuning_report(session, workspace, study)
    assert "pareto" in drawable_kinds(subject)
    picture, said = draw_study("pareto", subject, tmp_path / "pareto.png")
    assert picture.stat().st_size > 10_000
    assert f"{view.front_size} of 6 completed trials are on the front" in said
    assert "## Pareto front" in report
    assert "the best trial has parameters at most 700" in report

    with workspace.session() as session:
        row = session.scalars(select(Trial).where(Trial.study == second, Trial.number == 4)).one()
        row.further = row.further | {"parameters": 1.0}
    problems = verify_workspace(workspace.path).problems
    assert any("trial 4" in problem for problem in problems), problems


@pytest.mark.requirement("TUNE-1", "MCP-3")
def test_a_study_whose_trials_all_break_the_bounds_names_the_nearest_and_the_call_that_takes_it(
    launcher: Scripted, workspace: Workspace, make_project: Callable[..., str]
) -> None:
    launcher.script = SCRIPT
    project = make_project(workspace)
    search = {"method": "random", "trials": 2, "width": 2, "space": SPACE, "objectives": [SMALL | {"at_most": 100}]}
    study = start_study(workspace, project, search=search).study_id
    launcher.wait()
    view = study_status(workspace, study)
    assert (view.state, view.best) == ("failed", None)
    assert view.failure is not None
    assert "None of the 2 completed trials keeps the bounds (parameters at most 100)" in view.failure["message"]
    again = view.failure["details"]["next"]["arguments"]["search"]
    assert (view.failure["category"], view.failure["document"]) == ("configuration", "configs/searches.md")
    assert again["objectives"][0]["at_most"] == min(trial.further["parameters"] for trial in table_of(workspace, study))
    launcher.is_conducting = False
    second = start_study(workspace, project, search=again).study_id
    tried(workspace, second)
    assert study_status(workspace, second).best is not None
    with workspace.session() as session:
        trained = [run.label for run in runs_of(session, project) if (run.label or "").startswith("trial ")]
    assert sorted(trained) == ["trial 0", "trial 1"], "they were taken over"


@pytest.mark.requirement("TUNE-7")
def test_what_a_running_trial_is_told_of_leaves_its_objectives_out() -> None:
    table = searched("random", 4)
    assert all(not trial.further and trial.state == RUNNING for trial in seen_by(3, 4, table))


@pytest.mark.requirement("TUNE-1", "MCP-3")
def test_an_objective_that_nothing_measures_is_refused_with_what_there_is() -> None:
    from trainwright.tools.hyperparameter_tuner.space import _require_objectives

    def refused(metric: str) -> str:
        search = {"space": SPACE, "objectives": [{"metric": metric, "direction": "minimize"}, SMALL]}
        values = {**CONFIG, "search": search, "selection": {"metric": "accuracy", "direction": "maximize"}}
        with pytest.raises(ConfigurationError) as caught:
            _require_objectives("digits", parse_config(values), ["accuracy", "loss"], "smoke-1")
        return f"{caught.value.message} {caught.value.remedy}"

    assert "Seconds differ from run to run" in refused("latency_seconds")
    assert "configure(project='digits', changes={'metrics': [\"accuracy\", \"f1\"]})" in refused("f1")
    assert "did you mean `loss`?" in refused("validation/loss")


@pytest.mark.requirement("TUNE-4")
def test_of_trials_with_the_same_value_the_best_is_on_the_front() -> None:
    values = [(0.9, 500.0), (0.97, 900.0), (0.97, 300.0), (0.97, 300.0)]
    table = [
        TrialRecord(n, {}, COMPLETED, value, further={"parameters": size}) for n, (value, size) in enumerate(values)
    ]
    objectives = SearchSection.model_validate({"space": SPACE, "objectives": [SMALL]}).objectives
    best = best_trial(table, "maximize", objectives)
    assert best is table[2]
    assert best in pareto_front(table, "maximize", objectives)
    assert best_trial(table, "maximize") is table[1]
