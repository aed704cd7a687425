"""An experiment whose conductor ends on its way, by runs that are written: the same verdict, no run lost or doubled."""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import Any

import pytest
from tests.tools.hyperparameter_tuner.conftest import CONFIG
from tests.worlds.blank_pictures import blank_pictures
from tests.worlds.records import Script
from tests.worlds.scripted import Scripted, scripted

from trainwright.tools import projects
from trainwright.tools.hyperparameter_tuner import StudyView, start_study, stop_study, study_status
from trainwright.tools.training_orchestrator import start_run, wait_for_run
from trainwright.tools.verification import verify_workspace
from trainwright.tools.workspace import Workspace
from trainwright.tools.workspace.records import runs_of
from trainwright.trainer.base.errors import ConfigurationError
from trainwright.trainer.run import RunKind, RunSpecification

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]

RATE = "optimizer.learning_rate"
GOOD: dict[str, Any] = {"optimizer": {"learning_rate": 0.01}, "training": {"epochs": 2}}


def curve(plan: RunSpecification, epoch: int) -> dict[str, float]:
    """A rate of 0.1 is better by 0.05 on every seed, which adds a little; any other does as well as the plan's."""
    drawn = random.Random(f"{plan.config.seed} {plan.config.optimizer.learning_rate}")
    value = 0.8 + 0.05 * (plan.config.optimizer.learning_rate == 0.1) + drawn.uniform(-0.01, 0.01) - 0.1 / epoch
    return {"loss": 1 - value, "accuracy": value}


@pytest.fixture
def launcher(workspace: Workspace) -> Iterator[Scripted]:
    """With a project whose baseline has passed."""
    goal = {"metric": "accuracy", "direction": "maximize", "target": 0.99}
    with scripted(Script(curve=curve)) as launcher, blank_pictures():
        projects.create_project(workspace, "digits", intent="test", goal=goal, config=CONFIG | GOOD)
        for kind, phase in ((RunKind.SMOKE, "planning"), (RunKind.BASELINE, "baseline")):
            assert wait_for_run(workspace, start_run(workspace, "digits", kind).run_id, 60).state == "completed"
            projects.pass_gate(workspace, "digits", phase)
        yield launcher


def judged(launcher: Scripted, workspace: Workspace, rate: float, **given: Any) -> StudyView:
    search = {"experiment": {"idea": f"a rate of {rate}", "changes": {RATE: rate}, **given}}
    study = start_study(workspace, "digits", search=search).study_id
    launcher.wait()
    return study_status(workspace, study)


@pytest.mark.requirement("TUNE-5", "TUNE-7")
def test_a_conductor_that_ends_at_every_run_leaves_the_verdict_and_no_run_twice(
    launcher: Scripted, workspace: Workspace
) -> None:
    met = set[str]()

    def curve_and_end(plan: RunSpecification, epoch: int) -> dict[str, float]:
        if plan.run_id not in met:
            met.add(plan.run_id)
            raise SystemExit
        return curve(plan, epoch)

    launcher.script = Script(curve=curve_and_end)
    view = judged(launcher, workspace, 0.1, max_repeats=5)
    while not view.is_ended:  # each look starts another conductor
        launcher.wait()
        view = study_status(workspace, view.study_id)
    assert view.state == "completed", view.failure
    assert view.ablation is not None
    assert view.ablation["verdict"] == "kept"
    with workspace.session() as session:
        runs = [run for run in runs_of(session, "digits", RunKind.ABLATION) if run.study == view.study_id]
    assert len(runs) == view.trials_done
    assert len(runs) in {6, 10}, "the seeds of a look, and no part of the next one's"
    assert met == {run.id for run in runs}, "it did end at every run"
    assert verify_workspace(workspace.path).problems == []


@pytest.mark.requirement("TUNE-5")
def test_the_very_same_is_judged_once_and_a_stopped_one_goes_on(launcher: Scripted, workspace: Workspace) -> None:
    first = judged(launcher, workspace, 0.02, max_repeats=3)
    assert judged(launcher, workspace, 0.02, max_repeats=3).study_id == first.study_id
    with pytest.raises(ConfigurationError, match="do what those of planned do: there is nothing to compare"):
        judged(launcher, workspace, 0.01)
    launcher.is_conducting = False
    search = {"experiment": {"idea": "stopped", "changes": {RATE: 0.1}, "max_repeats": 3}}
    begun = start_study(workspace, "digits", search=search)
    assert stop_study(workspace, begun.study_id).state == "stopped"
    launcher.is_conducting = True
    again = judged(launcher, workspace, 0.1, max_repeats=3)
    assert (again.study_id, again.state) == (begun.study_id, "completed")


@pytest.mark.requirement("TUNE-5")
def test_a_confirmation_takes_all_its_seeds_and_says_whether_the_chain_holds(
    launcher: Scripted, workspace: Workspace
) -> None:
    assert judged(launcher, workspace, 0.1, max_repeats=8).ablation["incumbent"] == "experiment-1"  # type: ignore[index]
    found = judged(launcher, workspace, 0.1, against="planned", confirm=True, max_repeats=4)
    assert found.trials_done == 8
    assert found.next is not None
    assert found.next.why.startswith("it holds: bring its code and changes through the gates; ")
    lost = judged(launcher, workspace, 0.03, against="planned", confirm=True, max_repeats=3)
    assert lost.trials_done == 6, "no look on the way"
    assert lost.ablation is not None
    assert lost.ablation["verdict"] != "kept"
    assert lost.next is not None
    assert lost.next.why.startswith("it is not shown to hold on new seeds: release nothing for it; ")
