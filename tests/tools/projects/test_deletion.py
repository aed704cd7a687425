"""Deleting a project: only after the owner's grant, once, with its ledger and its use kept (GATE-4)."""

from __future__ import annotations

import shutil
import sqlite3
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.tools.killed_server import call_and_die, die

from trainwright.server.context import AppContext
from trainwright.tools.ledger import append
from trainwright.tools.limits import usages
from trainwright.tools.owner import Grantor, decide
from trainwright.tools.projects import create_project, delete_project, deletion, finish_deletions, project_status
from trainwright.tools.training_orchestrator import start_run, stop_run
from trainwright.tools.verification import verify_workspace
from trainwright.tools.workspace import Workspace
from trainwright.trainer.base.errors import ApprovalNeededError, ConflictError, NotFoundError
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
        return usages(session, workspace, NAME)[1].used.wall_clock_seconds


def test_a_project_is_deleted_after_the_grant_and_its_ledger_and_use_stay(at: Callable[[str], Workspace]) -> None:
    workspace = at("finished")
    before = used(workspace)
    grant(workspace)
    assert delete_project(workspace, NAME).runs == 4
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


def before_the_commit(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(deletion, "record", die)


def after_the_commit(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(deletion, "_remove_files", die)


def amid_the_files(patch: pytest.MonkeyPatch) -> None:
    """Once the first folder is gone."""
    remove = shutil.rmtree

    def remove_and_die(path: Path, **options: bool) -> None:
        remove(path, **options)
        die()

    patch.setattr(shutil, "rmtree", remove_and_die)


def delete_and_die(path: Path, where: Callable[[pytest.MonkeyPatch], None]) -> None:
    """Delete the project in a forked server that is killed where `where` says."""
    call_and_die(where, lambda: delete_project(Workspace.open(path), NAME))


def next_server(workspace: Workspace) -> None:
    app = AppContext(workspace.path)
    assert app.workspace().path == workspace.path
    app.close()


@pytest.mark.parametrize("where", [after_the_commit, amid_the_files])
def test_the_next_server_finishes_a_deletion_that_a_killed_one_began(
    at: Callable[[str], Workspace], where: Callable[[pytest.MonkeyPatch], None]
) -> None:
    workspace = at("finished")
    grant(workspace)
    delete_and_die(workspace.path, where)
    folder = workspace.project_folder(NAME)
    assert len(list(folder.iterdir())) > 1
    verified = verify_workspace(workspace.path)
    assert verified.problems == []
    left = [finding.what for finding in verified.findings if "while it deleted its project" in finding.what]
    assert len(left) == len(list(folder.glob("runs/*")))
    next_server(workspace)
    assert [path.name for path in folder.iterdir()] == ["ledger.jsonl"]
    assert verify_workspace(workspace.path).problems == []


def test_a_deletion_that_was_never_committed_leaves_the_project_whole(at: Callable[[str], Workspace]) -> None:
    workspace = at("planned")
    grant(workspace)
    delete_and_die(workspace.path, before_the_commit)
    next_server(workspace)
    assert project_status(workspace, NAME).phase == "baseline"  # type: ignore[union-attr]
    assert verify_workspace(workspace.path).problems == []


@pytest.mark.parametrize("is_granted", [True, False])
def test_files_go_only_where_a_granted_deletion_has_taken_the_rows(
    at: Callable[[str], Workspace], is_granted: bool
) -> None:
    workspace = at("created")
    with pytest.raises(ApprovalNeededError) as caught:
        delete_project(workspace, NAME)
    request = caught.value.details["requests"][0]["request"]
    if is_granted:
        decide(workspace, request, granted=True, by=OWNER)
    with workspace.session() as session:
        append(session, NAME, "project_deleted", {"request": request, "runs": []})
        if not is_granted:
            deletion._remove_rows(session, NAME)
    (folder := workspace.project_folder(NAME) / "notes").mkdir()
    assert finish_deletions(workspace) == []
    assert folder.is_dir()


def test_nothing_is_removed_through_a_link_and_edited_entries_stop_no_server(
    at: Callable[[str], Workspace], tmp_path: Path
) -> None:
    workspace = at("created")
    grant(workspace)
    delete_project(workspace, NAME)
    (elsewhere := tmp_path / "elsewhere").mkdir()
    (elsewhere / "notes.md").write_text("mine")
    shutil.rmtree(workspace.project_folder(NAME))
    workspace.project_folder(NAME).symlink_to(elsewhere)
    next_server(workspace)
    assert (elsewhere / "notes.md").read_text() == "mine"
    with sqlite3.connect(workspace.path / "workspace.sqlite") as connection:
        connection.execute("DROP TRIGGER ledger_no_update")
    for wish in ("[1]", '{"kind": "deletion", "name": [1]}', "7"):
        with sqlite3.connect(workspace.path / "workspace.sqlite") as connection:
            body = f'{{"wish": {wish}, "granted": true, "request": []}}'
            connection.execute("UPDATE ledger SET body = ? WHERE kind = 'owner_decision'", [body])
        next_server(workspace)
