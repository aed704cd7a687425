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
from trainwright.tools.gates.ideas import DOCUMENT
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
        intent = "A research loop over my network: keep only real improvements"
        projects.create_project(workspace, "digits", intent=intent, goal=goal, config=CONFIG | GOOD)
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
    lost = judged(launcher, workspace, 0.03, against="planned", confirm=True, max_repeats=3)
    assert lost.trials_done == 6, "no look on the way"
    assert lost.ablation is not None
    assert lost.ablation["verdict"] != "kept"
    assert lost.ablation["conclusion"].endswith("It is not shown to hold on new seeds: release nothing for it.")
    assert lost.next is not None
    assert "experiment" not in str(lost.next), "the project goes on without it"


@pytest.mark.requirement("TUNE-5", "GATE-7")
def test_a_loop_is_led_on_to_its_chain_s_measurement_and_into_the_configuration(
    launcher: Scripted, workspace: Workspace
) -> None:
    projects.diagnose(workspace, "digits")
    projects.pass_gate(workspace, "digits", "diagnostics")
    first = projects.project_status(workspace, "digits").next
    assert (first.tool, first.arguments["path"].partition("#")[0]) == ("read_document", DOCUMENT)
    assert first.why.startswith("the intent asks for ideas ('research loop')")
    kept = judged(launcher, workspace, 0.1, max_repeats=8)
    assert kept.next is not None
    assert kept.next.why.startswith("the next idea goes on from experiment-1, whose code lies in ")
    for rate in (0.02, 0.03, 0.04, 0.05, 0.06):
        view = judged(launcher, workspace, rate, max_repeats=3)
        status = projects.project_status(workspace, "digits")
        assert status.next == view.next, "wherever one asks"
    assert view.next is not None
    assert view.next.tool == "start_tuning"
    assert view.next.why.startswith("none of the last 5 ideas was kept: measure the chain once on new seeds")
    study = start_study(workspace, "digits", search=view.next.arguments["search"]).study_id
    launcher.wait()
    whole = study_status(workspace, study)
    assert whole.trials_done == 16, "its changes came with its name"
    assert whole.next is not None
    assert (whole.next.tool, whole.next.arguments["changes"]) == ("configure", {RATE: 0.1})
    assert whole.next.why == "the chain holds on new seeds: this brings it through the gates"
    moved = projects.configure(workspace, **whole.next.arguments)
    assert moved.next is not None
    assert moved.next.arguments.get("kind") == "smoke" or moved.next.tool == "advance"


@pytest.mark.requirement("TUNE-5", "GATE-7")
def test_one_that_is_stopped_leads_to_the_next_idea_and_no_gate(launcher: Scripted, workspace: Workspace) -> None:
    launcher.is_conducting = False
    begun = start_study(workspace, "digits", search={"experiment": {"idea": "stopped", "changes": {RATE: 0.1}}})
    assert projects.project_status(workspace, "digits").next.tool == "tuning_status"
    stopped = stop_study(workspace, begun.study_id)
    assert stopped.next is not None
    assert stopped.next.why.startswith("the next idea goes on from planned")
