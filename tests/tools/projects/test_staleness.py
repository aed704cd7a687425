"""A change of anything that a passed gate depends on makes the gate stale, and is named (PHASE-8)."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from trainwright.tools import projects
from trainwright.tools.training_orchestrator import start_run, wait_for_run
from trainwright.tools.verification import verify_workspace
from trainwright.tools.workspace import Workspace
from trainwright.trainer.base.errors import GateRefusedError
from trainwright.trainer.run import RunKind

NAME = "flowers"
At = Callable[[str], Workspace]


def status(workspace: Workspace) -> projects.ProjectStatus:
    found = projects.project_status(workspace, NAME)
    assert isinstance(found, projects.ProjectStatus)
    return found


@pytest.mark.requirement("PHASE-8", "PHASE-1")
def test_a_changed_configuration_closes_the_phases_after_planning_and_a_revert_opens_them(at: At) -> None:
    workspace = at("diagnosed")
    answer = projects.configure(workspace, NAME, changes={"optimizer.learning_rate": 0.01}, reason="try")
    assert answer.phase == "planning"
    reason = "configuration: optimizer.learning_rate 0.02 -> 0.01"
    assert answer.reopened == [f"planning: {reason}", "baseline", "diagnostics"]
    with pytest.raises(GateRefusedError, match=r"learning_rate 0\.02 -> 0\.01"):
        start_run(workspace, NAME, RunKind.BASELINE)
    projects.configure(workspace, NAME, changes={"optimizer.learning_rate": 0.02}, reason="back")
    assert status(workspace).phase == "optimization"


@pytest.mark.requirement("PHASE-8")
@pytest.mark.parametrize(
    ("file", "reason"), [("flower_model.py", "code: flower_model.py changed"), ("iris.csv", "data: iris.csv changed")]
)
def test_changed_code_or_data_makes_planning_stale_and_names_the_file(at: At, file: str, reason: str) -> None:
    workspace = at("based")
    path = workspace.path.parent / "code" / file
    path.write_text(path.read_text() + ("WIDTH = 1\n" if file.endswith(".py") else "\n"))
    assert status(workspace).phase == "planning"
    found = status(workspace)
    assert reason in found.gates["planning"]
    assert found.next is not None
    assert found.next.arguments["kind"] == "smoke"  # what stood on the old file is measured anew
    with pytest.raises(GateRefusedError, match=reason):
        projects.pass_gate(workspace, NAME, "planning")


def install(folder: Path, name: str, version: str) -> None:
    """Put a package's record there, as an installer would leave it."""
    record = folder / f"{name}-{version}.dist-info"
    record.mkdir()
    (record / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n")


def finish(workspace: Workspace, run_id: str) -> Any:
    """Wait until a run has ended."""
    while not (view := wait_for_run(workspace, run_id, 50)).is_ended:
        pass
    return view


@pytest.mark.requirement("PHASE-8", "REPRO-3")
def test_a_changed_package_makes_planning_stale_and_names_it(
    at: At, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    workspace = at("based")
    install(tmp_path, "surprise", "9.9")
    monkeypatch.syspath_prepend(tmp_path)
    found = status(workspace)
    assert found.phase == "diagnostics", "no run imported it"
    assert found.remarks == ["environment: surprise absent -> 9.9 (not imported)"]
    install(tmp_path, "numpy", "9.9")
    found = status(workspace)
    assert found.phase == "planning"
    assert re.search(r"environment: numpy \S+ -> 9\.9$", found.gates["planning"])


@pytest.mark.requirement("PHASE-8", "REPRO-3")
def test_how_code_is_written_is_a_remark_and_what_it_does_makes_planning_stale(at: At) -> None:
    workspace = at("planned")
    path = workspace.path.parent / "code" / "flower_model.py"
    text = path.read_text()
    path.write_text(f'"""What flowers are told apart by."""\n{text}# petals\n'.replace("(4, width)", "( 4,  width )"))
    found = status(workspace)
    assert found.phase == "baseline"
    assert "code: flower_model.py changed in comments, docstrings or formatting alone" in found.remarks
    run = finish(workspace, start_run(workspace, NAME, RunKind.BASELINE).run_id)
    assert run.state == "completed", run.failure
    answer = projects.pass_gate(workspace, NAME, "baseline")
    assert {check.status for check in answer.checks if check.id == "baseline.same_evidence"} == {"passed"}
    assert verify_workspace(workspace.path).findings == []
    path.write_text(text.replace("ReLU", "GELU"))
    assert "code: flower_model.py changed" in status(workspace).gates["planning"]
