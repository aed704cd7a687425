"""What was tried against an alert is read from the ledger, and what did not clear it is not proposed again."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from trainwright.tools import projects
from trainwright.tools.gates.evidence import Evidence
from trainwright.tools.gates.keeper import evaluate
from trainwright.tools.gates.outcomes import CheckResult
from trainwright.tools.gates.phases import Phase
from trainwright.tools.ledger import append, entries
from trainwright.tools.training_orchestrator import start_run, wait_for_run
from trainwright.tools.workspace import Workspace
from trainwright.trainer.run import RunKind

NAME = "flowers"
LOWER = {"id": "lower_learning_rate", "text": "Divide it.", "changes": {"optimizer.learning_rate": 0.002}}
LOWER_AGAIN = {**LOWER, "changes": {"optimizer.learning_rate": 0.0002}}
CLIP = {"id": "clip_gradients", "text": "Clip.", "changes": {"training.clip_norm": 1.0}}
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


@pytest.mark.requirement("DIAG-8", "PHASE-10", "GATE-7")
def test_a_fix_that_did_not_clear_its_alert_is_told_with_its_values_and_not_proposed_again(
    at: Callable[[str], Workspace],
) -> None:
    workspace = at("based")
    first = diagnosed(workspace, raised(5000.0, LOWER, CLIP, ADVICE))
    assert (first.measured, first.next.arguments["changes"]) == ("exploding_gradients", LOWER["changes"])

    projects.configure(workspace, NAME, changes=first.next.arguments["changes"])
    for kind, phase in ((RunKind.SMOKE, "planning"), (RunKind.BASELINE, "baseline")):
        run_id = start_run(workspace, NAME, kind).run_id
        while not wait_for_run(workspace, run_id).is_ended:
            pass
        projects.pass_gate(workspace, NAME, phase)
    second = diagnosed(workspace, raised(4000.0, LOWER_AGAIN, CLIP, ADVICE))
    assert "tried without clearing it: lower_learning_rate (5000 -> 4000; best value" in second.measured
    assert second.next.arguments["changes"] == CLIP["changes"], "not the rate once more"

    left = diagnosed(workspace, raised(4000.0, LOWER_AGAIN, ADVICE))
    assert left.next.arguments["ask_owner"] == {"alert": "exploding_gradients"}
    assert "Normalise inside the model." in left.next.why
