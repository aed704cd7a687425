"""What was tried against an alert is read from the ledger, and what did not clear it is not proposed again."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from trainwright.tools import projects
from trainwright.tools.gates.cures import tried, untried
from trainwright.tools.gates.decide import evaluate
from trainwright.tools.gates.evidence import Evidence
from trainwright.tools.gates.outcomes import CheckResult
from trainwright.tools.gates.phases import Phase
from trainwright.tools.ledger import append, entries
from trainwright.tools.training_orchestrator import start_run, wait_for_run
from trainwright.tools.verification import verify_workspace
from trainwright.tools.workspace import Workspace
from trainwright.trainer.run import RunKind

pytestmark = pytest.mark.slow

NAME = "flowers"
LOWER = {"id": "lower_learning_rate", "text": "Divide it.", "changes": {"optimizer.learning_rate": 0.002}}
LOWER_AGAIN = {**LOWER, "changes": {"optimizer.learning_rate": 0.0002}}
CLIP = {"id": "clip_gradients", "text": "Clip.", "changes": {"training.clip_norm": 1.0}}
HELD = {"id": "as_it_is", "text": "Keep it.", "changes": {"optimizer.weight_decay": 0.01}}
"""Of the configuration before: nothing is tried by it."""
HALF = {"id": "half_the_rate", "text": "Halve it.", "changes": {"optimizer.learning_rate": 0.005}}
ADVICE = {"id": "layer_normalisation", "text": "Normalise inside the model.", "changes": {}}


def raised(measured: float, *fixes: dict[str, Any]) -> dict[str, Any]:
    return {
        "id": "exploding_gradients", "severity": "critical", "measured": measured, "signal": "applied_gradient_norm",
        "fixes": list(fixes), "document": "diagnostics/exploding_gradients.md",
    }  # fmt: skip


def diagnosed(workspace: Workspace, alert: dict[str, Any]) -> CheckResult:
    """Record a diagnosis of the present baseline with this alert alone; return what the check makes of it."""
    projects.diagnose(workspace, NAME)
    with workspace.session() as session:
        body = json.loads(json.dumps(entries(session, NAME, "diagnosis")[-1][1]))
        body["alerts"], body["assessment"]["recommendation"] = [alert], "debug"
        append(session, NAME, "diagnosis", body)
    with workspace.session() as session:
        report = evaluate(Evidence(session, workspace, NAME), Phase.DIAGNOSTICS)
    return next(check for check in report.checks if check.id == "diagnostics.no_critical_alert")


@pytest.mark.long
@pytest.mark.requirement("DIAG-8", "PHASE-10", "GATE-7")
def test_a_fix_that_did_not_clear_its_alert_is_told_with_its_values_and_not_proposed_again(
    at: Callable[[str], Workspace],
) -> None:
    workspace = at("based")
    first = diagnosed(workspace, raised(5000.0, LOWER, CLIP, ADVICE))
    assert (first.measured, first.next.arguments["changes"]) == ("exploding_gradients", LOWER["changes"])

    projects.configure(workspace, NAME, changes=first.next.arguments["changes"])
    trained(workspace)
    second = diagnosed(workspace, raised(4000.0, LOWER_AGAIN, CLIP, ADVICE))
    assert "tried without clearing it: lower_learning_rate (5000 -> 4000; best value" in second.measured
    assert second.next.arguments["changes"] == CLIP["changes"], "not the rate once more"

    left = diagnosed(workspace, raised(4000.0, LOWER_AGAIN, ADVICE))
    assert left.next.arguments["ask_owner"] == {"alert": "exploding_gradients"}
    assert "Normalise inside the model." in left.next.why


@pytest.mark.long
@pytest.mark.requirement("PHASE-10", "DIAG-8")
def test_a_diagnosis_recommends_to_conclude_once_two_fixes_brought_no_better_value(tmp_path: Path) -> None:
    workspace = Workspace.open(tmp_path / "world")
    config = {"model": {"use": "mlp"}, "data": {"use": "iris"}, "training": {"epochs": 12},
              "optimizer": {"learning_rate": 0.01}, "logging": {"tensorboard": False}}  # fmt: skip
    goal = {"metric": "loss", "direction": "minimize", "target": 0.0001}
    projects.create_project(workspace, NAME, intent="", goal=goal, config=config)
    trained(workspace)
    diagnosed(workspace, raised(5000.0, CLIP, HALF, HELD, ADVICE))
    projects.configure(workspace, NAME, changes={**CLIP["changes"], **HALF["changes"]})
    trained(workspace)
    answer = projects.diagnose(workspace, NAME)
    assert answer.recommendation == "conclude", (answer.reasons, answer.alerts)
    assert "2 fixes were tried without a better loss: " in answer.reasons[-1]
    report = (workspace.project_folder(NAME) / "diagnostic_report.md").read_text()
    assert "Ending below the goal" in report
    fixed = report.split("## Fixed alerts (1)")[1].split("## ")[0]
    assert "exploding_gradients (critical on baseline-flowers-" in fixed
    assert "cleared by" in fixed
    assert "exploding_gradients" not in report.split("## Open alerts")[1].split("## Fixed alerts")[0]
    projects.pass_gate(workspace, NAME, "diagnostics")
    call = projects.project_status(workspace, NAME).next
    assert call is not None
    assert (call.tool, "Or end below the goal, since 2 fixes" in call.why) == ("start_tuning", True)
    assert projects.pass_gate(workspace, NAME, "optimization", conclude=True).outcome == "concluded"
    assert not [one for one in verify_workspace(workspace.path).problems if "diagnosis of" not in one], (
        "the made-up one"
    )
    workspace.close()


@pytest.mark.requirement("DIAG-8")
@pytest.mark.parametrize(
    ("values", "goes_on"),
    [((0.2, 0.43), True), *(pytest.param(one, False, marks=pytest.mark.long) for one in ((0.2, 0.21), (0.43, 0.2)))],
)
def test_a_fix_that_came_much_nearer_to_the_goal_goes_on_in_its_direction(
    at: Callable[[str], Workspace], values: tuple[float, float], goes_on: bool
) -> None:
    workspace = at("based")
    with workspace.session() as session:
        before = list(Evidence(session, workspace, NAME).facts.started)[-1]
    projects.configure(workspace, NAME, changes=LOWER["changes"])
    trained(workspace)
    with workspace.session() as session:
        after = list(Evidence(session, workspace, NAME).facts.started)[-1]
        alerts = [{**raised(2.0, fix), "severity": "warning"} for fix in (LOWER, LOWER_AGAIN)]
        for run_id, value, alert in zip((before, after), values, alerts, strict=True):
            assessed = {"run_id": run_id, "alerts": [alert], "assessment": {"best_value": value}}
            append(session, NAME, "diagnosis", assessed)
    with workspace.session() as session:
        done = tried(Evidence(session, workspace, NAME), "exploding_gradients")
    assert [one.gained for one in done] == [goes_on]
    assert [fix["changes"] for fix in untried(alerts[1], done)] == [LOWER_AGAIN["changes"]] * goes_on
    assert untried(alerts[0], done) == [], "the same values are not proposed again"


@pytest.mark.requirement("DIAG-8")
@pytest.mark.parametrize(
    ("rate", "wide", "value", "severity", "left"),
    [
        (0.02, False, 0.85, "warning", []),
        (0.02, False, 0.95, "warning", ["raise"]),
        (0.005, False, 0.85, "warning", ["raise"]),
        (0.1, False, 0.85, "warning", ["raise"]),
        (0.02, True, 0.85, "warning", ["raise"]),
        (0.02, False, 0.85, "critical", ["raise"]),
        (0.03, False, 0.85, "warning", []),
    ],
)
def test_a_step_in_a_fixs_direction_that_made_the_run_worse_is_not_gone_further(
    rate: float, wide: bool, value: float, severity: str, left: list[str]
) -> None:
    """The runs: one at a rate of 0.01, one at `rate` (and with other clipping), and the first once more."""
    configs = [{"optimizer": {"learning_rate": one}} for one in (0.01, rate, 0.01)]
    configs[1] |= {"training": {"clip_norm": 0.5}} if wide else {}
    alert = {"id": "learning_rate_too_low", "severity": severity, "measured": 1.0,
             "fixes": [{"id": "raise", "text": "Raise it.", "changes": {"optimizer.learning_rate": 0.03}}]}  # fmt: skip
    bodies = [
        {"run_id": str(place), "alerts": [] if place == 1 else [alert], "assessment": {"best_value": best}}
        for place, best in enumerate((0.9, value, 0.9))
    ]
    base = {"model": {"use": "mlp"}, "data": {"use": "digits"}}
    evidence: Any = SimpleNamespace(
        entries=lambda kind: [(place, body) for place, body in enumerate(bodies)],
        facts=SimpleNamespace(
            started={str(place): SimpleNamespace(config_digest=place) for place in range(3)},
            configurations={
                place: SimpleNamespace(digest=place, values={**base, **one}) for place, one in enumerate(configs)
            },
        ),
        goal={"direction": "maximize", "target": 0.97},
    )
    done = tried(evidence, "learning_rate_too_low")
    assert [fix["id"] for fix in untried(alert, done)] == left


def trained(workspace: Workspace) -> None:
    """Take the project through planning and baseline."""
    for kind, phase in ((RunKind.SMOKE, "planning"), (RunKind.BASELINE, "baseline")):
        run_id = start_run(workspace, NAME, kind).run_id
        while not wait_for_run(workspace, run_id).is_ended:
            pass
        projects.pass_gate(workspace, NAME, phase)
