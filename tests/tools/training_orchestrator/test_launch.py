"""Starting runs: what is written before the worker exists, and what the worker gets to see."""

from __future__ import annotations

import json
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

import pytest
from tests.function_text import body_of

from trainwright.tools.gates.evidence import Evidence
from trainwright.tools.launchers import local
from trainwright.tools.launchers.environment import inherited_environment, worker_environment
from trainwright.tools.training_orchestrator import start_run, wait_for_run
from trainwright.tools.workspace.records import runs_of
from trainwright.trainer.base.canonical import digest_file
from trainwright.trainer.base.errors import (
    ConfigurationError,
    ConflictError,
    GateRefusedError,
    NotFoundError,
    StorageError,
    TrainwrightError,
)
from trainwright.trainer.run import RunKind, RunState

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from trainwright.tools.workspace import Workspace

    Entries = Callable[[str], list[tuple[str, dict[str, Any]]]]

pytestmark = pytest.mark.slow


def start_with_key() -> None:
    import sys
    from pathlib import Path

    from trainwright.tools.launchers import local
    from trainwright.tools.training_orchestrator import start_run
    from trainwright.tools.workspace import Workspace
    from trainwright.trainer.run import RunKind

    local.WORKER = "this"  # a worker that ends at once: nothing here is about training
    workspace = Workspace.open(Path(sys.argv[1]))
    print("ready", flush=True)
    sys.stdin.readline()
    print(start_run(workspace, "digits", RunKind.BASELINE, idempotency_key="the-same").run_id)


@pytest.fixture
def no_worker(monkeypatch: pytest.MonkeyPatch) -> None:
    """Start a process that prints a poem and ends: for tests of what stands before a worker does."""
    monkeypatch.setattr(local, "WORKER", "this")


@pytest.mark.requirement("GATE-7")
@pytest.mark.usefixtures("no_worker")
def test_the_next_call_follows_a_run_that_is_starting_and_starts_no_second_one(workspace: Workspace) -> None:
    run_id = start_run(workspace, "digits", RunKind.BASELINE).run_id
    with workspace.session() as session:
        evidence = Evidence(session, workspace, "digits")
        followed, other = evidence.start(RunKind.BASELINE), evidence.start(RunKind.SMOKE)
    assert (followed.tool, followed.arguments["run_id"]) == ("run_status", run_id)
    assert (other.tool, other.arguments["kind"]) == ("start_training", "smoke")
    while not wait_for_run(workspace, run_id).is_ended:
        pass
    with workspace.session() as session:
        again = Evidence(session, workspace, "digits").start(RunKind.BASELINE)
    assert (again.tool, again.arguments["kind"]) == ("start_training", "baseline")


@pytest.mark.requirement("GATE-3", "GATE-4")
@pytest.mark.usefixtures("no_worker")
def test_a_start_writes_directory_row_and_ledger_entry_together(workspace: Workspace, entries_of: Entries) -> None:
    view = start_run(workspace, "digits", RunKind.BASELINE, changes={"optimizer.learning_rate": 0.01}, seed=7)
    directory = workspace.run_directory("digits", view.run_id)
    specification = directory.specification()
    assert (specification.config.optimizer.learning_rate, specification.config.seed) == (0.01, 7)
    assert specification.limits.wall_clock_seconds <= workspace.settings.limits.run_wall_clock_seconds
    assert specification.permit["phase"] == "baseline"
    (kind, body), *_ = entries_of(view.run_id)
    assert kind == "run_started"
    assert body["specification"] == digest_file(directory.path / "run.json")
    assert body["permit"] == specification.permit
    assert view.run_id.startswith("baseline-digits-2")
    assert view.next is not None
    assert view.next.arguments["run_id"] == view.run_id


def test_without_a_permit_nothing_is_written(workspace: Workspace) -> None:
    with pytest.raises(GateRefusedError):
        start_run(workspace, "digits", RunKind.FINAL)
    with workspace.session() as session:
        assert runs_of(session, "digits") == []
    assert not (workspace.project_folder("digits") / "runs").exists()


@pytest.mark.parametrize(
    ("order", "error"),
    [
        ({"changes": {"optimizer.learning_rte": 0.1}}, ConfigurationError),
        ({"changes": {"optimizer.learning_rate": -1.0}}, ConfigurationError),
        ({"changes": {"seed": 7}}, ConfigurationError),
        ({"kind": RunKind.SMOKE, "changes": {"seed": 7}}, ConfigurationError),
        ({"idempotency_key": "x" * 129}, ConfigurationError),
        ({"project": "digit"}, NotFoundError),
        ({"kind": RunKind.REPLAY}, ConflictError),
        ({"kind": RunKind.REPLAY, "seed": 3}, ConflictError),
        ({"kind": RunKind.REPLAY, "source_run": "baseline-x"}, NotFoundError),
    ],
)
def test_an_order_that_makes_no_sense_leaves_nothing(
    workspace: Workspace, order: dict[str, Any], error: type[TrainwrightError]
) -> None:
    with pytest.raises(error):
        start_run(workspace, **({"project": "digits", "kind": RunKind.BASELINE} | order))
    with workspace.session() as session:
        assert runs_of(session, "digits") == []


@pytest.mark.requirement("GATE-1", "GATE-5")
@pytest.mark.usefixtures("no_worker")
def test_of_what_trains_only_a_smoke_run_may_be_cut_short(workspace: Workspace) -> None:
    with pytest.raises(ConfigurationError, match="max_steps=5; only a smoke run") as caught:
        start_run(workspace, "digits", RunKind.BASELINE, max_steps=5)
    assert "training.epochs" in caught.value.remedy
    run_id = start_run(workspace, "digits", RunKind.SMOKE, max_steps=5).run_id
    assert workspace.run_directory("digits", run_id).specification().max_steps == 5
    with workspace.session() as session:
        assert [run.id for run in runs_of(session, "digits")] == [run_id]


@pytest.mark.usefixtures("no_worker")
def test_a_directory_that_cannot_be_written_leaves_no_row(
    workspace: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    (workspace.project_folder("digits") / "runs").write_text("a file where a folder should be")
    with pytest.raises(StorageError, match="could not be written"):
        start_run(workspace, "digits", RunKind.BASELINE)
    with workspace.session() as session:
        assert runs_of(session, "digits") == []


@pytest.mark.requirement("MCP-3")
@pytest.mark.usefixtures("no_worker")
def test_one_key_names_one_run(workspace: Workspace) -> None:
    first = start_run(workspace, "digits", RunKind.BASELINE, idempotency_key="a")
    assert start_run(workspace, "digits", RunKind.BASELINE, idempotency_key="a").run_id == first.run_id
    assert start_run(workspace, "digits", RunKind.BASELINE, idempotency_key="b").run_id != first.run_id


@pytest.mark.requirement("MCP-3", "GATE-5")
@pytest.mark.usefixtures("no_worker")
@pytest.mark.parametrize(
    ("order", "told"),
    [
        ({"kind": RunKind.SMOKE}, "another kind"),
        ({"study_id": "study-digits-1"}, "another study"),
        ({"seed": 43}, "another configuration"),
        ({"changes": {"optimizer.learning_rate": 0.5}}, "another configuration"),
    ],
)
def test_a_key_does_not_pass_one_run_off_for_another(workspace: Workspace, order: dict[str, Any], told: str) -> None:
    baseline = {"project": "digits", "kind": RunKind.BASELINE, "idempotency_key": "study-1/confirmation-baseline-43"}
    first = start_run(workspace, **baseline)
    with pytest.raises(
        ConflictError, match=f"already names the baseline run {first.run_id}, which has {told}"
    ) as told_of:
        start_run(workspace, **(baseline | order))
    assert "another key" in told_of.value.remedy
    with workspace.session() as session:
        assert [run.id for run in runs_of(session, "digits")] == [first.run_id]


@pytest.mark.requirement("MCP-3")
def test_two_servers_racing_with_one_key_start_one_run(workspace: Workspace) -> None:
    command = [sys.executable, "-P", "-c", body_of(start_with_key), str(workspace.path)]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    servers = [subprocess.Popen(command, **pipes) for _ in range(2)]  # type: ignore[call-overload]
    for server in servers:
        assert server.stdout.readline() == "ready\n"
    with ThreadPoolExecutor() as pool:
        said = list(pool.map(lambda server: server.communicate("go\n")[0], servers))
    assert said[0] == said[1]
    with workspace.session() as session:
        assert [run.id for run in runs_of(session, "digits")] == [said[0].strip()]


@pytest.mark.requirement("MCP-3")
def test_a_process_that_cannot_be_started_is_told_and_can_be_resumed(
    workspace: Workspace, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(sys, "executable", str(tmp_path / "no-python"))
    view = start_run(workspace, "digits", RunKind.BASELINE)
    assert view.state is RunState.INTERRUPTED
    assert view.failure is not None
    assert "FileNotFoundError" in view.failure.message
    assert view.next is not None
    assert view.next.tool == "resume_training"


@pytest.mark.usefixtures("no_worker")
def test_a_worker_that_ends_before_it_begins_is_told_with_its_words(workspace: Workspace) -> None:
    view = start_run(workspace, "digits", RunKind.BASELINE)
    view = wait_for_run(workspace, view.run_id)
    assert view.state is RunState.INTERRUPTED
    assert view.failure is not None
    assert "never began" in view.failure.message
    assert view.failure.last_lines[-1].startswith("Namespaces are one honking great idea")


@pytest.mark.requirement("SKILL-8")
def test_a_worker_sees_no_secret_of_the_server(workspace: Workspace) -> None:
    given = {
        "PATH": "/bin",
        "HOME": "/home/me",
        "CUDA_VISIBLE_DEVICES": "1",
        "HF_HOME": "/data/hf",
        "HTTPS_PROXY": "http://proxy:3128",
        "HF_TOKEN": "hf_x",
        "HTTP_PROXY": "http://me:word@proxy:3128",
        "AWS_SECRET_ACCESS_KEY": "x",
        "CUDA_API_KEY": "x",
        "OPENAI_API_KEY": "x",
        "DATABASE_PASSWORD": "x",
        "SOMETHING_ELSE": "x",
    }
    kept = inherited_environment(given)
    assert sorted(kept) == ["CUDA_VISIBLE_DEVICES", "HF_HOME", "HOME", "HTTPS_PROXY", "PATH"]


@pytest.mark.requirement("REPRO-1", "REPRO-2")
@pytest.mark.usefixtures("no_worker")
def test_a_worker_starts_in_the_reproducible_environment(workspace: Workspace) -> None:
    run_id = start_run(workspace, "digits", RunKind.BASELINE, seed=9).run_id
    environment = worker_environment(workspace.run_directory("digits", run_id).specification().config)
    assert environment["PYTHONHASHSEED"] == "0", "one for all seeds: their runs share a warm process"
    assert environment["OMP_NUM_THREADS"] == "1"
    assert environment["CUBLAS_WORKSPACE_CONFIG"] == ":4096:8"
    assert (
        json.loads((workspace.run_directory("digits", run_id).path / "launch.json").read_text())["process"]["pid"] > 1
    )
