"""What the owner exempts: refused before, passed with the exemption after, printed in the report, and verified."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from trainwright.tools.owner import Grantor, decide
from trainwright.tools.projects import ProjectStatus, configure, create_project, pass_gate, project_status
from trainwright.tools.training_orchestrator import start_run, wait_for_run
from trainwright.tools.verification import verify_workspace
from trainwright.tools.workspace import Workspace
from trainwright.trainer.base.errors import GateRefusedError
from trainwright.trainer.run import RunKind

pytestmark = pytest.mark.slow

OWNER = Grantor(way="terminal", user="ada", terminal="/dev/pts/1")
NET = """
import torch
class Net(torch.nn.Linear):
    def __init__(self):
        super().__init__(4, 3)
    def forward(self, rows):
        torch.zeros(2).put_(torch.tensor([0]), torch.ones(1))
        return super().forward(rows)
"""


def smoke(workspace: Workspace) -> Any:
    view = start_run(workspace, "p", RunKind.SMOKE)
    for _ in range(4):
        view = wait_for_run(workspace, view.run_id, 50)
        if view.is_ended:
            return view
    raise AssertionError(view)


def status(workspace: Workspace) -> ProjectStatus:
    found = project_status(workspace, "p")
    assert isinstance(found, ProjectStatus)
    return found


def granted(workspace: Workspace, exemption: str) -> None:
    answer = configure(workspace, "p", ask_owner={"exemption": exemption})
    assert answer.requests is not None
    assert decide(workspace, answer.requests[0].request, granted=True, by=OWNER).state == "granted"


def outcomes(workspace: Workspace) -> dict[str, str]:
    return {check.id: check.status for check in status(workspace).checks}


@pytest.mark.requirement("REPRO-2", "GATE-4")
def test_planning_passes_with_the_owners_exemptions_and_says_so_in_its_report(tmp_path: Path) -> None:
    (tmp_path / "net.py").write_text(NET)
    workspace = Workspace.open(tmp_path / "workspace")
    settings = workspace.path / "settings.yaml"
    settings.write_text(settings.read_text().replace("require_git: false", "require_git: true"))
    workspace.refreshed()
    goal = {"metric": "accuracy", "direction": "maximize", "target": 0.6}
    config = {
        "model": {"use": "net.py:Net"},
        "data": {"use": "iris", "expectations": {"without": ["label_errors", "leaks"]}},
        "training": {"epochs": 1},
    }
    create_project(workspace, "p", intent="t", goal=goal, config=config)
    refused = smoke(workspace)
    assert refused.failure is not None
    assert "ask_owner={'exemption': 'put_'}" in refused.failure.remedy
    granted(workspace, "put_")
    assert smoke(workspace).state == "completed"
    found = outcomes(workspace)
    assert found["planning.determinism_probed"] == "passed_with_exemption"
    assert found["planning.code_captured"] == "failed"
    with pytest.raises(GateRefusedError, match="in a git repository as the owner demands") as caught:
        pass_gate(workspace, "p", "planning")
    assert "configure(project='p', ask_owner={'exemption': 'missing_git'})" in caught.value.remedy
    granted(workspace, "missing_git")
    answer = pass_gate(workspace, "p", "planning")
    assert {check.id for check in answer.checks if check.status == "passed_with_exemption"} == {
        "planning.determinism_probed",
        "planning.code_captured",
    }
    manifest = (workspace.project_folder("p") / "reproducibility_manifest.md").read_text()
    assert "## Granted by the owner" in manifest
    assert r"exemption put\_: granted by ada at a terminal" in manifest
    assert r"Non-deterministic operations that the owner exempted: put\_." in manifest
    assert verify_workspace(workspace.path).problems == []
    settings.write_text(settings.read_text().replace("approvals: [terminal]", "approvals: []"))
    workspace.refreshed()
    gate = status(workspace).gates["planning"]
    assert gate == "stale: exemptions: put_ -> none", "an exemption that is taken back takes its gate along"
    workspace.close()


COPYING = """
import torch
from torch.utils.data import TensorDataset


def build(config, context):
    rows = torch.randn(300, 4, generator=torch.Generator().manual_seed(0))
    splits = {"validation": rows[200:250], "test": rows[250:]}
    splits["train"] = torch.cat([rows[:200], splits["test"] * 1.0001])
    data = {name: TensorDataset(part, (part.sum(1) > 0).long()) for name, part in splits.items()}
    told = {"loss": "cross_entropy", "returns": "output", "metrics": ["accuracy"], "batch_size": 32}
    return {"model": torch.nn.Linear(4, 2), **told, **data}
"""


@pytest.mark.requirement("REPRO-4", "GATE-4")
def test_almost_equal_samples_keep_planning_closed_until_the_owner_exempts_them(tmp_path: Path) -> None:
    (tmp_path / "copying.py").write_text(COPYING)
    workspace = Workspace.open(tmp_path / "workspace")
    goal = {"metric": "accuracy", "direction": "maximize", "target": 0.6}
    config = {"task": {"use": "copying.py:build"}, "training": {"epochs": 1}}
    create_project(workspace, "p", intent="t", goal=goal, config=config)
    assert smoke(workspace).state == "completed"
    with pytest.raises(GateRefusedError, match="50 samples of train almost equal one of test") as caught:
        pass_gate(workspace, "p", "planning")
    (answer,) = caught.value.details["checks"]
    assert "samples 200 and 0, 201 and 1" in answer["next"]["why"]
    assert "configure(project='p', ask_owner={'exemption': 'alike_samples'})" in answer["next"]["why"]
    granted(workspace, "alike_samples")
    assert outcomes(workspace)["planning.data_fingerprinted"] == "passed_with_exemption"
    pass_gate(workspace, "p", "planning")
    manifest = (workspace.project_folder("p") / "reproducibility_manifest.md").read_text()
    assert "almost equal one of test (and 0 another of train); exempted by the owner" in manifest
    assert "be memorised, not learned" in manifest
    assert verify_workspace(workspace.path).problems == []
    workspace.close()
