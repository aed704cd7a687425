"""An experiment whose conductor ends on its way, by runs that are written: the same verdict, no run lost or doubled."""

from __future__ import annotations

import random
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest
from tests.tools.hyperparameter_tuner.conftest import CONFIG
from tests.worlds.blank_pictures import blank_pictures
from tests.worlds.records import Script
from tests.worlds.scripted import Scripted, scripted

from trainwright.tools import projects
from trainwright.tools.gates.ideas import DOCUMENT
from trainwright.tools.hyperparameter_tuner import StudyView, start_study, stop_study, study_status
from trainwright.tools.hyperparameter_tuner.ablation.section import ExperimentSection
from trainwright.tools.hyperparameter_tuner.experiments.judging import judge
from trainwright.tools.training_orchestrator import start_run, wait_for_run
from trainwright.tools.verification import verify_workspace
from trainwright.tools.workspace import Workspace
from trainwright.tools.workspace.records import runs_of
from trainwright.trainer.base.errors import ConfigurationError
from trainwright.trainer.run import RunKind, RunSpecification, RunState
from trainwright.trainer.run.evidence import Resolved

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]

RATE = "optimizer.learning_rate"
GOOD: dict[str, Any] = {"optimizer": {"learning_rate": 0.01}, "training": {"epochs": 2}}


def curve(plan: RunSpecification, epoch: int) -> dict[str, float]:
    """A rate of 0.1 is better by 0.05 on every seed, which adds a little, and any other than the plan's is worse."""
    drawn = random.Random(f"{plan.config.seed} {plan.config.optimizer.learning_rate}")
    better = {0.1: 0.05, 0.01: 0.0}.get(plan.config.optimizer.learning_rate or 0.0, -0.05)
    value = 0.8 + better + drawn.uniform(-0.01, 0.01) - 0.1 / epoch
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
    projects.configure(workspace, "digits", changes={"optimizer.weight_decay": 0.02}, reason="another plan")
    for kind, phase in ((RunKind.SMOKE, "planning"), (RunKind.BASELINE, "baseline")):
        wait_for_run(workspace, start_run(workspace, "digits", kind).run_id, 60)
        projects.pass_gate(workspace, "digits", phase)
    assert judged(launcher, workspace, 0.02, max_repeats=3).study_id != first.study_id, "of another configuration"


@pytest.mark.requirement("TUNE-5")
def test_a_confirmation_takes_all_its_seeds_and_says_whether_the_chain_holds(
    launcher: Scripted, workspace: Workspace
) -> None:
    judged(launcher, workspace, 0.03, max_repeats=3)
    lost = judged(launcher, workspace, 0.03, against="planned", confirm=True, max_repeats=3)
    assert lost.trials_done == 6, "no look on the way"
    assert lost.ablation is not None
    assert lost.ablation["verdict"] != "kept"
    assert ", judged for the 2. time. " in lost.ablation["conclusion"]
    assert lost.ablation["conclusion"].endswith("It is not shown to hold on new seeds: release nothing for it.")
    assert lost.next is not None
    assert "experiment" not in str(lost.next), "the project goes on without it"


@pytest.mark.requirement("TUNE-5")
@pytest.mark.parametrize(
    ("margin", "lines", "parameters", "verdict"),
    [
        (
            0.05,
            (1, 9),
            100,
            "kept: -0.01 (-0.02 to +0) over 5 seeds, 0.79 against 0.8, no worse than by 0.05, with 8 lines",
        ),
        (0.05, (9, 1), 60, "with 40 parameters fewer."),
        (0.05, (9, 1), 100, "discarded"),
        (0.0, (1, 9), 60, "discarded"),
        (0.005, (1, 9), 60, "discarded"),
    ],
)
def test_what_is_simpler_may_be_worse_by_what_was_stated(
    margin: float, lines: tuple[int, int], parameters: int, verdict: str
) -> None:
    def arm(value: float, size: int) -> dict[str, Any]:
        run = SimpleNamespace(resolved=Resolved(parameters=size), status=SimpleNamespace(state=RunState.COMPLETED))
        values = [value + 0.001 * number for number in range(-2, 3)]
        return {"values": values, "mean": value, "failed": 0, "runs": [run]}

    state: dict[str, Any] = {"idea": "a part less", "number": 1, "changes": {}, "against": "planned"}
    codes = {"code": "b", "against_code": "a", "against_changes": {}}
    section = ExperimentSection(**state, **codes, margin=margin, lines=lines)
    worse = {"mean": -0.01, "low": -0.02, "high": 0.0, "differences": [-0.01 + 0.001 * n for n in (-2, -1, 0, 1, 2)]}
    arms = [arm(0.8, 100), arm(0.79, parameters)]
    found = judge(section, arms, [worse], "", direction="maximize", looks=(3, 5), rows=1000)
    assert verdict in found["conclusion"]


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
    begun = start_study(workspace, "digits", search={"experiment": {"idea": "stopped", "changes": {RATE: 0.3}}})
    assert projects.project_status(workspace, "digits").next.tool == "tuning_status"
    stopped = stop_study(workspace, begun.study_id)
    assert stopped.next is not None
    assert stopped.next.tool == "diagnose_run", "ideas wait for the diagnosis"
    projects.diagnose(workspace, "digits")
    projects.pass_gate(workspace, "digits", "diagnostics")
    begun = start_study(workspace, "digits", search={"experiment": {"idea": "another", "changes": {RATE: 0.2}}})
    going_on = stop_study(workspace, begun.study_id).next
    assert going_on is not None
    assert going_on.why.startswith("the next idea goes on from planned")
    assert ". Or leave the ideas: start_tuning(" in going_on.why
    launcher.is_conducting = True
    kept = judged(launcher, workspace, 0.1)
    table = (workspace.project_folder("digits") / "experiments.tsv").read_text().splitlines()
    assert [line.split("\t")[3] for line in table] == ["verdict", "stopped", "stopped", "kept"]
    launcher.is_conducting = False
    begun = start_study(workspace, "digits", search={"experiment": {"idea": "cut off", "changes": {RATE: 0.4}}})
    assert kept.ablation is not None
    after = stop_study(workspace, begun.study_id).next
    assert after is not None
    whole = {"idea": "the whole chain", "code": kept.ablation["experiment"], "against": "planned", "confirm": True}
    assert f"or end: measure the chain once, search={{'experiment': {whole!r}}}" in after.why
    search = {"space": {RATE: {"low": 0.01, "high": 0.1, "log": True}}, "trials": 3}
    stop_study(workspace, start_study(workspace, "digits", search=search).study_id)
    left = projects.project_status(workspace, "digits").next
    assert "the next idea" not in left.why, "a search was begun since"
