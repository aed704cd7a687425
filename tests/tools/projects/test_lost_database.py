"""A workspace whose database is gone, held by another program, or on a disk that cannot be written."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.function_text import body_of

from trainwright.server import cli
from trainwright.tools import projects
from trainwright.tools.gates.evidence import Evidence
from trainwright.tools.hyperparameter_tuner.conductor import _end
from trainwright.tools.hyperparameter_tuner.study import _new
from trainwright.tools.ledger import record
from trainwright.tools.verification import verify_workspace
from trainwright.tools.verification.rebuilding import rebuild_workspace
from trainwright.tools.workspace import Workspace
from trainwright.tools.workspace.records import latest_config
from trainwright.tools.workspace.tables import Trial
from trainwright.trainer.base.errors import ConflictError, IntegrityError, StorageError
from trainwright.trainer.config import SearchSection

NAME = "flowers"
At = Callable[[str], Workspace]
COMMAND = [sys.executable, "-P", "-m", cli.__name__]
LOCKS = """
import sqlite3, sys
connection = sqlite3.connect(sys.argv[1], isolation_level=None)
connection.execute("BEGIN IMMEDIATE")
print("held", flush=True)
sys.stdin.read()
"""


def change_the_configuration() -> None:
    import sys
    from pathlib import Path

    from trainwright.tools import projects
    from trainwright.tools.workspace import Workspace
    from trainwright.trainer.base.errors import StorageError

    workspace = Workspace.open(Path(sys.argv[1]))
    try:
        projects.configure(workspace, "flowers", changes={"seed": 7}, begin_release=True)
    except StorageError as error:
        print(error)


def remove_database(workspace: Workspace) -> None:
    workspace.close()
    for path in workspace.path.glob("workspace.sqlite*"):
        path.unlink()


def add_study(workspace: Workspace) -> None:
    """Let a study of two trials end, by the functions that record one."""
    with workspace.session() as session:
        search = SearchSection.model_validate({"trials": 2, "space": {"seed": {"type": "int", "low": 1, "high": 9}}})
        begun = _new(Evidence(session, workspace, NAME), latest_config(session, NAME).values, search, "mine")
        record(session, NAME, begun)
        for number in range(2):
            told = {"parameters": {"seed": number}, "state": "completed", "value": 0.5, "intermediate": {"1": 0.4}}
            session.add(Trial(study=begun.study_id, number=number, **told))
    _end(workspace, begun.study_id, "completed", confirmation={"validated": False})


@pytest.mark.requirement("GATE-3", "PHASE-1")
@pytest.mark.parametrize("left", ["nothing", "an empty file", "a new database"])
def test_a_lost_database_is_never_taken_for_a_new_workspace_and_is_rebuilt_from_the_plain_ledgers(
    at: At, left: str
) -> None:
    workspace = at("finished")
    add_study(workspace)
    before = verify_workspace(workspace.path)
    assert {found.where for found in before.findings} == {"study"}, "no run of its trials: they were only recorded"
    remove_database(workspace)
    if left == "an empty file":
        (workspace.path / "workspace.sqlite").touch()
    elif left == "a new database":
        fresh = workspace.path.parent / "fresh"
        Workspace.open(fresh).close()
        shutil.move(fresh / "workspace.sqlite", workspace.path / "workspace.sqlite")
    for act in (lambda: Workspace.open(workspace.path), lambda: verify_workspace(workspace.path)):
        with pytest.raises(IntegrityError, match="JSONL mirrors beside it have entries") as met:
            act()
        assert "trainwright rebuild" in met.value.remedy
    made = rebuild_workspace(workspace.path)
    assert (made.projects, made.runs, made.problems) == ([NAME], 4, [])
    report = verify_workspace(workspace.path)
    assert (report.findings, report.head) == (before.findings, before.head)
    again = Workspace.open(workspace.path)
    found = projects.project_status(again, NAME)
    again.close()
    assert isinstance(found, projects.ProjectStatus)
    assert (found.finished, found.release, len(found.runs)) == (True, 1, 4)


@pytest.mark.long
@pytest.mark.requirement("GATE-3", "GATE-5")
def test_what_is_missing_or_damaged_in_the_plain_ledgers_is_named_by_the_command_and_by_verify(at: At) -> None:
    workspace = at("planned")
    with pytest.raises(ConflictError, match="is there, and holds"):
        rebuild_workspace(workspace.path)
    remove_database(workspace)
    ledger = workspace.project_folder(NAME) / "ledger.jsonl"
    lines = ledger.read_text().splitlines(keepends=True)
    ledger.write_text("".join([*lines[:2], lines[2].replace("smoke", "final"), *lines[3:]]))
    done = subprocess.run([*COMMAND, "rebuild", str(workspace.path)], capture_output=True, text=True, check=False)
    assert done.returncode == 1, done.stderr
    assert "line 3 is damaged, and left out" in done.stdout
    assert "ledger entries are missing: 3" in done.stdout
    assert "ledger entry 3 is missing (of 5)" in verify_workspace(workspace.path).problems


@pytest.mark.requirement("PHASE-1")
def test_a_locked_database_is_told_as_such_with_who_holds_it(at: At) -> None:
    workspace = at("created")
    database = workspace.path / "workspace.sqlite"
    waiting = Workspace(workspace.path, workspace.settings, patience_seconds=0.1)
    command = [sys.executable, "-c", LOCKS, str(database)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == "held\n"
        with pytest.raises(StorageError, match=rf"is locked by process {holder.pid} \(") as met:
            projects.project_status(waiting, NAME)
        holder.communicate("")
    assert "Call again" in met.value.remedy
    assert projects.project_status(waiting, NAME).next is not None  # type: ignore[union-attr]
    waiting.close()


@pytest.mark.long
@pytest.mark.requirement("PHASE-11", "GATE-3")
def test_an_archived_workspace_on_a_read_only_disk_is_verified_and_looked_at(at: At, tmp_path: Path) -> None:
    workspace = at("finished")
    (workspace.path.parent / "code").rename(tmp_path / "elsewhere")
    where = str(workspace.path)
    mount = f"mount --bind {where} {where} && mount -o remount,ro,bind {where} && cd / && "

    def archived(*words: str) -> subprocess.CompletedProcess[str]:
        command = ["unshare", "-rm", "bash", "-c", mount + '"$@"', "-", *words]
        return subprocess.run(command, capture_output=True, text=True, check=False)

    if archived("true").returncode != 0:
        pytest.skip("this machine mounts nothing read-only for an ordinary user")
    verified = archived(*COMMAND, "verify", where, "--json")
    assert verified.returncode == 0, verified.stdout + verified.stderr
    report = json.loads(verified.stdout)
    assert report["problems"] == []
    assert [finding["where"] for finding in report["findings"]] == ["release"]
    shown = archived(*COMMAND, "status", "-w", where, "--json")
    assert shown.returncode == 0, shown.stderr
    (status,) = json.loads(shown.stdout)
    assert status["finished"]
    assert any("code" in remark for remark in status["remarks"])
    refused = archived(sys.executable, "-P", "-c", body_of(change_the_configuration), where)
    assert re.search(r"cannot be written: it is archived", refused.stdout), refused.stderr
