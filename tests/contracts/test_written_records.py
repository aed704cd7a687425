"""What tests write in a worker's place has the files, keys and types of what a worker leaves of the same plan."""

from __future__ import annotations

import json
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import pytest
from tests.worlds.records import Script
from tests.worlds.scripted import scripted
from tests.worlds.warm import warm

from trainwright.tools.gates.evidence import Evidence
from trainwright.tools.gates.releases import other_than_planned
from trainwright.tools.launchers import read_launch
from trainwright.tools.projects import create_project, pass_gate
from trainwright.tools.training_orchestrator import replay_run, resume_run, start_run, wait_for_run
from trainwright.tools.verification import verify_workspace
from trainwright.tools.workspace import Workspace
from trainwright.trainer.checkpoints.store import DirectoryStore
from trainwright.trainer.run import RunDirectory, RunKind
from trainwright.trainer.run.evidence import Code, Data, Resolved

pytestmark = pytest.mark.slow

NAME = "digits"
CONFIG: dict[str, Any] = {
    "model": {"use": "mlp", "args": {"hidden": [16]}}, "data": {"use": "digits"}, "training": {"epochs": 3},
    "metrics": ["accuracy"], "logging": {"tensorboard": False},
}  # fmt: skip
GOAL = {"metric": "accuracy", "direction": "maximize", "target": 0.5}
KINDS = ("smoke", "baseline", "replay")
OF_TRAINING = {
    "artifacts/rivals.json", "artifacts/model/model.onnx", "artifacts/predictions.npz",
    "opened.jsonl",
}  # fmt: skip
"""Files that need a model: what reads them (the clean room, a page's pictures) has real runs."""
BY_CONTENT = (
    "evaluation.json",
    "program.json",
    "looked_at.json",
    "data_profile.json",
    "data_origin.json",
    "environment.json:packages",
    "validation.json:report",
    "end.json:digests",
    "code.json:files",
    "code.json:meanings",
    "commitments.json:steps",
    "data.json:splits.train.classes",
    "data.json:splits.validation.classes",
    "data.json:class_names",
    "data.json:preprocessing",
    "resolved.json:products",
    "resolved.json:parameter_groups",
    "resolved.json:keys_without_effect",
)
"""Parts whose keys depend on data and model: they differ between real runs too."""
OF_INSPECTION = {"worst_samples", "finding"}
"""Events of a watched model."""


@pytest.fixture(scope="module")
def sides(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Workspace]]:
    """The same project with both kinds of runs, through the same calls."""
    ways: dict[str, Callable[[], AbstractContextManager[Any]]] = {"written": scripted, "trained": warm}
    opened = {}
    for side, way in ways.items():
        opened[side] = workspace = Workspace.open(tmp_path_factory.mktemp(side) / "workspace")
        with way():
            create_project(workspace, NAME, intent="compare", goal=GOAL, config=CONFIG)
            smoke = start_run(workspace, NAME, RunKind.SMOKE)
            assert wait_for_run(workspace, smoke.run_id, 60).state == "completed"
            pass_gate(workspace, NAME, "planning")
            source = start_run(workspace, NAME, RunKind.BASELINE)
            assert wait_for_run(workspace, source.run_id, 60).state == "completed"
            replay = replay_run(workspace, NAME, run_id=source.run_id)
            assert wait_for_run(workspace, replay.run_id, 60).state == "completed"
            pass_gate(workspace, NAME, "baseline")
    yield opened
    for workspace in opened.values():
        workspace.close()


def run_of(workspace: Workspace, kind: str) -> RunDirectory:
    (path,) = workspace.project_folder(NAME).glob(f"runs/{kind}-*")
    return RunDirectory(path)


def files_of(run: RunDirectory) -> set[str]:
    """Paths of all files; those of checkpoints once, whatever their step."""
    paths = (path.relative_to(run.path) for path in run.path.rglob("*") if path.is_file())
    named = (
        Path(*(("step" if part.startswith("step-") else part) for part in path.parts)).as_posix() for path in paths
    )
    return {name for name in named if not name.startswith(("metrics.sqlite-", "artifacts/rivals/"))} - OF_TRAINING


def types_in(value: Any, place: str) -> dict[str, str]:
    """Return the type of each value in a JSON document by its place; of a list those that its members have."""
    if place.removeprefix("artifacts/") in BY_CONTENT:
        return {place: "by content"}
    if isinstance(value, dict):
        begin = f"{place}." if ":" in place else f"{place}:"
        return {name: kind for key, item in value.items() for name, kind in types_in(item, f"{begin}{key}").items()}
    if isinstance(value, list):
        return {place: "list"} | {name: kind for item in value for name, kind in types_in(item, f"{place}[]").items()}
    return {place: "number" if type(value) in {int, float} else type(value).__name__}


@pytest.mark.parametrize("kind", KINDS)
def test_the_same_files(sides: dict[str, Workspace], kind: str) -> None:
    written, trained = (files_of(run_of(sides[side], kind)) for side in ("written", "trained"))
    assert written == trained


@pytest.mark.parametrize("kind", KINDS)
def test_the_same_keys_and_types(sides: dict[str, Workspace], kind: str) -> None:
    written, trained = (run_of(sides[side], kind) for side in ("written", "trained"))
    for name in sorted(files_of(trained)):
        if name.endswith(".json") and "step" not in name:
            ours, theirs = (types_in(json.loads((run.path / name).read_bytes()), name) for run in (written, trained))
            assert ours == theirs, f"{ours.items() ^ theirs.items()}"


@pytest.mark.parametrize("kind", KINDS)
def test_the_same_events(sides: dict[str, Workspace], kind: str) -> None:
    written, trained = (
        {event.kind: set(event.data) for event in run_of(sides[side], kind).events()} for side in ("written", "trained")
    )
    assert written == {kind: keys for kind, keys in trained.items() if kind not in OF_INSPECTION}


def test_metrics_are_among_those_that_a_worker_records(sides: dict[str, Workspace]) -> None:
    written, trained = (keys_of(run_of(sides[side], "baseline")) for side in ("written", "trained"))
    assert written <= trained
    assert {key for key in trained if key.startswith(("train/", "validation/"))} <= written


def keys_of(run: RunDirectory) -> set[str]:
    with run.metrics() as store:
        return set(store.keys())


def test_a_written_checkpoint_is_one(sides: dict[str, Workspace]) -> None:
    store = DirectoryStore(run_of(sides["written"], "baseline"))
    assert [store.verify(name) for name in store.names()] == [[]]
    assert set(store.open(store.names()[0]).manifest) == manifest_keys(sides["trained"])


def manifest_keys(workspace: Workspace) -> set[str]:
    store = DirectoryStore(run_of(workspace, "baseline"))
    return set(store.open(store.names()[-1]).manifest)


@pytest.mark.parametrize("side", ["written", "trained"])
def test_nothing_is_wrong_with_either(sides: dict[str, Workspace], side: str) -> None:
    assert verify_workspace(sides[side].path).problems == []


def test_a_written_death_is_a_killed_workers(tmp_path: Path) -> None:
    """It is interrupted, and ends once it is resumed."""
    ways: dict[str, AbstractContextManager[Any]] = {
        "written": scripted(Script(death=lambda _, attempt: (1, -signal.SIGKILL) if attempt == 1 else None)),
        "trained": warm(),
    }
    for side, way in ways.items():
        workspace = Workspace.open(tmp_path / side)
        with way:
            create_project(workspace, NAME, intent="compare", goal=GOAL, config=CONFIG)
            run = workspace.run_directory(NAME, start_run(workspace, NAME, RunKind.SMOKE).run_id)
            while side == "trained" and run.last_status().step == 0:
                time.sleep(0.005)
            launch = read_launch(run.path)
            assert launch is not None
            assert launch.process is not None
            launch.process.send_signal(signal.SIGKILL)
            view = wait_for_run(workspace, run.run_id, 60)
            assert (view.state, run.status().state) == ("interrupted", "interrupted"), side
            resume_run(workspace, run.run_id)
            view = wait_for_run(workspace, run.run_id, 60)
            assert (view.state, view.attempt) == ("completed", 2), side
        workspace.close()


def test_an_edited_written_record_is_found(sides: dict[str, Workspace]) -> None:
    """Seals and signatures of written records are real ones."""
    run = run_of(sides["written"], "baseline")
    path = run.artifacts / "summary.json"
    before = path.read_text()
    path.write_text(before.replace('"steps": 12', '"steps": 13'))
    try:
        assert any(run.run_id in problem for problem in verify_workspace(sides["written"].path).problems)
    finally:
        path.write_text(before)


def test_a_written_run_finds_what_a_trained_one_of_the_project_found(sides: dict[str, Workspace]) -> None:
    workspace, trained = sides["trained"], run_of(sides["trained"], "baseline")
    with scripted() as launcher:
        start_run(workspace, NAME, RunKind.BASELINE, seed=7, idempotency_key="written")
    written = workspace.run_directory(NAME, launcher.started[0])
    for part in (Data, Code, Resolved):
        assert written.part(part) == trained.part(part)
    with workspace.session() as session:
        evidence = Evidence(session, workspace, NAME)
        run = evidence.run(written.run_id)
        assert run is not None
        assert other_than_planned(evidence, run) == []
