"""A sick baseline does not get past diagnostics, and the refusal carries the change that mends it."""

from __future__ import annotations

from pathlib import Path

import pytest

from trainwright.tools import projects
from trainwright.tools.training_orchestrator import start_run, wait_for_run
from trainwright.tools.workspace import Workspace
from trainwright.trainer.errors import GateRefusedError
from trainwright.trainer.run import RunKind

CONFIG = {
    "model": {"use": "mlp"},
    "data": {"use": "diabetes"},  # targets around 150 and a squared loss: gradients in the thousands
    "loss": "mse",
    "optimizer": {"learning_rate": 100.0},  # its loss climbs, and stays finite
    "training": {"epochs": 5},
    "logging": {"tensorboard": False},
}
GOAL = {"metric": "loss", "direction": "minimize", "target": 3000.0}


@pytest.mark.requirement("PHASE-2", "DIAG-1", "GATE-2")
def test_a_smoke_run_that_diverged_is_told_with_its_cause_and_the_change_that_mends_it(tmp_path: Path) -> None:
    workspace = Workspace.open(tmp_path / "workspace")
    sick = CONFIG | {"optimizer": {"name": "sgd", "learning_rate": 1000.0}}
    projects.create_project(workspace, "sugar", intent="", goal=GOAL, config=sick)
    run_id = start_run(workspace, "sugar", RunKind.SMOKE).run_id
    while not (view := wait_for_run(workspace, run_id)).is_ended:
        pass
    with pytest.raises(GateRefusedError) as caught:
        projects.pass_gate(workspace, "sugar", "planning")
    assert f"measured failed, {view.step} steps: The " in caught.value.message
    assert "is not finite at step" in caught.value.message
    remedy = caught.value.details["next"]
    assert (remedy["tool"], remedy["arguments"]["changes"]) == ("configure", {"optimizer.learning_rate": 100.0})
    workspace.close()


@pytest.mark.requirement("PHASE-4", "DIAG-3", "DIAG-8", "GATE-2")
def test_exploding_gradients_close_the_diagnostics_gate_and_the_remedy_is_a_change_that_validates(
    tmp_path: Path,
) -> None:
    workspace = Workspace.open(tmp_path / "workspace")
    projects.create_project(workspace, "sugar", intent="", goal=GOAL, config=CONFIG)
    for kind, phase in ((RunKind.SMOKE, "planning"), (RunKind.BASELINE, "baseline")):
        run_id = start_run(workspace, "sugar", kind).run_id
        while not (view := wait_for_run(workspace, run_id)).is_ended:
            pass
        assert view.state == "completed", view.failure
        projects.pass_gate(workspace, "sugar", phase)

    diagnosis = projects.diagnose(workspace, "sugar")
    assert diagnosis.recommendation == "debug"
    assert [alert.id for alert in diagnosis.alerts if alert.severity == "critical"] == ["exploding_gradients"]
    with pytest.raises(GateRefusedError, match="diagnostics.no_critical_alert") as caught:
        projects.pass_gate(workspace, "sugar", "diagnostics")

    remedy = caught.value.details["next"]
    assert remedy["tool"] == "configure"
    answer = projects.configure(workspace, "sugar", changes=remedy["arguments"]["changes"], reason="the gate's remedy")
    assert answer.changed["training.clip_norm"] == [None, 1.0]
    assert answer.phase == "planning"
    workspace.close()
