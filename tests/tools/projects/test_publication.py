"""Wherever a server dies while it decides, there is no decision or a whole one, and the next server goes on."""

from __future__ import annotations

import sqlite3
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from tests.tools.killed_server import call_and_die, die
from tests.variants import variants

from trainwright.server.context import AppContext
from trainwright.tools import projects
from trainwright.tools.gates import artifacts as gate_artifacts
from trainwright.tools.ledger import append, entries
from trainwright.tools.projects import passing
from trainwright.tools.verification import verify_workspace
from trainwright.tools.workspace import Workspace
from trainwright.trainer.base.canonical import digest_file

NAME = "flowers"
At = Callable[[str], Workspace]


def files_of(folder: Path) -> dict[str, bytes]:
    """Return the files below a folder by their names in it."""
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


GATES = {"smoked": "planning", "trained": "baseline", "diagnosed": "optimization", "exported": "finalization"}


def pass_gate_and_die(path: Path, phase: str, patch: Callable[[pytest.MonkeyPatch], None]) -> None:
    """Ask for the gate in a forked server that dies where `patch` says."""
    call_and_die(patch, lambda: projects.pass_gate(Workspace.open(path), NAME, phase))


def before_the_record(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(passing, "record", die)


def before_the_commit(patch: pytest.MonkeyPatch) -> None:
    recorded = passing.record

    def record_and_die(*arguments: object) -> None:
        recorded(*arguments)
        die()

    patch.setattr(passing, "record", record_and_die)


def after_the_commit(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(passing, "_answer", die)


def while_publishing(patch: pytest.MonkeyPatch) -> None:
    """After the first rename: of a file, or of the former folder out of the way."""
    moves: list[None] = []
    for name in ("rename", "replace"):
        move = getattr(Path, name)

        def moving(self: Path, target: Path, move: Callable[[Path, Path], Path] = move) -> Path:
            result = move(self, target)
            if gate_artifacts.DRAFTS in f"{self}{target}" and "tmp" not in self.name:
                moves.append(None)
                die()
            return result

        patch.setattr(Path, name, moving)


def decisions(workspace: Workspace, phase: str) -> list[dict[str, str]]:
    with workspace.session() as session:
        bodies = [body for _, body in entries(session, NAME, "gate")]
    return [body["artifacts"] for body in bodies if body["phase"] == phase and body["outcome"] != "refused"]


@pytest.mark.requirement("PHASE-1", "GATE-3")
@pytest.mark.parametrize("stage", variants(GATES, quick=["smoked", "diagnosed"]))
@pytest.mark.parametrize("where", [before_the_record, before_the_commit])
def test_a_server_killed_before_its_commit_has_decided_nothing(
    at: At, stage: str, where: Callable[[pytest.MonkeyPatch], None]
) -> None:
    workspace = at(stage)
    folder, phase = workspace.project_folder(NAME), GATES[stage]
    before = {path.name for path in folder.iterdir()}
    pass_gate_and_die(workspace.path, phase, where)
    assert verify_workspace(workspace.path).problems == []
    assert projects.project_status(workspace, NAME).gates[phase] == "open"  # type: ignore[union-attr]
    assert decisions(workspace, phase) == []
    assert {path.name for path in folder.iterdir()} == before  # no artifact that claims a decision, and no draft
    assert projects.pass_gate(workspace, NAME, phase).artifacts


@pytest.mark.requirement("PHASE-1", "GATE-3")
@pytest.mark.parametrize("first", ["a server", "verify"])
@pytest.mark.parametrize("stage", variants(GATES, quick=["trained", "exported"]))
@pytest.mark.parametrize("where", [after_the_commit, while_publishing])
def test_a_server_killed_after_its_commit_has_decided_all(
    at: At, stage: str, where: Callable[[pytest.MonkeyPatch], None], first: str
) -> None:
    workspace = at(stage)
    folder, phase = workspace.project_folder(NAME), GATES[stage]
    pass_gate_and_die(workspace.path, phase, where)
    if first == "verify":
        assert verify_workspace(workspace.path).problems == []
    status = projects.project_status(workspace, NAME)
    assert status.gates[phase] in {"passed", "skipped"}  # type: ignore[union-attr]
    [artifacts] = decisions(workspace, phase)
    assert artifacts == {name: digest_file(folder / name) for name in artifacts}
    assert not (folder / gate_artifacts.DRAFTS).exists()
    assert verify_workspace(workspace.path).problems == []


@pytest.mark.requirement("GATE-3")
@pytest.mark.parametrize("edit", ["body = '[1' WHERE kind = 'gate'", "body = '[]'", "project = '../p'"])
def test_a_server_starts_whatever_stands_in_the_ledger(at: At, edit: str) -> None:
    workspace = at("exported")
    with sqlite3.connect(workspace.path / "workspace.sqlite") as connection:
        connection.execute("DROP TRIGGER ledger_no_update")
        connection.execute(f"UPDATE ledger SET {edit}")
    app = AppContext(workspace.path)
    assert app.workspace().path == workspace.path
    app.close()
    assert verify_workspace(workspace.path).problems


@pytest.mark.requirement("PHASE-1", "GATE-3")
def test_two_servers_may_publish_in_the_same_moment(at: At) -> None:
    """One of them did find a folder gone that it had seen: 398 times of 400."""
    first = at("created")
    second, folder = Workspace.open(first.path), first.project_folder(NAME)

    def publish_as(server: Workspace) -> None:
        together.wait()
        with server.session() as session:
            gate_artifacts.publish(session, NAME, folder)

    for _ in range(20):
        (folder / gate_artifacts.DRAFTS / "abandoned").mkdir(parents=True)
        together = threading.Barrier(2)
        with ThreadPoolExecutor(2) as pool:
            assert list(pool.map(publish_as, (first, second))) == [None, None]
        assert not (folder / gate_artifacts.DRAFTS).exists()
    second.close()


@pytest.mark.requirement("PHASE-1", "GATE-3")
def test_a_former_final_model_gives_way_to_the_new_one_whole(at: At) -> None:
    workspace = at("exported")
    former = workspace.project_folder(NAME) / "final_model"
    former.mkdir()
    (former / "model.old").write_text("of a former decision")
    pass_gate_and_die(workspace.path, "finalization", while_publishing)
    assert projects.project_status(workspace, NAME).finished  # type: ignore[union-attr]
    assert not (former / "model.old").exists()
    assert verify_workspace(workspace.path).problems == []


@pytest.mark.requirement("GATE-3")
@pytest.mark.parametrize("as_older", [False, True], ids=["under a new entry", "under the older entry's number"])
def test_drafts_of_an_abandoned_decision_are_not_taken_for_those_of_an_older_one(at: At, as_older: bool) -> None:
    """A report on the same run has the same bytes, whoever was killed while writing it."""
    workspace = at("diagnosed")
    folder = workspace.project_folder(NAME)
    older = {name: (folder / name).read_bytes() for name in ("diagnostic_report.md", "training_config.yaml")}
    newer = {"diagnostic_report.md": b"of another run", "training_config.yaml": b"another"}
    for name, content in newer.items():
        (folder / name).write_bytes(content)
    with workspace.session() as session:
        artifacts = {name: digest_file(folder / name) for name in newer}
        [*_, (older_entry, _)] = entries(session, NAME, "diagnosis")
        append(session, NAME, "diagnosis", {"run_id": "another", "artifacts": artifacts})
        drafts = gate_artifacts.new_drafts(session, folder)
        if as_older:
            drafts = drafts.rename(drafts.with_name(f"{gate_artifacts.OF_ENTRY}{older_entry:08d}"))
            older.pop("training_config.yaml")  # which another decision named
        for name, content in older.items():
            (drafts / name).write_bytes(content)
    with workspace.session() as session:
        gate_artifacts.publish(session, NAME, folder)
    assert {name: (folder / name).read_bytes() for name in newer} == newer
    assert not (folder / gate_artifacts.DRAFTS).exists()


@pytest.mark.requirement("GATE-3", "PHASE-11")
@pytest.mark.parametrize("left", [2, 99], ids=["half of them", "all of them"])
def test_drafts_of_an_abandoned_release_leave_the_former_one_alone_though_they_equal_it(at: At, left: int) -> None:
    """A release of the same configuration has the same weights, byte for byte: 60 kills of gates found it."""
    workspace = at("finished")
    folder = workspace.project_folder(NAME)
    configuration = {"optimizer.learning_rate": 0.0123}
    projects.configure(workspace, NAME, changes=configuration, begin_release=True)
    released = files_of(folder / "final_model")
    with workspace.session() as session:
        drafts = gate_artifacts.new_drafts(session, folder) / "final_model"
        drafts.mkdir()
        for name in sorted(released, reverse=True)[:left]:
            (drafts / name).parent.mkdir(exist_ok=True)
            (drafts / name).write_bytes(released[name])
    assert projects.project_status(workspace, NAME).phase == "planning"  # type: ignore[union-attr]
    assert files_of(folder / "final_model") == released
    assert not (folder / "releases").exists()
    assert verify_workspace(workspace.path).problems == []


@pytest.mark.requirement("GATE-1")
def test_drafts_that_no_decision_names_are_never_published(at: At) -> None:
    workspace = at("planned")
    folder = workspace.project_folder(NAME)
    before = (folder / "training_config.yaml").read_bytes()
    with workspace.session() as session:
        drafts = gate_artifacts.new_drafts(session, folder)
    (drafts / "training_config.yaml").write_text("forged: true\n")
    (drafts / "baseline_results.md").write_text("accuracy 1.0\n")
    assert projects.project_status(workspace, NAME).phase == "baseline"  # type: ignore[union-attr]
    assert (folder / "training_config.yaml").read_bytes() == before
    assert not (folder / "baseline_results.md").exists()
    assert verify_workspace(workspace.path).problems == []
