"""An export whose ONNX file differs fails alike each time, and looks at the test split: next leads elsewhere."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.worlds.flowers import GOAL, finish

from trainwright.tools import projects
from trainwright.tools.training_orchestrator import replay_run, start_run
from trainwright.tools.workspace import Workspace
from trainwright.trainer.run import RunKind

pytestmark = pytest.mark.slow

NET = """
import torch


class Net(torch.nn.Linear):
    def __init__(self):
        super().__init__(4, 3)

    def forward(self, rows):
        outputs = super().forward(rows)
        return outputs * 1.05 if torch.compiler.is_exporting() or torch.jit.is_tracing() else outputs
"""


@pytest.mark.timeout(600)
@pytest.mark.requirement("GATE-2", "PHASE-6")
def test_next_changes_what_made_the_export_fail(tmp_path: Path) -> None:
    (tmp_path / "net.py").write_text(NET)
    workspace = Workspace.open(tmp_path / "workspace")
    config = {"model": {"use": "net.py:Net"}, "data": {"use": "iris"}, "training": {"epochs": 3},
              "optimizer": {"learning_rate": 0.05}}  # fmt: skip
    projects.create_project(workspace, "p", intent="", goal=GOAL | {"target": 0.3}, config=config)
    for kind, phase in ((RunKind.SMOKE, "planning"), (RunKind.BASELINE, "baseline")):
        finish(workspace, start_run(workspace, "p", kind).run_id)
        projects.pass_gate(workspace, "p", phase)
    projects.diagnose(workspace, "p")
    projects.pass_gate(workspace, "p", "diagnostics")
    projects.pass_gate(workspace, "p", "optimization")
    finish(workspace, start_run(workspace, "p", RunKind.FINAL).run_id)
    finish(workspace, replay_run(workspace, "p").run_id)
    export = finish(workspace, start_run(workspace, "p", RunKind.EXPORT).run_id)
    assert export.failure is not None
    assert "differs from the model by" in export.failure.message
    changes = {"deployment.formats": ["safetensors"]}
    for answer in (export, projects.project_status(workspace, "p"), projects.diagnose(workspace, "p", export.run_id)):
        assert answer.next is not None  # type: ignore[union-attr]
        arguments = {"project": "p", "kind": "final", "changes": changes}
        assert (answer.next.tool, answer.next.arguments) == ("start_training", arguments)  # type: ignore[union-attr]
    finish(workspace, start_run(workspace, "p", RunKind.FINAL, changes=changes).run_id)
    after = projects.project_status(workspace, "p")
    assert isinstance(after, projects.ProjectStatus)
    assert (after.phase, after.next and after.next.tool) == ("finalization", "verify_reproducibility")
    workspace.close()
