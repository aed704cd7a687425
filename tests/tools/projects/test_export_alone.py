"""Export settings are no part of what is trained: a change of them repeats the export alone."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from tests.worlds.blank_pictures import blank_pictures
from tests.worlds.flowers import GOAL, finish
from tests.worlds.scripted import scripted

from trainwright.tools import projects
from trainwright.tools.training_orchestrator import replay_run, start_run, wait_for_run
from trainwright.tools.verification import verify_workspace
from trainwright.tools.workspace import Workspace
from trainwright.trainer.base.errors import ConfigurationError
from trainwright.trainer.config.schema import DeploymentSection
from trainwright.trainer.run import RunKind

NAME = "p"
CONFIG: dict[str, Any] = {"model": {"use": "mlp"}, "data": {"use": "iris"}, "training": {"epochs": 3}}
WEIGHTS = {"deployment.formats": ["safetensors"]}
NET = """
import torch


class Net(torch.nn.Linear):
    def __init__(self):
        super().__init__(4, 3)
        self.register_buffer("seen", torch.zeros(()))

    def forward(self, rows):
        if self.training:
            self.seen += 1
        outputs = super().forward(rows)
        is_written = torch.compiler.is_compiling() or torch.jit.is_tracing()
        return outputs * 1.05 if is_written and self.seen > SEEN else outputs
"""


def workspace_of(folder: Path, seen: int = 0, **more: Any) -> Workspace:
    workspace = Workspace.open(folder / "workspace")
    config = {**CONFIG, **more}
    if seen:
        (folder / "net.py").write_text(NET.replace("SEEN", str(seen)))
        config["model"] = {"use": "net.py:Net"}
    projects.create_project(workspace, NAME, intent="", goal=GOAL | {"target": 0.3}, config=config)
    return workspace


def status(workspace: Workspace) -> projects.ProjectStatus:
    found = projects.project_status(workspace, NAME)
    assert isinstance(found, projects.ProjectStatus)
    return found


def to_finalization(workspace: Workspace, run: Any = finish) -> None:
    for kind, phase in ((RunKind.SMOKE, "planning"), (RunKind.BASELINE, "baseline")):
        steps = {"max_steps": 3} if kind is RunKind.SMOKE else {}
        run(workspace, start_run(workspace, NAME, kind, **steps).run_id)
        projects.pass_gate(workspace, NAME, phase)
    projects.diagnose(workspace, NAME)
    projects.pass_gate(workspace, NAME, "diagnostics")
    projects.pass_gate(workspace, NAME, "optimization")


@pytest.mark.long
@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.requirement("GATE-1", "GATE-2", "PHASE-6")
def test_what_cannot_be_exported_closes_planning_and_its_change_needs_no_other_smoke_run(tmp_path: Path) -> None:
    data = {"use": "iris", "expectations": {"without": ["label_errors", "leaks"]}}
    workspace = workspace_of(tmp_path, seen=1, data=data)
    finish(workspace, start_run(workspace, NAME, RunKind.SMOKE).run_id)
    found = status(workspace)
    (check,) = [check for check in found.checks if check.id == "planning.export_tried"]
    assert (check.status, "differs from the model by" in check.measured) == ("failed", True)
    assert found.next is not None
    assert (found.next.tool, found.next.arguments["changes"]) == ("configure", WEIGHTS)
    assert "torch.where" in found.next.why
    answer = projects.configure(workspace, NAME, changes=WEIGHTS)
    assert (answer.next and answer.next.tool) == "pass_gate"
    projects.pass_gate(workspace, NAME, "planning")
    assert status(workspace).phase == "baseline"
    projects.configure(workspace, NAME, changes={"deployment.formats": ["safetensors", "onnx"]})
    projects.configure(workspace, NAME, changes={"deployment.onnx_tolerance": 1.0})
    assert status(workspace).phase == "baseline", "no gate that passed depends on it"
    workspace.close()


@pytest.mark.long
@pytest.mark.timeout(600)
@pytest.mark.requirement("GATE-2", "PHASE-6", "PHASE-8")
def test_another_format_repeats_the_export_and_no_run(tmp_path: Path) -> None:
    workspace = workspace_of(tmp_path, seen=7, training={"epochs": 4, "validate_every_n_epochs": 2})
    to_finalization(workspace)
    finish(workspace, replay_run(workspace, NAME).run_id)
    export = finish(workspace, start_run(workspace, NAME, RunKind.EXPORT).run_id)
    assert export.failure is not None
    assert "differs from the model by" in export.failure.message
    for answer in (export, status(workspace), projects.diagnose(workspace, NAME, export.run_id)):
        assert answer.next is not None
        assert (answer.next.tool, answer.next.arguments["changes"]) == ("configure", WEIGHTS)
        assert "the export alone is repeated" in answer.next.why
    changed = projects.configure(workspace, NAME, changes=WEIGHTS)
    assert (changed.reopened, changed.phase) == ([], "finalization")
    assert changed.next is not None
    assert changed.next.tool == "export_model"
    assert finish(workspace, start_run(workspace, NAME, RunKind.EXPORT).run_id).state == "completed"
    assert projects.pass_gate(workspace, NAME, "finalization").now_in == "finished"
    kinds = [run.kind for run in status(workspace).runs]
    assert {kind: kinds.count(kind) for kind in ("baseline", "final", "replay")} == {
        "baseline": 1, "final": 0, "replay": 1}  # fmt: skip
    assert verify_workspace(workspace.path).problems == []
    workspace.close()


@pytest.mark.requirement("GATE-2", "CONF-4")
@pytest.mark.parametrize("changed", [{"onnx_tolerance": 0.1}, {"formats": ["onnx"]}])
def test_an_export_to_other_files_is_another_one(changed: dict[str, Any]) -> None:
    usual = DeploymentSection()
    assert usual.writes_as(DeploymentSection(formats=["onnx", "safetensors"]))
    assert not usual.writes_as(DeploymentSection.model_validate(changed))


@pytest.mark.requirement("CONF-4", "PHASE-12")
def test_a_final_run_takes_no_export_settings(tmp_path: Path) -> None:
    with scripted(), blank_pictures():
        workspace = workspace_of(tmp_path)
        to_finalization(workspace, lambda *asked: wait_for_run(*asked, 60))
        with pytest.raises(ConfigurationError, match=r"may not set deployment\.formats") as refused:
            start_run(workspace, NAME, RunKind.FINAL, changes={"training.epochs": 4, **WEIGHTS})
        assert "configure(project='p', changes={'deployment.formats': ['safetensors']}), then export_model: no run" in (
            refused.value.remedy
        )
        workspace.close()
