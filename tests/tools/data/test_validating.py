"""Validation on request reaches what a run may reach: the owner's variables and places, and user code no secret."""

from __future__ import annotations

import shutil
import signal
import sqlite3
import subprocess
import time
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
import yaml
from tests.companions import DVC

from trainwright.tools import projects
from trainwright.tools.data import look_at, request_validation
from trainwright.tools.data.validating import ValidationAnswer
from trainwright.tools.launchers import read_launch
from trainwright.tools.workspace import Workspace
from trainwright.trainer.base.errors import ConfigurationError
from trainwright.trainer.data.dvc import PROGRAM
from trainwright.trainer.run import ProcessIdentity

pytestmark = pytest.mark.requirement("PIPE-2", "TRAIN-1")
NAME = "rows"
GOAL = {"metric": "accuracy", "direction": "maximize", "value": 0.5}
SECRET = "postgresql://me:hunter2-hunter2@nowhere/db"
CODE = """
import os
from pathlib import Path
import torch

def rows(url_env, marker):
    if not Path(marker).exists():
        raise RuntimeError("the disk is away")
    if url_env in os.environ:
        raise RuntimeError("the secret is in the environment of user code")
    x = torch.arange(400, dtype=torch.float32).reshape(200, 2)
    return x, (x[:, 0] > 200).long()
"""


def project(workspace: Workspace, root: Path, **data: Any) -> None:
    root.mkdir(parents=True, exist_ok=True)
    (root / "own.py").write_text(CODE)
    config = {"code_root": str(root), "model": {"use": "mlp"}, "data": data, "metrics": ["accuracy"]}
    projects.create_project(workspace, NAME, intent="tell rows apart", goal=GOAL, config=config)


@pytest.fixture
def workspace(tmp_path: Path) -> Workspace:
    found = Workspace.open(tmp_path / "workspace")
    yield found
    found.close()


def test_data_that_the_owner_does_not_give_are_not_reached_by_a_validation(
    workspace: Workspace, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("BILLING_API_KEY", "sk-not-for-data")
    args = {"path": "https://elsewhere.example/rows.csv", "target": "y", "storage": {"token_env": "BILLING_API_KEY"}}
    project(workspace, tmp_path / "workspace" / "code", use="csv", args=args)
    with pytest.raises(ConfigurationError, match="BILLING_API_KEY to no data"):
        request_validation(workspace, NAME)
    settings = workspace.path / "settings.yaml"
    allowed = {"data_locations": ["s3://ours/*"], "data_variables": ["*"]}
    settings.write_text(yaml.safe_dump(yaml.safe_load(settings.read_text()) | allowed))
    again = Workspace.open(workspace.path)
    with pytest.raises(ConfigurationError, match="no data come from https://elsewhere.example"):
        request_validation(again, NAME)
    again.close()
    assert not (workspace.path / "cache" / "validation").exists()


@pytest.mark.slow
def test_user_code_finds_no_secret_and_a_failure_is_tried_again(
    workspace: Workspace, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ROWS_DB_URL", SECRET)
    marker = tmp_path / "disk"
    args = {"url_env": "ROWS_DB_URL", "marker": str(marker)}
    project(workspace, tmp_path / "workspace" / "code", use="own.py:rows", args=args)

    def answer() -> ValidationAnswer:
        return look_at(request_validation(workspace, NAME), 60.0)

    failed = answer()
    assert failed.state == "failed"
    assert "the disk is away" in str(failed.failure)
    marker.touch()
    found = answer()
    assert (found.state, found.failure) == ("done", None)
    written = [path for path in workspace.path.rglob("*") if path.is_file()]
    assert [path for path in written if b"hunter2" in path.read_bytes()] == []


def process_of(workspace: Workspace) -> ProcessIdentity:
    launch = read_launch(workspace.path / "cache" / "validation" / NAME)
    assert launch is not None
    assert launch.process is not None
    return launch.process


def test_a_changed_file_ends_the_validation_of_what_it_was(workspace: Workspace, tmp_path: Path) -> None:
    root = tmp_path / "workspace" / "code"
    (root / "rows").mkdir(parents=True)
    (root / "rows" / "1.csv").write_text("x,y\n" + "1,0\n2,1\n" * 40)
    project(workspace, root, use="csv", args={"path": "rows/1.csv", "target": "y"})
    first = request_validation(workspace, NAME)
    former = process_of(workspace)
    assert request_validation(workspace, NAME).order == first.order
    assert process_of(workspace) == former
    (root / "rows" / "1.csv").write_text("x,y\n" + "1,0\n2,1\n" * 41)
    assert request_validation(workspace, NAME).order != first.order
    assert process_of(workspace) != former
    deadline = time.monotonic() + 10
    while former.is_alive() and time.monotonic() < deadline:  # killed: a busy kernel takes a moment
        time.sleep(0.01)
    assert not former.is_alive()
    process_of(workspace).kill_tree()


@pytest.mark.long
def test_a_killed_validation_is_told_and_a_changed_database_validated_anew(
    workspace: Workspace, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = tmp_path / "rows.db"
    with closing(sqlite3.connect(place)) as database, database:
        database.execute("CREATE TABLE rows (id integer PRIMARY KEY, x real, y integer)")
        database.executemany("INSERT INTO rows VALUES (?, ?, ?)", [(n, n / 3, n % 2) for n in range(100)])
    monkeypatch.setenv("ROWS_DB_URL", f"sqlite:///{place}")
    args = {"url_env": "ROWS_DB_URL", "table": "rows", "target": "y", "features": ["x"]}
    project(workspace, tmp_path / "workspace" / "code", use="sql", args=args)

    def answer(*, suggest: bool = False) -> ValidationAnswer:
        return look_at(request_validation(workspace, NAME, suggest=suggest), 60.0, suggest=suggest)

    request_validation(workspace, NAME)
    process_of(workspace).send_signal(signal.SIGKILL)
    killed = answer()
    assert killed.state == "failed"
    assert "ended without an answer" in str(killed.failure)
    assert killed.next is not None
    assert (answer().rows, answer(suggest=True).rows) == (100, 100)
    with closing(sqlite3.connect(place)) as database, database:
        database.execute("INSERT INTO rows VALUES (100, 1, 1)")
    assert answer().rows == 101


@pytest.mark.long
@pytest.mark.requirement("PIPE-4")
@pytest.mark.companions("dvc")
def test_a_project_is_made_and_validated_where_its_rows_are_only_a_file_of_dvc(
    workspace: Workspace, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(PROGRAM, str(DVC))
    monkeypatch.setenv("DVC_NO_ANALYTICS", "1")
    root = tmp_path / "workspace" / "code"
    root.mkdir(parents=True)
    (root / "a.csv").write_text("x,y\n" + "".join(f"{n},{n % 2}\n" for n in range(200)))
    store = ["remote", "add", "-d", "store", str(tmp_path / "store")]
    for command in (["init", "--no-scm"], store, ["add", "a.csv"], ["push"]):
        subprocess.run([str(DVC), *command], cwd=root, check=True, capture_output=True)
    (root / "a.csv").unlink()
    shutil.rmtree(root / ".dvc" / "cache")
    with pytest.raises(ConfigurationError, match=r"no file at .*b\.csv"):
        project(workspace, root, use="csv", args={"path": "b.csv", "target": "y"})
    project(workspace, root, use="csv", args={"path": "a.csv", "target": "y"})
    found = look_at(request_validation(workspace, NAME), 100.0)
    assert (found.state, found.failure, found.rows) == ("done", None, 200)
    assert (root / "a.csv").is_file()
