"""Fixes of an alert are tried in short paired runs, and the first that cured is proposed, applied and re-gated."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from trainwright.tools import projects
from trainwright.tools.gates.evidence import Evidence
from trainwright.tools.gates.paired import cures_of, runs_of_cure
from trainwright.tools.launchers import read_launch
from trainwright.tools.ledger import append, entries
from trainwright.tools.projects.diagnosis_answer import DiagnosisAnswer
from trainwright.tools.training_orchestrator import start_run, stop_run, wait_for_run
from trainwright.tools.verification import verify_workspace
from trainwright.tools.workspace import Workspace
from trainwright.tools.workspace.tables import Run
from trainwright.trainer.base.errors import ConflictError, LimitReachedError, NotFoundError
from trainwright.trainer.run import RunKind

pytestmark = pytest.mark.slow

NAME = "sugar"
SICK: dict[str, Any] = {
    "model": {"use": "mlp"},
    "data": {"use": "diabetes"},
    "loss": "mse",
    "optimizer": {"learning_rate": 100.0},  # its loss climbs, and stays finite
    "training": {"epochs": 5},
    "logging": {"tensorboard": False},
    "monitoring": {"on_critical": "tell"},
}
CAUSE = "learning_rate_too_high"
GOAL = {"metric": "loss", "direction": "minimize", "target": 6000.0}


@pytest.fixture
def sick(tmp_path: Path) -> Iterator[Workspace]:
    """A project whose smoke run raised a critical alert."""
    workspace = Workspace.open(tmp_path / "workspace")
    projects.create_project(workspace, NAME, intent="", goal=GOAL, config=SICK)
    finished(workspace, start_run(workspace, NAME, RunKind.SMOKE).run_id)
    yield workspace
    for run in living(workspace):
        stop_run(workspace, run.id)
        finished(workspace, run.id)
    workspace.close()


def living(workspace: Workspace) -> list[Run]:
    with workspace.session() as session:
        return [run for run in session.query(Run) if not run.sealed]


def finished(workspace: Workspace, run_id: str) -> Any:
    while not (view := wait_for_run(workspace, run_id, poll_seconds=0.05)).is_ended:
        pass
    return view


def smoke_of(workspace: Workspace) -> str:
    with workspace.session() as session:
        return next(run.id for run in session.query(Run) if run.kind == RunKind.SMOKE)


def ended(workspace: Workspace, answer: DiagnosisAnswer) -> DiagnosisAnswer:
    """Follow `next` until the trial has ended."""
    while answer.trial is not None and answer.trial.state == "running":
        assert answer.next is not None
        if answer.next.tool == "run_status":
            view = finished(workspace, answer.next.arguments["run_id"])
            assert view.next.tool == "diagnose_run"
            assert view.next.arguments["run_id"] == answer.run_id
        answer = projects.diagnose(workspace, NAME, answer.run_id)
        time.sleep(0.05)
    return answer


@pytest.mark.requirement("DIAG-8", "DIAG-10", "GATE-7", "PHASE-4")
def test_a_rate_that_is_too_high_is_named_tried_cured_configured_and_fixed(sick: Workspace) -> None:
    smoke = smoke_of(sick)
    seen = projects.diagnose(sick, NAME, smoke)
    assert (seen.verdict, seen.alerts[0].id) == ("stop", CAUSE)
    assert seen.proposal is not None
    assert (seen.proposal.tool, seen.proposal.arguments["fix"]) == ("diagnose_run", "try")

    begun = projects.diagnose(sick, NAME, smoke, fix="try")
    assert begun.trial is not None
    assert begun.trial.state == "running"
    first = begun.trial.fixes[0]
    again = projects.diagnose(sick, NAME, smoke, fix="try")
    assert again.trial is not None
    assert again.trial.without == begun.trial.without, "one trial, however often it is asked for"

    after = ended(sick, again)
    assert after.trial is not None
    assert after.trial.failure is None
    results = {one.fix: one for one in after.trial.results}
    assert results[first].cured == "yes", results
    value = results[first]
    assert value.value_before is not None
    assert value.value_after is not None
    assert value.value_after < value.value_before
    assert results["longer_warmup"].cured == "no", results
    with sick.session() as session:
        evidence = Evidence(session, sick, NAME)
        (cure,) = cures_of(evidence)
        runs = runs_of_cure(evidence.facts, cure.cure_id)
        assert set(runs) == {"control", *results}
        assert all(evidence.run(run).sealed is not None for run in runs.values())
        assert {evidence.run(run).directory.specification().max_steps for run in runs.values()} == {cure.steps}
        assert evidence.smoke is not None
        assert evidence.smoke.id == smoke, "such a run counts for no gate"

    assert after.next is not None
    assert after.next.tool == "configure", "what was proven is the next call"
    assert after.next.arguments["changes"]["optimizer.learning_rate"] < SICK["optimizer"]["learning_rate"]
    assert "cured" in after.next.why
    left = {fix for alert in after.alerts if alert.id == CAUSE for fix in alert.fixes}
    assert not any("warmup" in fix for fix in left), "what did not help is not proposed again"
    same = projects.diagnose(sick, NAME, smoke, fix="longer_warmup")
    assert same.trial == after.trial, "it is known what that one does"

    projects.configure(sick, NAME, changes=after.next.arguments["changes"])
    for kind, phase in ((RunKind.SMOKE, "planning"), (RunKind.BASELINE, "baseline")):
        assert finished(sick, start_run(sick, NAME, kind).run_id).state == "completed"
        projects.pass_gate(sick, NAME, phase)
    healthy = projects.diagnose(sick, NAME)
    assert CAUSE not in [alert.id for alert in healthy.alerts if alert.severity == "critical"]
    assert healthy.report is not None
    forged_outcomes_are_found(sick)


def forged_outcomes_are_found(workspace: Workspace) -> None:
    """What a fix did is derived again from the sealed runs."""
    report = verify_workspace(workspace.path)
    assert (report.problems, report.checked["tried_fixes"]) == ([], 1)
    with workspace.session() as session:
        forged = json.loads(json.dumps(entries(session, NAME, "cure")[-1][1]))
        outcome = forged["outcomes"][-1]
        outcome["cured"] = not outcome["cured"]
        append(session, NAME, "cure", forged)
    (problem,) = verify_workspace(workspace.path).problems
    assert "trial of fixes" in problem
    assert f"{outcome['fix']} cured: recorded" in problem


@pytest.mark.requirement("GATE-4", "DIAG-10")
def test_a_trial_without_room_under_the_limits_is_refused_and_nothing_is_recorded(sick: Workspace) -> None:
    settings = sick.path / "settings.yaml"
    settings.write_text("limits:\n  project_wall_clock_seconds: 0.01\n")
    workspace = Workspace.open(sick.path)
    try:
        with pytest.raises(LimitReachedError, match="project_wall_clock_seconds is used up"):
            projects.diagnose(workspace, NAME, smoke_of(workspace), fix="try")
        with workspace.session() as session:
            assert entries(session, NAME, "cure") == []
            assert not [run for run in session.query(Run) if run.kind == RunKind.CURE]
    finally:
        workspace.close()
        settings.unlink()


@pytest.mark.requirement("DIAG-10", "TRAIN-5")
def test_a_trial_whose_process_is_killed_goes_on_with_the_runs_that_it_has(sick: Workspace) -> None:
    smoke = smoke_of(sick)
    begun = projects.diagnose(sick, NAME, smoke, fix="clip_gradients")
    assert begun.trial is not None
    with sick.session() as session:
        (cure,) = cures_of(Evidence(session, sick, NAME))
    launch = read_launch(sick.project_folder(NAME) / "cures" / cure.cure_id)
    assert launch is not None
    assert launch.process is not None
    launch.process.kill_tree()
    while launch.process.is_alive():
        time.sleep(0.01)
    after = ended(sick, projects.diagnose(sick, NAME, smoke))
    assert after.trial is not None
    assert after.trial.without == begun.trial.without
    assert [(one.fix, one.cured) for one in after.trial.results] == [("clip_gradients", "yes")]


@pytest.mark.requirement("DIAG-10")
def test_what_cannot_be_tried_is_refused_with_what_can(sick: Workspace) -> None:
    with pytest.raises(NotFoundError, match="has a fix 'pray'") as caught:
        projects.diagnose(sick, NAME, smoke_of(sick), fix="pray")
    assert "clip_gradients" in caught.value.remedy
    projects.configure(sick, NAME, changes={"optimizer.learning_rate": 0.01, "target_scaling": "standardize"})
    finished(sick, start_run(sick, NAME, RunKind.SMOKE).run_id)
    with sick.session() as session:
        newest = max(session.query(Run), key=lambda run: run.created_at).id
    with pytest.raises(ConflictError, match="Nothing is left to try"):
        projects.diagnose(sick, NAME, newest, fix="try")
