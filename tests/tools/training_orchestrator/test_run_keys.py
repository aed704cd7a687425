"""The key pair of a run: what its worker signs is what is sealed, and nobody else can sign it."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import pytest
from tests.variants import variants
from tests.worlds.warm import warm

from trainwright.tools import ledger
from trainwright.tools.gates.evidence import Evidence
from trainwright.tools.ledger.summaries import summary_problem
from trainwright.tools.limits import use_differences
from trainwright.tools.training_orchestrator import RunView, launch, resume_run, start_run, wait_for_run
from trainwright.tools.verification import verify_workspace
from trainwright.trainer.base.canonical import digest_file
from trainwright.trainer.base.errors import IntegrityError
from trainwright.trainer.run import RunDirectory, RunKey, RunKind, RunState, write_atomically
from trainwright.trainer.run.digests import run_digests
from trainwright.trainer.run.key import END, end_record, has_signed, signed_digests

if TYPE_CHECKING:
    from trainwright.tools.workspace import Workspace

    Entries = Callable[[str], list[tuple[str, dict[str, Any]]]]

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module", autouse=True)
def warm_runs() -> Iterator[None]:
    """What is signed does not depend on how the interpreter of a run is started."""
    with warm():
        yield


def until_ended(workspace: Workspace, run_id: str) -> RunView:
    while not (view := wait_for_run(workspace, run_id)).is_ended:
        pass
    return view


def until_free(directory: RunDirectory) -> None:
    deadline = time.monotonic() + 120
    while not directory.last_status().state.is_terminal or directory.is_locked():
        assert time.monotonic() < deadline, directory.last_status()
        time.sleep(0.01)


def told_of(workspace: Workspace, run_id: str) -> list[str]:
    """Return what verify says of the run: the fixture's project has passed its gates by hand-made entries."""
    told = [str(problem) for problem in verify_workspace(workspace.path).problems]
    return [what for what in told if run_id in what]


@pytest.fixture
def made_keys(monkeypatch: pytest.MonkeyPatch) -> list[RunKey]:
    """Keep the keys that the orchestrator makes."""
    made: list[RunKey] = []
    new = RunKey.new

    def keep() -> RunKey:
        made.append(new())
        return made[-1]

    monkeypatch.setattr(launch.RunKey, "new", keep)
    return made


@pytest.mark.requirement("GATE-3", "GATE-5")
@pytest.mark.parametrize("processes", [1, pytest.param(2, marks=pytest.mark.long)])
def test_the_seal_is_what_the_worker_signed_and_its_key_stands_nowhere(
    workspace: Workspace, entries_of: Entries, made_keys: list[RunKey], processes: int
) -> None:
    changes = {"training.epochs": 1, "distributed.processes": processes}
    run_id = start_run(workspace, "digits", RunKind.BASELINE, changes=changes).run_id
    view = until_ended(workspace, run_id)
    assert view.state is RunState.COMPLETED, view.failure
    directory = workspace.run_directory("digits", run_id)
    (_, started), (_, sealed) = entries_of(run_id)
    assert started["run_key"] == made_keys[0].public
    assert sealed["digests"] == signed_digests(directory, started["run_key"]) == run_digests(directory)
    seed = made_keys[0].seed
    for path in directory.path.rglob("*"):
        if path.is_file():
            data = path.read_bytes()
            assert seed not in data, path
            assert seed.hex().encode() not in data, path
    for folder in directory.checkpoints.glob("step-*"):
        manifest = json.loads((folder / "manifest.json").read_text())
        assert has_signed(started["run_key"], manifest["digest"], manifest["signature"])
    assert told_of(workspace, run_id) == []


@pytest.mark.requirement("GATE-3", "GATE-5")
def test_a_completed_run_without_its_workers_signature_is_no_evidence(
    workspace: Workspace, entries_of: Entries
) -> None:
    directory = workspace.run_directory("digits", start_run(workspace, "digits", RunKind.SMOKE, max_steps=2).run_id)
    until_free(directory)
    whole = (directory.path / END).read_text()
    (directory.path / END).write_text(whole.replace('"status.json": "blake3:', '"status.json": "blake3:0', 1))
    view = until_ended(workspace, directory.run_id)
    *_, (_, sealed) = entries_of(directory.run_id)
    assert sealed["digests"] == {}
    assert view.untrusted == "its worker has not signed that it was completed (end.json)"
    with workspace.session() as session:
        run = Evidence(session, workspace, "digits").run(directory.run_id)
    assert run is not None
    assert [what for what in run.differences if view.untrusted in what], "gates say why the run is no evidence"
    unsigned = f"run {directory.run_id}: its worker has not signed that it was completed (end.json)"
    assert unsigned in told_of(workspace, directory.run_id)
    (directory.path / END).write_text(whole)
    assert unsigned in told_of(workspace, directory.run_id), "a signature that comes later mends nothing"


@pytest.mark.requirement("GATE-3", "TRAIN-10")
def test_a_crash_between_the_signed_end_and_the_last_status_is_resumed_unless_a_checkpoint_was_replaced(
    workspace: Workspace, entries_of: Entries
) -> None:
    run_id = start_run(workspace, "digits", RunKind.BASELINE, changes={"training.epochs": 1}).run_id
    directory = workspace.run_directory("digits", run_id)
    until_free(directory)
    last = directory.last_status()
    directory.write_status(last.model_copy(update={"state": RunState.RUNNING, "stop_reason": None}))
    assert until_ended(workspace, run_id).state is RunState.INTERRUPTED
    assert entries_of(run_id)[-1][1]["digests"] == run_digests(directory)

    manifest = next(directory.checkpoints.glob("step-*/manifest.json"))
    before = manifest.read_text()
    own = json.loads(before)
    manifest.write_text(json.dumps(own | {"signature": RunKey.new().sign(own["digest"])}))
    with pytest.raises(IntegrityError, match="the run's worker has not signed it"):
        resume_run(workspace, run_id)
    manifest.write_text(before)

    resume_run(workspace, run_id)
    view = until_ended(workspace, run_id)
    assert (view.state, view.attempt) == (RunState.COMPLETED, 2), view.failure
    keys = [body["run_key"] for kind, body in entries_of(run_id) if kind != "run_sealed"]
    assert len(set(keys)) == 2
    assert entries_of(run_id)[-1][1]["digests"] == signed_digests(directory, keys[1])
    assert told_of(workspace, run_id) == []


@pytest.mark.requirement("GATE-3", "GATE-5")
def test_evidence_and_order_count_as_they_were_written_not_as_they_are_found(
    workspace: Workspace, entries_of: Entries
) -> None:
    run_id = start_run(workspace, "digits", RunKind.SMOKE, max_steps=2).run_id
    directory = workspace.run_directory("digits", run_id)
    order = directory.path / "run.json"
    ordered = digest_file(order)
    write_atomically(order, order.read_bytes() + b"\n")
    while not (directory.artifacts / "environment.json").exists():
        assert not directory.status().state.is_ended, directory.status().failure
        time.sleep(0.001)
    evidence = directory.artifacts / "environment.json"
    evidence.write_text(evidence.read_text() + "\n")
    assert until_ended(workspace, run_id).state is RunState.COMPLETED
    assert entries_of(run_id)[-1][1]["digests"]["run.json"] == ordered
    with workspace.session() as session:
        sealed = ledger.ProjectFacts(session, "digits").seals[run_id].digests
    changed = ledger.seal_differences(directory, sealed)
    assert [what.split()[2] for what in changed] == ["artifacts/environment.json", "run.json"]


FORGES = """
import gc, hashlib, json, subprocess, sys
from blake3 import blake3
from torch import nn

def held_by_frames():
    frame = sys._getframe()
    while frame is not None:
        yield from (one for one in frame.f_locals.values() if isinstance(one, bytes | bytearray) and len(one) == 32)
        frame = frame.f_back

class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.Sequential(nn.Flatten(), nn.Linear(64, 10))
        run = next(one for one in gc.get_objects() if type(one).__name__ == "RunDirectory")
        place = run.artifacts / "fixed_rows.json"
        record = json.loads(place.read_text())
        record["splits"]["test"]["size"] += 1
        for seed in held_by_frames():
            statement = sys.modules[type(run.key).__module__].rows_statement(run.run_id, record)
            record["signature"] = type(run.key)(bytes(seed)).sign_rows(statement)
        text = json.dumps(record)
        subprocess.run([sys.executable, "-c", "import sys; open(sys.argv[1], 'w').write(sys.argv[2])", place, text])
        run.written["artifacts/fixed_rows.json"] = "blake3:" + blake3(text.encode()).hexdigest()

    def forward(self, x):
        return self.layers(x)
"""


@pytest.mark.requirement("GATE-6", "GATE-3")
def test_rows_that_user_code_changes_in_the_run_that_fixed_them_are_no_evidence(
    workspace: Workspace, entries_of: Entries
) -> None:
    (workspace.path.parent / "net.py").write_text(FORGES)
    honest, forged = (
        start_run(workspace, "digits", RunKind.SMOKE, max_steps=2, changes=changes).run_id
        for changes in ({}, {"model": {"use": "net.py:Net", "args": {}}})
    )
    for run_id in (honest, forged):
        view = until_ended(workspace, run_id)
        assert view.state is RunState.COMPLETED, view.failure
    (_, started), *_, (_, sealed) = entries_of(honest)
    assert len(started["rows_key"]) == 64
    assert "artifacts/rows/test/target.npy" in sealed["digests"]
    assert told_of(workspace, honest) == []
    sealed = entries_of(forged)[-1][1]
    assert sealed["digests"] == {}
    assert "do not bear its rows key's signature" in sealed["problem"]
    assert f"run {forged}: {sealed['problem']}" in told_of(workspace, forged)


FORKS = """
import os
from torch import nn

class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.Sequential(nn.Flatten(), nn.Linear(64, 10))
        copy = os.fork()
        if not copy:
            raise RuntimeError("in a copy of the worker")
        os.waitpid(copy, 0)

    def forward(self, x):
        return self.layers(x)
"""


@pytest.mark.long
@pytest.mark.requirement("GATE-3", "TRAIN-10")
def test_a_copy_of_the_worker_that_user_code_forks_writes_nothing_into_the_run(workspace: Workspace) -> None:
    (workspace.path.parent / "net.py").write_text(FORKS)
    changes = {"model": {"use": "net.py:Net", "args": {}}}
    view = until_ended(workspace, start_run(workspace, "digits", RunKind.SMOKE, max_steps=2, changes=changes).run_id)
    assert view.state is RunState.COMPLETED, view.failure
    events = (workspace.run_directory("digits", view.run_id).path / "events.jsonl").read_text()
    assert '"failed"' not in events
    assert told_of(workspace, view.run_id) == []


@pytest.mark.requirement("GATE-3")
@pytest.mark.parametrize("signature", [None, 7, "", "not base64!", "AAAA"])
@pytest.mark.parametrize("public", ["", "zz", "00" * 32, "ff" * 31])
def test_what_is_no_signature_or_no_key_has_signed_nothing(public: str, signature: object) -> None:
    assert not has_signed(public, "text", signature)
    key = RunKey(bytes(32))
    assert has_signed(key.public, "text", key.sign("text"))
    assert not has_signed(key.public, "other", key.sign("text"))
    assert not has_signed(RunKey.new().public, "text", key.sign("text"))


@pytest.mark.requirement("GATE-3", "GATE-4", "GATE-5")
@pytest.mark.parametrize("name", variants(["status.json", "artifacts/environment.json"], quick=["status.json"]))
def test_a_record_of_time_and_devices_that_its_worker_did_not_sign_counts_as_all_that_was_reserved(
    workspace: Workspace, entries_of: Entries, name: str
) -> None:
    directory = workspace.run_directory("digits", start_run(workspace, "digits", RunKind.SMOKE, max_steps=2).run_id)
    until_free(directory)
    whole = (directory.path / name).read_bytes()
    (directory.path / name).write_bytes(whole + b" ")
    until_ended(workspace, directory.run_id)
    (directory.path / name).write_bytes(whole)
    (_, started), *_, (_, sealed) = entries_of(directory.run_id)
    share = started["permit"]["reserved"]["share"]
    assert {**sealed["used"], "disk_bytes": 0.0} == {**share, "disk_bytes": 0.0}
    assert share["wall_clock_seconds"] > 1000 > directory.seconds_worked()
    assert told_of(workspace, directory.run_id) == []


@pytest.mark.requirement("GATE-3", "GATE-4")
def test_verify_computes_again_what_a_run_has_used(workspace: Workspace, entries_of: Entries) -> None:
    directory = workspace.run_directory("digits", start_run(workspace, "digits", RunKind.SMOKE, max_steps=2).run_id)
    until_ended(workspace, directory.run_id)
    assert told_of(workspace, directory.run_id) == []
    (_, started), *_, (_, sealed) = entries_of(directory.run_id)
    seconds = sealed["used"]["wall_clock_seconds"]
    assert seconds == directory.seconds_worked()
    assert use_differences(directory, sealed["used"], started["permit"]) == []
    lower = sealed["used"] | {"wall_clock_seconds": seconds / 2}
    (told,) = use_differences(directory, lower, started["permit"])
    assert told.endswith(f"wall_clock_seconds {seconds / 2:.6g}, by its record {seconds:.6g}")


EDITS: dict[str, Callable[[dict[str, Any]], Any]] = {
    "steps": lambda summary: summary.update(steps=summary["steps"] + 1),
    "epochs": lambda summary: summary.update(epochs=1),
    "skipped updates": lambda summary: summary.update(skipped_updates=1),
    "final accuracy": lambda summary: summary["final"].update(accuracy=1.0),
    "final train/loss": lambda summary: summary["final"].update({"train/loss": 0.0}),
    "final f1_macro": lambda summary: summary["final"].update(f1_macro=1.0),
    "best epoch": lambda summary: summary["best"].update(epoch=7),
    "best value": lambda summary: summary["best"].update(value=0.0),
    "best accuracy": lambda summary: summary["best"]["metrics"].update(accuracy=1.0),
}


@pytest.mark.requirement("GATE-3", "GATE-5")
@pytest.mark.parametrize("at_seal", [True, False])
def test_a_summary_that_was_edited_and_signed_anew_with_the_runs_own_key_is_found(
    workspace: Workspace, made_keys: list[RunKey], monkeypatch: pytest.MonkeyPatch, at_seal: bool
) -> None:
    changes = {"training.epochs": 2}
    run_id = start_run(workspace, "digits", RunKind.BASELINE, changes=changes).run_id
    directory = workspace.run_directory("digits", run_id)
    until_free(directory)
    assert summary_problem(directory) is None
    path = directory.artifacts / "summary.json"
    whole = path.read_text()
    for name, edit in EDITS.items():
        edited = json.loads(whole)
        edit(edited)
        path.write_text(json.dumps(edited))
        problem = summary_problem(directory)
        assert problem is not None
        assert f"{name} " in problem
    status = (directory.path / "status.json").read_bytes()
    write_atomically(directory.path / END, end_record(directory, status, made_keys[0]))
    if not at_seal:  # as an earlier version sealed it
        monkeypatch.setattr(ledger, "summary_problem", lambda _: None)
    until_ended(workspace, run_id)
    found = f"run {run_id}: its summary does not follow from its recorded series: best accuracy 1.0"
    assert [told for told in told_of(workspace, run_id) if told.startswith(found)]
