"""A real run's checkpoints, its export, and the registry."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pytest

from trainwright.tools import ledger
from trainwright.tools.checkpoint_manager import export_model, list_checkpoints
from trainwright.tools.projects import create_project
from trainwright.tools.registry import list_models, register_model
from trainwright.tools.training_orchestrator import RunView, start_run, wait_for_run
from trainwright.tools.workspace import Workspace
from trainwright.tools.workspace.records import latest_config
from trainwright.trainer.base.errors import ConflictError, IntegrityError, NotFoundError
from trainwright.trainer.config import config_digest, parse_config
from trainwright.trainer.run import RunDirectory, RunKind, RunState

pytestmark = pytest.mark.slow

CONFIG: dict[str, Any] = {
    "model": {"use": "mlp", "args": {"hidden": [16]}},
    "data": {"use": "digits", "expectations": {"without": ["label_errors", "leaks"]}},
    "training": {"epochs": 3},
    "checkpoints": {"checkpoint_every_n_epochs": 1},
    "metrics": ["accuracy"],
    "logging": {"tensorboard": False},
}


@dataclass
class Finished:
    """A project in finalization with a completed final run and its export."""

    workspace: Workspace
    final: RunView
    export: RunView

    def directory(self, view: RunView) -> RunDirectory:
        return self.workspace.run_directory("digits", view.run_id)


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Finished]:
    workspace = Workspace.open(tmp_path_factory.mktemp("checkpoints") / "workspace")
    goal = {"metric": "accuracy", "direction": "maximize", "target": 0.5}
    create_project(workspace, "digits", intent="test", goal=goal, config=CONFIG)
    with workspace.session() as session:  # gates are another area's matter: the earlier decisions stand in the ledger
        values = latest_config(session, "digits").values
        rested_on = {
            "configuration": config_digest(parse_config(values)),
            "values": values,
            "smoke_run": "",
            "runs": [],
        }
        for phase in ("planning", "baseline", "diagnostics", "optimization"):
            body = {"phase": phase, "outcome": "passed", "checks": [], "rested_on": rested_on, "artifacts": {}}
            ledger.append(session, "digits", "gate", body | {"final_values": values})
    final = until_ended(workspace, start_run(workspace, "digits", RunKind.FINAL).run_id)
    export = until_ended(workspace, export_model(workspace, "digits").run_id)
    yield Finished(workspace, final, export)
    workspace.close()


def until_ended(workspace: Workspace, run_id: str) -> RunView:
    while not (view := wait_for_run(workspace, run_id)).is_ended:
        pass
    assert view.state is RunState.COMPLETED, view.failure
    return view


@pytest.mark.long
@pytest.mark.requirement("CKPT-1", "CKPT-2")
def test_every_checkpoint_is_listed_with_tags_metrics_and_whether_it_is_whole(finished: Finished) -> None:
    found = list_checkpoints(finished.workspace, finished.final.run_id, verify=True)
    assert [one.epoch for one in found.checkpoints] == [1, 2, 3]
    assert found.checkpoints[-1].tags.count("last") == 1
    assert sum("best" in one.tags for one in found.checkpoints) == 1
    assert all("periodic" in one.tags for one in found.checkpoints)
    assert all(one.whole for one in found.checkpoints)
    assert found.problems == []
    best = next(one for one in found.checkpoints if "best" in one.tags)
    assert finished.final.best is not None
    assert best.metrics["accuracy"] == finished.final.best["value"]
    assert list_checkpoints(finished.workspace, finished.final.run_id).checkpoints[0].whole is None
    with pytest.raises(NotFoundError):
        list_checkpoints(finished.workspace, "final-none")


@pytest.mark.requirement("CKPT-6", "GATE-3", "GATE-5")
def test_an_unchanged_export_becomes_a_version_with_its_whole_descent(finished: Finished) -> None:
    weights = finished.directory(finished.export).artifacts / "final_model" / "model.safetensors"
    content = weights.read_bytes()
    weights.write_bytes(content[::-1])
    with (
        finished.workspace.session() as session,
        pytest.raises(IntegrityError, match=r"model\.safetensors was changed"),
    ):
        register_model(session, finished.workspace, finished.export.run_id)
    weights.write_bytes(content)
    with finished.workspace.session() as session:
        first = register_model(session, finished.workspace, finished.export.run_id)
        assert register_model(session, finished.workspace, finished.export.run_id) == first
        ((_, recorded),) = ledger.entries(session, "digits", "model_registered")
    assert first == recorded["version"] == 1
    source = finished.directory(finished.final)
    lineage = recorded["lineage"]
    assert lineage["run"] == finished.final.run_id
    assert lineage["configuration"] == source.specification().config_digest
    assert lineage["data"] == (source.evidence("data") or {})["fingerprint"]
    assert lineage["environment"] == (source.evidence("environment") or {})["packages_digest"]
    assert recorded["checkpoint_digest"].startswith("blake3:")
    assert 0.0 <= recorded["metrics"]["test"]["accuracy"] <= 1.0
    (listed,) = list_models(finished.workspace, "digits").versions
    assert (listed.version, listed.lineage["run"]) == (1, finished.final.run_id)


@pytest.mark.requirement("CKPT-6")
def test_only_a_completed_export_can_be_registered(finished: Finished) -> None:
    with finished.workspace.session() as session:
        with pytest.raises(ConflictError, match="only a completed export"):
            register_model(session, finished.workspace, finished.final.run_id)
        with pytest.raises(NotFoundError):
            register_model(session, finished.workspace, "export-none")


@pytest.mark.requirement("CKPT-2", "GATE-5")
def test_a_swapped_checkpoint_is_named(finished: Finished) -> None:
    folder = min(finished.directory(finished.final).checkpoints.glob("step-*"))
    tensors = folder / "model.safetensors"
    content = tensors.read_bytes()
    tensors.write_bytes(content[:-1] + bytes([content[-1] ^ 1]))
    found = list_checkpoints(finished.workspace, finished.final.run_id, verify=True)
    assert found.problems == [f"{folder.name}: model.safetensors does not match its digest"]
    assert [one.name for one in found.checkpoints if not one.whole] == [folder.name]
    manifest = (folder / "manifest.json").read_bytes()
    (folder / "manifest.json").write_text("{}")
    problems = list_checkpoints(finished.workspace, finished.final.run_id).problems
    assert problems == [f"{folder.name}: manifest.json is missing or damaged"]
    tensors.write_bytes(content)
    (folder / "manifest.json").write_bytes(manifest)
