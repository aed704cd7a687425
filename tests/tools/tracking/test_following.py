"""Runs are shown while they train and after an outage; a tracker that fails is only behind, and holds nothing up."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import closing
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
from tests.worlds.flowers import NAME, finish

from trainwright.tools.launchers import read_launch
from trainwright.tools.projects import configure
from trainwright.tools.tracking.process import catch_up, ensure_follower, is_followed, left_behind
from trainwright.tools.tracking.tracker import folder_of
from trainwright.tools.training_orchestrator import start_run
from trainwright.tools.workspace import Workspace
from trainwright.trainer.run import RunKind

pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore")]
needs_mlflow = pytest.mark.skipif(
    find_spec("mlflow") is None, reason="pip install '.[mlflow]': mlflow is not installed"
)
PROGRAM = Path(sys.executable).with_name("trainwright")


@pytest.fixture
def workspace(at: Callable[[str], Workspace]) -> Iterator[Workspace]:
    """The project before its first run; what follows it ends with the test."""
    opened = at("created")
    yield opened
    for folder in (opened.path / "trackers").glob("*/"):
        launch = read_launch(folder)
        if launch is not None and launch.process is not None:
            launch.process.kill_tree()


def smoke(workspace: Workspace, key: str, **logging: Any) -> Any:
    """Train a few steps, shown as `logging` says; return the ended run and what its start said."""
    configure(workspace, NAME, changes={f"logging.{name}": value for name, value in logging.items()})
    view = start_run(workspace, NAME, RunKind.SMOKE, idempotency_key=key)
    ended = finish(workspace, view.run_id)
    assert ended.state == "completed", ended.failure
    return ended, view.taken_as or []


def until(condition: Callable[[], Any]) -> None:
    while not condition():
        time.sleep(0.1)


@pytest.mark.long
@needs_mlflow
@pytest.mark.requirement("TRAIN-9", "REPRO-6")
def test_a_run_is_followed_as_it_trains_with_the_same_bits(workspace: Workspace) -> None:
    from mlflow.tracking import MlflowClient

    from trainwright.tools.tracking.tracker import mlflow_database

    run, said = smoke(workspace, "shown", mlflow=True)
    assert not [line for line in said if "shows nothing" in line]
    other, _ = smoke(workspace, "alone", mlflow=False)
    directories = [workspace.run_directory(NAME, one.run_id) for one in (run, other)]
    digests = {directory.evidence("summary")["weights_digest"] for directory in directories}  # type: ignore[index]
    assert len(digests) == 1
    assert not [path.name for path in directories[0].path.rglob("*") if "mlflow" in path.name]
    until(lambda: left_behind(workspace, "mlflow").get("left") == [])
    client = MlflowClient(mlflow_database(workspace))
    (experiment,) = [one for one in client.search_experiments() if one.name == NAME]
    found = {one.data.tags["trainwright.run_id"]: one for one in client.search_runs([experiment.experiment_id])}
    assert found[run.run_id].info.status == "FINISHED"
    assert other.run_id not in found, "it did not ask for it"
    until(lambda: not is_followed(workspace, "mlflow"))


@needs_mlflow
@pytest.mark.long
@pytest.mark.requirement("TRAIN-9")
def test_a_server_that_never_answers_holds_nothing_up_and_is_caught_up_with(
    workspace: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MLFLOW_TRACKING_USERNAME", "ada")
    monkeypatch.setenv("MLFLOW_TRACKING_PASSWORD", "hunter2-hunter2")
    with closing(socket.create_server(("127.0.0.1", 0))) as silent:  # it takes requests, and answers none
        monkeypatch.setenv("MLFLOW_TRACKING_URI", f"http://127.0.0.1:{silent.getsockname()[1]}")
        run, _ = smoke(workspace, "unheard", mlflow=True)
        until(lambda: left_behind(workspace, "mlflow").get("error"))
        assert left_behind(workspace, "mlflow")["left"] == [run.run_id]
    launch = read_launch(folder_of(workspace, "mlflow"))
    assert launch is not None
    assert launch.process is not None
    launch.process.kill_tree()
    until(lambda: not is_followed(workspace, "mlflow"))
    written = [path for path in workspace.path.rglob("*") if path.is_file()]
    assert [path for path in written if b"hunter2" in path.read_bytes()] == []
    monkeypatch.delenv("MLFLOW_TRACKING_URI")
    catch_up(workspace)  # as the next server does
    until(lambda: left_behind(workspace, "mlflow").get("left") == [])


@pytest.mark.requirement("TRAIN-9")
def test_what_cannot_be_shown_is_said_at_the_start_and_the_run_goes_on(
    workspace: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    (workspace.path / "trackers").write_text("in the way")
    _, said = smoke(workspace, "in the way", wandb=True)
    assert [line for line in said if line.startswith("logging.wandb shows nothing:")]
    (workspace.path / "trackers").unlink()
    if find_spec("mlflow") is not None:
        monkeypatch.setenv("MLFLOW_TRACKING_URI", "https://ada:hunter2@example.org")
        problem = ensure_follower(workspace, "mlflow")
        assert problem is not None
        assert "MLFLOW_TRACKING_PASSWORD" in problem
        assert "hunter2" not in problem


@pytest.mark.long
@pytest.mark.requirement("MON-2")
def test_one_command_opens_tensorboard_on_the_runs_by_their_names(workspace: Workspace) -> None:
    smoke(workspace, "with events", tensorboard=True)
    page = subprocess.Popen(
        [PROGRAM, "open", "tensorboard", "--workspace", workspace.path], stdout=subprocess.PIPE, text=True,
        env=os.environ | {"COLUMNS": "200"},
    )  # fmt: skip
    assert page.stdout is not None
    address = page.stdout.readline().strip()
    try:
        assert address.startswith("http://127.0.0.1:")

        def runs() -> list[str]:
            with urllib.request.urlopen(f"{address}/data/runs", timeout=60) as answer:  # noqa: S310 - our own
                found: list[str] = json.load(answer)
                return found

        until(lambda: runs() == [f"{NAME}/smoke-1"])
    finally:
        page.send_signal(signal.SIGINT)
        assert page.wait(60) == 0
    with (
        pytest.raises(OSError, match=r"refused|reset"),
        closing(socket.create_connection(("127.0.0.1", int(address.rpartition(":")[2])), 5)),
    ):
        pass
