"""The follower: one leads, another takes over, and it ends when no run is alive."""

from __future__ import annotations

import json
import os
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import psutil
import pytest
import yaml
from sqlalchemy import select
from tests.tools.alerts.conftest import EXPLODING, HEALTHY, RUN, running, write

from trainwright.tools.alerts.follower import FOLDER, LOCK, Follower, leading_lock
from trainwright.tools.alerts.notices import is_owing
from trainwright.tools.launchers import Launch, write_launch
from trainwright.tools.launchers.jobs import is_held
from trainwright.tools.workspace import Workspace
from trainwright.tools.workspace.tables import RaisedAlert
from trainwright.trainer.run import ProcessIdentity, RunDirectory, RunState

pytestmark = [pytest.mark.requirement("DIAG-9", "DIAG-11", "MON-1"), pytest.mark.slow]
KEEP = "import sys; open(sys.argv[1], 'a').write(sys.stdin.read() + '\\n')"
SECONDS = 60.0


def until(holds: Callable[[], bool]) -> None:
    """Wait until it holds."""
    deadline = time.monotonic() + SECONDS
    while not holds():
        assert time.monotonic() < deadline
        time.sleep(0.05)


def raised(workspace: Workspace) -> list[str]:
    """The alerts that the workspace knows of."""
    with workspace.session() as session:
        return list(session.scalars(select(RaisedAlert.id).where(RaisedAlert.severity != "info")))


@pytest.fixture
def alive(made_run: Callable[..., RunDirectory]) -> Iterator[RunDirectory]:
    """A run whose worker lives: this process holds its lock."""
    directory = made_run(RUN, state=RunState.RUNNING)
    with directory.lock():
        yield directory


def test_it_ends_when_no_run_is_alive_and_has_looked_at_what_ended(
    workspace: Workspace, made_run: Callable[..., RunDirectory]
) -> None:
    directory = made_run(RUN, state=RunState.RUNNING)
    follower = Follower(workspace)
    with directory.lock():
        assert follower.step()
        assert follower.leads
        write(directory, HEALTHY + EXPLODING)
        directory.write_status(running(state=RunState.COMPLETED))
    assert not follower.step()
    assert raised(workspace) == ["exploding_gradients"]
    follower.end()
    assert not is_held(leading_lock(workspace))


def test_of_two_one_looks_and_the_other_hears_of_it_and_takes_over(workspace: Workspace, alive: RunDirectory) -> None:
    heard: list[Any] = []
    other = Workspace.open(workspace.path)
    first = Follower(workspace)
    second = Follower(other, lambda project, run, alert: heard.append((project, run, alert and alert.id)))
    try:
        first.step()
        second.step()
        assert (first.leads, second.leads) == (True, False)
        write(alive, HEALTHY + EXPLODING)
        second.step()
        assert not raised(workspace), "it leaves the looking to the first"
        until(lambda: first.step() and bool(raised(workspace)))
        second.step()
        assert heard == [("digits", RUN, "exploding_gradients")]
        first.end()
        alive.append_event("alert", id="loss_spike", step=3)
        second.step()
        assert second.leads
        assert sorted(raised(workspace)) == ["exploding_gradients", "loss_spike"]
    finally:
        second.end()
        other.close()


def test_what_nothing_was_recorded_of_is_not_diagnosed_again(
    workspace: Workspace, alive: RunDirectory, monkeypatch: pytest.MonkeyPatch
) -> None:
    from trainwright.tools.alerts import looking

    looks: list[str] = []
    diagnose = looking.diagnose_record

    def counted(record: Any, *rest: Any) -> Any:
        looks.append(record.run.run_id)
        return diagnose(record, *rest)

    monkeypatch.setattr(looking, "diagnose_record", counted)
    write(alive, HEALTHY)
    follower = Follower(workspace)
    for _ in range(5):
        follower.step()
    assert len(looks) == 1
    alive.append_event("alert", id="loss_spike", step=3)
    follower.step()
    assert len(looks) == 2, "an alert of the worker's is looked at at once"
    follower.end()


def test_a_record_that_cannot_be_read_ends_nothing(workspace: Workspace, alive: RunDirectory) -> None:
    (alive.path / "metrics.sqlite").write_bytes(b"no database" * 100)
    follower = Follower(workspace)
    assert follower.step()
    assert follower.step()
    follower.end()


@pytest.fixture
def own_process(workspace: Workspace) -> Iterator[Callable[[], list[psutil.Process]]]:
    """Find the following processes of the workspace; none is left behind."""

    def find() -> list[psutil.Process]:
        found = []
        for child in psutil.Process().children(recursive=True):
            with suppress(psutil.Error):  # it ends just now
                found += [child] if str(workspace.path) in child.cmdline() else []
        return found

    yield find
    for process in find():
        process.terminate()
    psutil.wait_procs(find(), timeout=20)


@pytest.mark.long
def test_the_owner_is_notified_once_though_servers_and_the_follower_are_killed(
    workspace: Workspace, alive: RunDirectory, own_process: Callable[[], list[psutil.Process]], tmp_path: Path
) -> None:
    kept = tmp_path / "kept.jsonl"
    kept.touch()
    settings = {"notify": {"command": [sys.executable, "-c", KEEP, str(kept)]}}
    (workspace.path / "settings.yaml").write_text(yaml.safe_dump(settings))
    write_launch(alive.path, Launch(attempt=1, process=ProcessIdentity.of(os.getpid())))
    other = Workspace.open(workspace.path)
    servers = [Follower(workspace.refreshed()), Follower(other)]
    stop = threading.Event()
    threads = [threading.Thread(target=server.follow, args=(stop,)) for server in servers]
    try:
        for thread in threads:
            thread.start()
        until(lambda: is_held(leading_lock(workspace)) and len(own_process()) == 1)
        assert not any(server.leads for server in servers)
        write(alive, HEALTHY + EXPLODING)
        until(lambda: len(kept.read_text().splitlines()) == 1 and not is_owing(workspace))
        (killed,) = own_process()
        killed.kill()
        psutil.wait_procs([killed], timeout=20)
        alive.append_event("alert", id="loss_spike", severity="critical", step=3)
        until(lambda: len(kept.read_text().splitlines()) == 2)
    finally:
        stop.set()
        for thread in threads:
            thread.join()
        other.close()
    assert len(own_process()) == 1, "it outlives the servers"
    assert (workspace.path / FOLDER / LOCK).exists()
    told = [json.loads(line)["id"] for line in kept.read_text().splitlines()]
    assert told == ["exploding_gradients", "loss_spike"]
