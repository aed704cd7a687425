"""Deleting a project: only after the owner's grant, once, with its ledger and its use kept (GATE-4)."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from trainwright.tools.ledger import append
from trainwright.tools.ledger.verification import verify_workspace
from trainwright.tools.limits import workspace_usage
from trainwright.tools.owner import Grantor, decide
from trainwright.tools.projects import create_project, delete_project, project_status
from trainwright.tools.training_orchestrator import start_run, stop_run
from trainwright.tools.workspace import Workspace
from trainwright.trainer.errors import ApprovalNeededError, ConflictError, NotFoundError
from trainwright.trainer.run import RunKind

pytestmark = pytest.mark.requirement("GATE-4")
OWNER = Grantor(way="terminal", user="ada", terminal="/dev/pts/1")
NAME = "flowers"
GOAL = {"metric": "accuracy", "direction": "maximize", "target": 0.6}


def grant(workspace: Workspace) -> None:
    """Ask for the deletion and answer as the owner."""
    with pytest.raises(ApprovalNeededError, match="deletion flowers") as caught:
        delete_project(workspace, NAME)
    decide(workspace, caught.value.details["requests"][0]["request"], granted=True, by=OWNER)


def used(workspace: Workspace) -> float:
    with workspace.session() as session:
        return workspace_usage(session, workspace).used.wall_clock_seconds


def test_a_project_is_deleted_after_the_grant_and_its_ledger_and_use_stay(at: Callable[[str], Workspace]) -> None:
    workspace = at("finished")
    before = used(workspace)
    grant(workspace)
    assert delete_project(workspace, NAME).runs > 4
    folder = workspace.project_folder(NAME)
    assert [path.name for path in folder.iterdir()] == ["ledger.jsonl"]
    with pytest.raises(NotFoundError, match="no project"):
        delete_project(workspace, NAME)
    assert project_status(workspace) == []
    assert used(workspace) == pytest.approx(before)
    assert verify_workspace(workspace.path).problems == []
    with pytest.raises(ConflictError, match="was deleted"):
        create_project(workspace, NAME, intent="again", goal=GOAL)


def test_work_under_way_is_stopped_first(at: Callable[[str], Workspace]) -> None:
    workspace = at("created")
    settings = workspace.path / "settings.yaml"
    settings.write_text(settings.read_text().replace("outer_launcher: false", "outer_launcher: true"))
    workspace.refreshed()
    waiting = {"distributed.launcher": "outer", "distributed.processes": 2}
    run = start_run(workspace, NAME, RunKind.SMOKE, changes=waiting)
    grant(workspace)
    with pytest.raises(ConflictError, match=run.run_id):
        delete_project(workspace, NAME)
    stop_run(workspace, run.run_id)
    assert delete_project(workspace, NAME).runs == 1


def test_a_deletion_that_the_owner_did_not_grant_hides_nothing(at: Callable[[str], Workspace]) -> None:
    workspace = at("planned")
    with pytest.raises(ApprovalNeededError, match="deletion flowers") as caught:
        delete_project(workspace, NAME)
    with workspace.session() as session:
        request = caught.value.details["requests"][0]["request"]
        append(session, NAME, "project_deleted", {"request": request, "runs": []})
    (workspace.project_folder(NAME) / "training_config.yaml").write_text("seed: 1")
    assert any("training_config.yaml" in problem for problem in verify_workspace(workspace.path).problems)
