"""Fixes of an alert are tried in short paired runs, and the first that cured is proposed, applied and re-gated."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from tests.worlds.records import Script
from tests.worlds.scripted import Scripted, scripted

from trainwright.tools import projects
from trainwright.tools.gates.cures import cures_of, runs_of_cure
from trainwright.tools.gates.evidence import Evidence
from trainwright.tools.ledger import append, entries
from trainwright.tools.training_orchestrator import start_run
from trainwright.tools.verification import verify_workspace
from trainwright.tools.workspace import Workspace
from trainwright.tools.workspace.tables import Run
from trainwright.trainer.base.errors import ConflictError, LimitReachedError, NotFoundError
from trainwright.trainer.run import RunKind, RunSpecification

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


def series(plan: RunSpecification) -> dict[str, Callable[[int], float]]:
    """A loss that climbs with the sick rate, whatever the warm-up, and falls with a lower one or with clipping."""
    is_sick = plan.config.optimizer.learning_rate == 100.0 and plan.config.training.clip_norm is None
    return {"train/loss": (lambda step: 10.0 * step) if is_sick else (lambda step: 10.0 / step)}


def curve(plan: RunSpecification, epoch: int) -> dict[str, float]:
    return {"loss": series(plan)["train/loss"](epoch)}


SCRIPT = Script(curve=curve, series=series)


@pytest.fixture
def launcher() -> Iterator[Scripted]:
    with scripted(SCRIPT) as launcher:
        yield launcher


@pytest.fixture
def sick(tmp_path: Path, launcher: Scripted) -> Iterator[Workspace]:
    """A project whose smoke run raised a critical alert."""
    workspace = Workspace.open(tmp_path / "workspace")
    projects.create_project(workspace, NAME, intent="", goal=GOAL, config=SICK)
    start_run(workspace, NAME, RunKind.SMOKE)
    yield workspace
    launcher.wait()
    workspace.close()


def smoke_of(workspace: Workspace) -> str:
    with workspace.session() as session:
        return next(run.id for run in session.query(Run) if run.kind == RunKind.SMOKE)


@pytest.mark.requirement("DIAG-8", "DIAG-10", "GATE-7", "PHASE-4")
def test_a_rate_that_is_too_high_is_named_tried_cured_configured_and_fixed(sick: Workspace, launcher: Scripted) -> None:
    smoke = smoke_of(sick)
    seen = projects.diagnose(sick, NAME, smoke)
    assert (seen.verdict, seen.alerts[0].id) == ("stop", CAUSE)
    assert seen.next is not None
    assert (seen.next.tool, seen.next.arguments["fix"]) == ("diagnose_run", "try")

    answered = threading.Event()

    def held(plan: RunSpecification, epoch: int) -> dict[str, float]:
        assert len(launcher.started) == 2 or answered.wait(60), "the run without a fix is the second of all"
        return curve(plan, epoch)

    launcher.script = replace(SCRIPT, curve=held)
    begun = projects.diagnose(sick, NAME, smoke, fix="try")
    assert begun.trial is not None
    assert begun.trial.state == "running"
    first = begun.trial.fixes[0]
    again = projects.diagnose(sick, NAME, smoke, fix="try")
    assert again.trial is not None
    assert again.trial.without == begun.trial.without, "one trial, however often it is asked for"

    the_project_waits(sick, launcher)
    answered.set()
    launcher.wait()
    after = projects.diagnose(sick, NAME, smoke)
    assert after.trial is not None
    assert after.trial.failure is None
    results = {one.fix: one for one in after.trial.results}
    assert results[first].cured == "yes", results
    assert (results[first].value_before, results[first].value_after) == (50.0, 2.0), "of the fifth epoch"
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
        start_run(sick, NAME, kind)
        projects.pass_gate(sick, NAME, phase)
    healthy = projects.diagnose(sick, NAME)
    assert CAUSE not in [alert.id for alert in healthy.alerts if alert.severity == "critical"]
    assert healthy.report is not None
    forged_outcomes_are_found(sick)


def the_project_waits(workspace: Workspace, launcher: Scripted) -> None:
    """What comes next for the project waits for the trial's run, too: its result would come too late later."""
    until = time.monotonic() + 60.0
    while len(launcher.started) < 3 and time.monotonic() < until:
        time.sleep(0.05)
    found = projects.project_status(workspace, NAME)
    assert isinstance(found, projects.ProjectStatus)
    assert found.next is not None
    assert (found.next.tool, found.next.why) == ("run_status", f"fixes of {CAUSE} are being tried")


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
@pytest.mark.parametrize("kills", [1, 2])
def test_a_trial_whose_process_is_killed_goes_on_with_the_runs_that_it_has(
    sick: Workspace, launcher: Scripted, kills: int
) -> None:
    smoke = smoke_of(sick)

    def killed_on_the_way(plan: RunSpecification, epoch: int) -> dict[str, float]:
        if plan.kind is RunKind.CURE and len(launcher.started) == 1 + kills:
            launcher.script = SCRIPT
            raise SystemExit
        return curve(plan, epoch)

    launcher.script = replace(SCRIPT, curve=killed_on_the_way)
    begun = projects.diagnose(sick, NAME, smoke, fix="clip_gradients")
    assert begun.trial is not None
    launcher.wait()
    assert projects.diagnose(sick, NAME, smoke).trial is not None  # which starts another process
    launcher.wait()
    after = projects.diagnose(sick, NAME, smoke)
    assert after.trial is not None
    assert after.trial.without == begun.trial.without
    assert [(one.fix, one.cured) for one in after.trial.results] == [("clip_gradients", "yes")]
    with sick.session() as session:
        assert session.query(Run).filter(Run.kind == RunKind.CURE).count() == 2, "none twice"


@pytest.mark.requirement("DIAG-10")
def test_what_cannot_be_tried_is_refused_with_what_can(sick: Workspace) -> None:
    with pytest.raises(NotFoundError, match="has a fix 'pray'") as caught:
        projects.diagnose(sick, NAME, smoke_of(sick), fix="pray")
    assert "clip_gradients" in caught.value.remedy
    projects.configure(sick, NAME, changes={"optimizer.learning_rate": 0.01, "target_scaling": "standardize"})
    newest = start_run(sick, NAME, RunKind.SMOKE).run_id
    with pytest.raises(ConflictError, match="Nothing is left to try"):
        projects.diagnose(sick, NAME, newest, fix="try")
