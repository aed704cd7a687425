"""Runs of several projects on the GPUs of one machine: each worker is truly started on its own, and deaths free places.

The inventory is the owner's list, for a machine whose driver tells none; all else is real: processes, launches, ledger.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from typing import Any

import pytest
from tests.function_text import body_of

from trainwright.tools import ledger
from trainwright.tools.gpus import Need, Waiter, waiting
from trainwright.tools.gpus.assign import claims_of, waiters
from trainwright.tools.launchers import read_launch
from trainwright.tools.projects import create_project
from trainwright.tools.training_orchestrator import RunView, resume_run, start_run, stop_run, wait_for_run
from trainwright.tools.verification import verify_workspace
from trainwright.tools.workspace import Workspace
from trainwright.trainer.base.errors import ConfigurationError, LimitReachedError
from trainwright.trainer.run import RunKind

pytestmark = pytest.mark.requirement("TUNE-3")
GOAL = {"metric": "accuracy", "direction": "maximize", "target": 0.9}
CONFIG: dict[str, Any] = {
    "data": {"use": "digits"},
    "training": {"epochs": 2},
    "logging": {"tensorboard": False},
}
SHOWING = """
import json
import os
import time
from pathlib import Path

from torch import nn


def build(folder, name):
    draft = Path(folder, f"{name}.draft")
    draft.write_text(json.dumps({"shown": os.environ.get("CUDA_VISIBLE_DEVICES")}))
    draft.rename(Path(folder, f"{name}.json"))
    while not Path(folder, "go").exists():
        time.sleep(0.05)
    return nn.Sequential(nn.Flatten(), nn.Linear(64, 10))
"""


@pytest.fixture(scope="module", autouse=True)
def warm_runs() -> None:
    """Processes start as they do for users: what they are shown is the matter."""


def wait_elsewhere() -> None:
    import sys
    import time
    from pathlib import Path

    from trainwright.tools.gpus import Waiter, waiting
    from trainwright.tools.workspace import Workspace

    with waiting(Workspace.open(Path(sys.argv[1])), Waiter("elsewhere", since=1.0)):
        print("waits", flush=True)
        time.sleep(600)


def smoke(workspace: Workspace, project: str, **config: Any) -> RunView:
    """Start a run that says what its process is shown, and then waits until `go` is there."""
    folder = workspace.path.parent
    (folder / "showing.py").write_text(SHOWING)
    model = {"use": "showing.py:build", "args": {"folder": str(folder), "name": project}}
    create_project(workspace, project, intent="test", goal=GOAL, config=CONFIG | {"model": model} | config)
    return start_run(workspace, project, RunKind.SMOKE)


def shown_to(workspace: Workspace, project: str) -> str | None:
    """Return CUDA_VISIBLE_DEVICES as the project's newest worker that has begun found it."""
    path = workspace.path.parent / f"{project}.json"
    until(path.exists)
    shown = json.loads(path.read_text())["shown"]
    path.unlink()
    return None if shown is None else str(shown)


def kill(workspace: Workspace, project: str, run_id: str) -> None:
    launch = read_launch(workspace.run_directory(project, run_id).path)
    assert launch is not None
    assert launch.process is not None
    os.kill(launch.process.pid, signal.SIGKILL)
    while launch.process.is_alive():
        time.sleep(0.01)


def on_gpus(workspace: Workspace) -> set[str]:
    with workspace.session() as session:
        return {claim.run for claim in claims_of(session, workspace)}


def until(holds: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 120.0
    while not holds():
        assert time.monotonic() < deadline
        time.sleep(0.05)


def ended(workspace: Workspace, run_id: str) -> RunView:
    while not (view := wait_for_run(workspace, run_id, 50, poll_seconds=0.05)).is_ended:
        pass
    return view


@pytest.mark.long
def test_projects_get_a_gpu_each_and_a_killed_worker_leaves_its_place(
    workspace: Workspace, owner_lists: Callable[..., None]
) -> None:
    owner_lists(a="A100", b="A100")
    first, second = smoke(workspace, "one"), smoke(workspace, "two")
    assert (first.gpus, second.gpus) == (["GPU, A100 (GPU-a)"], ["GPU, A100 (GPU-b)"])
    assert shown_to(workspace, "one") == "GPU-a"
    assert shown_to(workspace, "two") == "GPU-b"
    with pytest.raises(LimitReachedError, match=first.run_id) as raised:
        start_run(workspace, "two", RunKind.SMOKE, idempotency_key="waits", gpu=Need(waits=True))
    assert raised.value.details["waits"], "a conductor tries again"
    third = smoke(workspace, "three")
    assert third.gpus == first.gpus, "a run that an agent starts shares rather than waits"
    assert any(first.run_id in note for note in third.taken_as or [])

    kill(workspace, "two", second.run_id)
    until(lambda: on_gpus(workspace) == {first.run_id, third.run_id})
    fourth = smoke(workspace, "four")
    assert fourth.gpus == second.gpus
    assert not fourth.taken_as
    kill(workspace, "one", first.run_id)
    kill(workspace, "three", third.run_id)
    until(lambda: on_gpus(workspace) == {fourth.run_id})
    resumed = resume_run(workspace, second.run_id)
    assert resumed.gpus == ["GPU, A100 (GPU-a)"], "another one of its kind"
    assert shown_to(workspace, "two") == "GPU-a"
    (workspace.path.parent / "go").touch()
    for run in (fourth, resumed):
        assert ended(workspace, run.run_id).state == "completed"
    for run in (first, third):
        ended(workspace, run.run_id)
    assert on_gpus(workspace) == set()
    with workspace.session() as session:
        [(_, begun)] = ledger.entries(session, "two", "run_started")
        [(_, again)] = ledger.entries(session, "two", "run_resumed")
    assert [begun["gpus"][0]["id"], again["gpus"][0]["id"]] == ["GPU-b", "GPU-a"]
    assert verify_workspace(workspace.path).problems == []


@pytest.mark.long
def test_a_run_on_the_cpu_and_one_without_gpus_are_started_as_ever(
    workspace: Workspace, owner_lists: Callable[..., None], monkeypatch: pytest.MonkeyPatch
) -> None:
    owner_lists(a="A100")
    on_cpu = smoke(workspace, "plain", training={"epochs": 2, "device": "cpu"})
    assert on_cpu.gpus is None
    assert shown_to(workspace, "plain") == ""
    stop_run(workspace, on_cpu.run_id)
    ended(workspace, on_cpu.run_id)


def test_more_processes_than_gpus_are_refused_before_anything_is_written(
    workspace: Workspace, owner_lists: Callable[..., None]
) -> None:
    owner_lists(a="A100", b="A100")
    with pytest.raises(ConfigurationError, match=r"3 processes .* may use 2: .*GPU-a.*GPU-b") as raised:
        smoke(workspace, "many", distributed={"processes": 3})
    assert "distributed.processes 2" in raised.value.remedy
    assert list((workspace.path / "projects" / "many").glob("runs/*")) == []


def test_a_waiter_is_seen_from_other_processes_until_it_is_killed(workspace: Workspace) -> None:
    command = [sys.executable, "-P", "-c", body_of(wait_elsewhere), str(workspace.path)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as elsewhere:
        assert elsewhere.stdout is not None
        assert elsewhere.stdout.readline() == "waits\n"
        with waiting(workspace, Waiter("here", since=0.5)):
            assert [waiter.project for waiter in waiters(workspace)] == ["here", "elsewhere"]
        assert waiters(workspace) == [Waiter("elsewhere", since=1.0)]
        elsewhere.kill()
    assert waiters(workspace) == []
    assert list((workspace.path / "cache" / "gpus").iterdir()) == []
