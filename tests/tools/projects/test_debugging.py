"""A sick baseline does not get past diagnostics, and the refusal carries the change that mends it."""

from __future__ import annotations

from pathlib import Path

import pytest

from trainwright.tools import projects
from trainwright.tools.documents.rendering import render
from trainwright.tools.gates.cures import accepted_open
from trainwright.tools.gates.evidence import Evidence
from trainwright.tools.owner.requests import Grantor, decide
from trainwright.tools.training_orchestrator import start_run, wait_for_run
from trainwright.tools.training_orchestrator.launch import watched_under
from trainwright.tools.workspace import Workspace
from trainwright.trainer.base.errors import GateRefusedError
from trainwright.trainer.run import RunKind

pytestmark = pytest.mark.slow

TELL = {"on_critical": "tell"}
"""These runs are to end by themselves, and to be diagnosed then."""
CONFIG = {
    "model": {"use": "mlp"},
    "data": {
        "use": "diabetes",
        "expectations": {"without": ["label_errors", "leaks"]},
    },  # targets around 150 and a squared loss: gradients in the thousands
    "loss": "mse",
    "optimizer": {"learning_rate": 100.0},  # its loss climbs, and stays finite
    "training": {"epochs": 5},
    "logging": {"tensorboard": False},
    "monitoring": TELL,
}
GOAL = {"metric": "loss", "direction": "minimize", "target": 3000.0}


def reach(workspace: Workspace, *steps: tuple[RunKind, str]) -> None:
    for kind, phase in steps:
        run_id = start_run(workspace, "sugar", kind).run_id
        while not (view := wait_for_run(workspace, run_id)).is_ended:
            pass
        assert view.state == "completed", view.failure
        projects.pass_gate(workspace, "sugar", phase)


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
    reach(workspace, (RunKind.SMOKE, "planning"), (RunKind.BASELINE, "baseline"))
    diagnosis = projects.diagnose(workspace, "sugar")
    assert diagnosis.recommendation == "debug"
    critical = [alert.id for alert in diagnosis.alerts if alert.severity == "critical"]
    assert critical[0] == "unscaled_targets", "the cause comes first"
    assert "exploding_gradients" in critical
    with pytest.raises(GateRefusedError, match="diagnostics.no_critical_alert") as caught:
        projects.pass_gate(workspace, "sugar", "diagnostics")

    remedy = caught.value.details["next"]
    assert remedy["tool"] == "configure"
    answer = projects.configure(workspace, "sugar", changes=remedy["arguments"]["changes"], reason="the gate's remedy")
    assert answer.changed["target_scaling"] == [None, "standardize"]
    assert answer.phase == "planning"
    workspace.close()


DIVERGING = """
import torch
from torch import nn
from torch.utils.data import TensorDataset

def build(config, context):
    x = torch.randn(96, 4, generator=torch.Generator().manual_seed(0))
    train, validation, test = (TensorDataset(part, 1e4 * part[:, :1]) for part in x.split([64, 16, 16]))
    model = nn.Linear(4, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=1.0)

    def loss_of(batch):
        return nn.functional.mse_loss(model(batch[0]), batch[1])

    def train_step(model, batch, context):
        optimizer.zero_grad()
        loss = loss_of(batch)
        loss.backward()
        optimizer.step()
        return {"loss": loss}

    def validation_step(model, batch, context):
        return {"loss": loss_of(batch)}

    return {"model": model, "train": train, "validation": validation, "test": test, "optimizers": {"adam": optimizer},
            "train_step": train_step, "validation_step": validation_step, "batch_size": 8}
"""


@pytest.mark.long
@pytest.mark.requirement("DIAG-3", "PHASE-10")
def test_an_alert_that_no_key_can_cure_is_the_owners_to_accept(tmp_path: Path) -> None:
    workspace = Workspace.open(tmp_path / "workspace")
    (tmp_path / "task.py").write_text(DIVERGING)
    config = {
        "code_root": str(tmp_path),
        "task": {"use": "task.py:build"},
        "training": {"epochs": 4},
        "monitoring": TELL,
    }
    projects.create_project(workspace, "sugar", intent="", goal=GOAL, config=config)
    reach(workspace, (RunKind.SMOKE, "planning"), (RunKind.BASELINE, "baseline"))
    diagnosis = projects.diagnose(workspace, "sugar")
    (alert,) = [alert for alert in diagnosis.alerts if alert.severity == "critical"]
    assert alert.id == "exploding_gradients", alert
    assert not [fix for fix in alert.fixes if "configure(" in fix], "train_step makes the updates"
    assert (diagnosis.next.tool, diagnosis.next.arguments["ask_owner"]) == ("configure", {"alert": alert.id})

    waiting = projects.configure(workspace, "sugar", ask_owner={"alert": alert.id})
    assert "the owner is asked to accept exploding_gradients: `trainwright approve`" in waiting.next.why
    grantor = Grantor(way="terminal", user="ada")
    assert decide(workspace, waiting.requests[0].request, granted=True, by=grantor).state == "granted"
    passed = {check.id: check for check in projects.pass_gate(workspace, "sugar", "diagnostics").checks}
    assert passed["diagnostics.no_critical_alert"].status == "passed_with_exemption"
    assert passed["diagnostics.no_critical_alert"].measured == "the owner accepts: exploding_gradients"
    assert passed["diagnostics.recommendation_made"].status == "passed_with_exemption"
    with workspace.session() as session:
        evidence = Evidence(session, workspace, "sugar")
        watched = {one.id for one in watched_under(evidence)}
        assert "slow_data_loading" in watched
        assert "exploding_gradients" not in watched, "what the owner accepts stops no run"
        card = render("reports/model_card.md.j2", open_alerts=accepted_open(evidence), intent="")
    assert "**Open alert, accepted by the owner: exploding_gradients.**" in card
    workspace.close()
