"""What is told of a run, from its directory alone; no worker is needed to see this."""

from __future__ import annotations

import signal
import subprocess
import sys
import threading
import time
from typing import TYPE_CHECKING, Any

import psutil
import pytest

from trainwright.tools.launchers import Launch
from trainwright.tools.launchers.local import UNCLAIMED_SECONDS
from trainwright.tools.training_orchestrator import follow as following
from trainwright.tools.training_orchestrator import refresh_project, refresh_run, resume_run, stop_run, wait_for_run
from trainwright.tools.training_orchestrator import wait as waiting
from trainwright.tools.training_orchestrator.views import view_run
from trainwright.tools.workspace import Workspace
from trainwright.tools.workspace.records import get_run
from trainwright.trainer.base.errors import ConflictError, LimitReachedError, NotFoundError
from trainwright.trainer.run import ProcessIdentity, RunDirectory, RunState
from trainwright.trainer.run.artifacts import Program
from trainwright.trainer.run.digests import run_digests

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    Entries = Callable[[str], list[tuple[str, dict[str, Any]]]]

pytestmark = pytest.mark.slow

HOLDER = """
import fcntl, signal, sys, time
signal.signal(signal.SIGTERM, lambda *_: print("asked", flush=True))
file = open(sys.argv[1], "ab")
fcntl.flock(file, fcntl.LOCK_EX)
print("held", flush=True)
while True:
    time.sleep(60)
"""


@pytest.fixture
def deaf_worker(made_run: Callable[..., RunDirectory]) -> Iterator[tuple[RunDirectory, subprocess.Popen[str]]]:
    """A process that holds a run's lock and takes no notice of SIGTERM."""
    directory = made_run(state=RunState.RUNNING)
    command = [sys.executable, "-c", HOLDER, str(directory.path / "run.lock")]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "held\n"
        yield directory, process
        process.kill()


def running_since(directory: RunDirectory, process: subprocess.Popen[str], started_at: float) -> None:
    status = directory.status().model_copy(
        update={"started_at": started_at, "process": ProcessIdentity.of(process.pid)}
    )
    directory.write_status(status)


@pytest.mark.requirement("GATE-3", "TRAIN-10")
def test_an_ended_run_is_sealed_once_by_many_servers(
    workspace: Workspace, completed_run: RunDirectory, entries_of: Entries
) -> None:
    servers = [Workspace.open(workspace.path) for _ in range(4)]
    barrier = threading.Barrier(len(servers))

    def refresh(server: Workspace) -> None:
        barrier.wait()
        refresh_run(server, completed_run.run_id)

    threads = [threading.Thread(target=refresh, args=(server,)) for server in servers]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for server in servers:
        server.close()
    ((kind, body),) = entries_of(completed_run.run_id)
    assert kind == "run_sealed"
    assert (body["state"], body["attempt"]) == ("completed", 1)
    assert body["digests"] == run_digests(completed_run)
    assert {"run.json", "status.json", "events.jsonl", "metrics.sqlite", "artifacts/summary.json"} <= body[
        "digests"
    ].keys()
    with workspace.session() as session:
        row = get_run(session, completed_run.run_id)
    assert (row.state, row.sealed, row.summary) == ("completed", True, {"steps": 9, "stop_reason": "completed"})
    assert refresh_project(workspace, "digits") == []


def test_a_run_is_not_sealed_while_its_worker_still_holds_it(
    workspace: Workspace, deaf_worker: tuple[RunDirectory, subprocess.Popen[str]], entries_of: Entries
) -> None:
    directory, process = deaf_worker
    directory.write_status(directory.status().model_copy(update={"state": RunState.COMPLETED}))
    view = refresh_run(workspace, directory.run_id)
    assert view.state is RunState.COMPLETED
    assert not view.is_ended
    assert entries_of(directory.run_id) == []
    process.kill()
    process.wait()
    assert refresh_run(workspace, directory.run_id).is_ended
    assert len(entries_of(directory.run_id)) == 1


@pytest.mark.requirement("MCP-3")
def test_a_launch_that_its_server_did_not_live_to_make_reads_interrupted(
    workspace: Workspace, made_run: Callable[..., RunDirectory], entries_of: Entries
) -> None:
    fresh = made_run("baseline-fresh", launch=Launch(attempt=1))
    lost = made_run("baseline-lost", launch=Launch(attempt=1, launched_at=time.time() - UNCLAIMED_SECONDS - 1))
    assert refresh_run(workspace, fresh.run_id).state is RunState.CREATED
    view = refresh_run(workspace, lost.run_id)
    assert view.state is RunState.INTERRUPTED
    assert view.failure is not None
    assert "its server died" in view.failure.message
    assert view.next is not None
    assert view.next.tool == "resume_training"
    assert entries_of(lost.run_id) == []  # a late worker might still begin, so nothing is sealed


@pytest.mark.requirement("MCP-3")
def test_a_worker_that_left_no_last_record_reads_interrupted_with_what_it_printed(
    workspace: Workspace, made_run: Callable[..., RunDirectory]
) -> None:
    directory = made_run(state=RunState.RUNNING, step=7, stage="training")
    directory.log.write_text("".join(f"line {n}\n" for n in range(100)))
    view = wait_for_run(workspace, directory.run_id, 50.0)
    assert view.state is RunState.INTERRUPTED
    assert view.failure is not None
    assert "at step 7 while training" in view.failure.message
    assert view.failure.last_lines[-1] == "line 99"
    assert len(view.failure.last_lines) <= 12


@pytest.mark.parametrize("damage", [b"", b"{", b"[]", b"\xff\xfe", b'{"state": "flying"}'])
def test_a_damaged_status_is_told_not_raised(workspace: Workspace, completed_run: RunDirectory, damage: bytes) -> None:
    (completed_run.path / "status.json").write_bytes(damage)
    view = refresh_run(workspace, completed_run.run_id)
    assert view.state is RunState.FAILED
    assert view.failure is not None
    assert view.failure.category == "integrity"
    with pytest.raises(ConflictError, match="would fail again"):
        resume_run(workspace, completed_run.run_id)


def test_damaged_events_and_metrics_lose_nothing_else(workspace: Workspace, completed_run: RunDirectory) -> None:
    with (completed_run.path / "events.jsonl").open("ab") as file:
        file.write(b'{"time": 1.0, "kind": "epo')
    (completed_run.path / "metrics.sqlite").write_bytes(b"no database at all" * 100)
    for name in ("metrics.sqlite-wal", "metrics.sqlite-shm"):
        (completed_run.path / name).unlink(missing_ok=True)
    view = refresh_run(workspace, completed_run.run_id)
    assert view.state is RunState.COMPLETED
    assert view.failure is not None
    assert view.failure.category == "integrity"
    assert refresh_project(workspace, "digits") == []  # sealed without digests: it is no evidence, and asked for once


@pytest.mark.requirement("MON-4", "GATE-6")
@pytest.mark.parametrize("torn", [b'{"path": "mod', b'{"path": 7}'], ids=["cut off", "of another form"])
def test_a_torn_record_of_the_program_holds_up_no_other_answer(
    workspace: Workspace, completed_run: RunDirectory, torn: bytes
) -> None:
    completed_run.artifacts.mkdir(exist_ok=True)
    (completed_run.artifacts / f"{Program.file}.json").write_bytes(torn)
    assert refresh_run(workspace, completed_run.run_id).state is RunState.COMPLETED
    assert refresh_project(workspace, "digits") == []
    with workspace.session() as session:
        assert get_run(session, completed_run.run_id).sealed


@pytest.mark.requirement("MON-4")
def test_a_torn_record_is_shown_with_what_is_left_of_it(workspace: Workspace, completed_run: RunDirectory) -> None:
    log = completed_run.path / "events.jsonl"
    lines = log.read_bytes().splitlines(keepends=True)
    middle = len(lines) // 2
    log.write_bytes(b"".join([*lines[:middle], b"\x00torn\n", *lines[middle:]]))
    view = refresh_run(workspace, completed_run.run_id)
    assert view.damaged == [f"events.jsonl: damaged at line {middle + 1}; the lines before and after it are read."]
    assert view.state is RunState.COMPLETED
    assert view.failure is None


def test_a_run_whose_directory_is_gone_is_told(workspace: Workspace, completed_run: RunDirectory) -> None:
    completed_run.path.rename(completed_run.path.with_name("elsewhere"))
    view = refresh_run(workspace, completed_run.run_id)
    assert view.failure is not None
    assert view.failure.category == "not_found"
    with pytest.raises(NotFoundError, match="baseline-digits-20260101"):
        refresh_run(workspace, "baseline-digits-20260101-000000-abcdee")


@pytest.mark.requirement("TRAIN-10")
def test_a_process_that_only_shares_the_id_is_never_signalled(
    workspace: Workspace, deaf_worker: tuple[RunDirectory, subprocess.Popen[str]]
) -> None:
    directory, process = deaf_worker
    other = ProcessIdentity.of(process.pid)
    for stale in ({"started_at": other.started_at - 100.0}, {"boot_id": "another boot"}):
        status = directory.status().model_copy(update={"process": other.model_copy(update=stale)})
        directory.write_status(status)
        with pytest.raises(ConflictError, match="process is not known"):
            stop_run(workspace, directory.run_id)
    assert process.poll() is None
    assert not (directory.path / "stop_reason").exists()


@pytest.mark.requirement("GATE-4")
def test_a_worker_that_ignores_its_limits_is_terminated_then_killed(
    workspace: Workspace, deaf_worker: tuple[RunDirectory, subprocess.Popen[str]], entries_of: Entries
) -> None:
    directory, process = deaf_worker
    limit_seconds = directory.specification().limits.wall_clock_seconds
    assert process.stdout is not None
    running_since(directory, process, time.time() - limit_seconds - following.TERMINATE_AFTER_SECONDS + 30)
    refresh_run(workspace, directory.run_id)
    assert not (directory.path / "stop_reason").exists()
    running_since(directory, process, time.time() - limit_seconds - following.TERMINATE_AFTER_SECONDS - 1)
    refresh_run(workspace, directory.run_id)
    assert process.stdout.readline() == "asked\n"
    assert (directory.path / "stop_reason").read_text() == "wall_clock_limit"
    running_since(directory, process, time.time() - limit_seconds - following.KILL_AFTER_SECONDS - 1)
    refresh_run(workspace, directory.run_id)
    assert process.wait() == -signal.SIGKILL
    assert refresh_run(workspace, directory.run_id).state is RunState.INTERRUPTED
    assert [kind for kind, _ in entries_of(directory.run_id)] == ["run_sealed"]


@pytest.mark.requirement("GATE-4")
def test_resuming_gains_no_time_beyond_the_limit(
    workspace: Workspace, made_run: Callable[..., RunDirectory], entries_of: Entries
) -> None:
    directory = made_run(state=RunState.STOPPED, stop_reason="requested")
    allowed_seconds = workspace.settings.limits.run_wall_clock_seconds
    lines = [
        f'{{"time": {begin + seconds}, "kind": "{kind}", "data": {{}}}}\n'
        for begin in (0.0, 1e6)
        for kind, seconds in (("started", 0.0), ("ended", allowed_seconds / 2))
    ]
    (directory.path / "events.jsonl").write_text("".join(lines))
    with pytest.raises(LimitReachedError) as caught:
        resume_run(workspace, directory.run_id)
    assert caught.value.details["limit"] == "run_wall_clock_seconds"
    assert [kind for kind, _ in entries_of(directory.run_id)] == ["run_sealed"]


@pytest.mark.parametrize(
    ("status", "reason"),
    [
        ({"state": RunState.COMPLETED}, "is completed"),
        ({"state": RunState.STOPPED, "stop_reason": "pruned"}, "was pruned"),
        (
            {"state": RunState.FAILED, "failure": {"category": "divergence", "message": "NaN", "remedy": "lower"}},
            "would fail again: NaN",
        ),
    ],
)
def test_what_cannot_go_on_is_not_resumed(
    workspace: Workspace, made_run: Callable[..., RunDirectory], status: dict[str, Any], reason: str
) -> None:
    directory = made_run(**status)
    with pytest.raises(ConflictError, match=reason):
        resume_run(workspace, directory.run_id)


@pytest.mark.requirement("MCP-3")
def test_a_wait_is_bounded_and_ends_early_when_asked(
    workspace: Workspace, deaf_worker: tuple[RunDirectory, subprocess.Popen[str]]
) -> None:
    directory, _ = deaf_worker
    looks: list[int] = []

    def enough() -> bool:
        looks.append(1)
        return len(looks) == 3

    assert (
        wait_for_run(workspace, directory.run_id, 50.0, poll_seconds=0.01, should_stop=enough).state is RunState.RUNNING
    )
    assert len(looks) == 3
    directory.write_status(directory.status().model_copy(update={"step": 5}))
    assert wait_for_run(workspace, directory.run_id, 50.0, after_step=4).step == 5
    looks.clear()

    def alert_at_the_first_look() -> bool:
        looks.append(1)
        directory.append_event("alert", id="nan_loss")
        return False

    wait_for_run(workspace, directory.run_id, 50.0, poll_seconds=0.01, should_stop=alert_at_the_first_look, known=())
    assert len(looks) == 1


@pytest.mark.requirement("MON-3")
def test_a_run_that_ends_while_an_alert_is_told_is_told_when_it_is_filed(
    workspace: Workspace, deaf_worker: tuple[RunDirectory, subprocess.Popen[str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    directory, process = deaf_worker
    directory.append_event("alert", id="nan_loss")

    def end_first(*arguments: Any, **options: Any) -> Any:
        if process.poll() is None:
            process.kill()
            process.wait()
            ended = {"state": RunState.STOPPED, "stop_reason": "asked"}
            directory.write_status(directory.status().model_copy(update=ended))
            assert not view_run(*arguments, **options).is_ended, "it is seen before it is filed"
        return view_run(*arguments, **options)

    monkeypatch.setattr(waiting, "view_run", end_first)
    view = wait_for_run(workspace, directory.run_id, 50.0, poll_seconds=0.01, known=())
    assert (view.state, view.sealed) == (RunState.STOPPED, True)
    assert view.next is not None
    assert view.next.tool != "run_status"


def test_following_leaves_no_open_files(workspace: Workspace, completed_run: RunDirectory) -> None:
    refresh_run(workspace, completed_run.run_id)
    before = psutil.Process().num_fds()
    for _ in range(20):
        refresh_run(workspace, completed_run.run_id)
    assert psutil.Process().num_fds() <= before
