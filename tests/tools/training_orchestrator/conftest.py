"""A workspace with a small project on the digits, opened up to the baseline phase, and hand-made run directories."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.worlds.warm import warm

from trainwright.tools import ledger
from trainwright.tools.launchers import Launch, write_launch
from trainwright.tools.projects import create_project
from trainwright.tools.workspace import Workspace
from trainwright.tools.workspace.records import latest_config
from trainwright.tools.workspace.tables import Run
from trainwright.trainer.config import config_digest, parse_config
from trainwright.trainer.run import RunDirectory, RunKind, RunSpecification, RunState, RunStatus
from trainwright.trainer.run.evidence import Summary

PROJECT = "digits"
CONFIG: dict[str, Any] = {
    "model": {"use": "mlp", "args": {"hidden": [16]}},
    "data": {"use": "digits", "expectations": {"without": ["label_errors", "leaks"]}},
    "training": {"epochs": 3},
    "metrics": ["accuracy"],
    "logging": {"tensorboard": False},
}


def make_project(workspace: Workspace, name: str = PROJECT, **config: Any) -> None:
    """Create a project; gates are another area's matter, so planning's decision stands in the ledger."""
    goal = {"metric": "accuracy", "direction": "maximize", "target": 0.99}
    create_project(workspace, name, intent="test", goal=goal, config=CONFIG | config)
    with workspace.session() as session:
        values = latest_config(session, name).values
        rested_on = {
            "configuration": config_digest(parse_config(values)),
            "values": values,
            "smoke_run": "",
            "runs": [],
        }
        body = {"phase": "planning", "outcome": "passed", "checks": [], "rested_on": rested_on, "artifacts": {}}
        ledger.append(session, name, "gate", body)


@pytest.fixture(scope="module", autouse=True)
def warm_runs() -> None:
    """Not here: these tests are about how runs start, live and end."""


@pytest.fixture
def warm_start() -> Iterator[None]:
    """Start as forks: for tests of what becomes of a run, however it was started."""
    with warm():
        yield


@pytest.fixture
def make_user_project(workspace: Workspace) -> Callable[[str, str], None]:
    """Make a project whose model is the given source code."""

    def make(name: str, source: str) -> None:
        (workspace.path.parent / f"{name}_model.py").write_text(source)
        make_project(workspace, name, model={"use": f"{name}_model.py:build", "args": {}})

    return make


@pytest.fixture
def workspace(tmp_path: Path) -> Iterator[Workspace]:
    opened = Workspace.open(tmp_path / "workspace")
    make_project(opened)
    yield opened
    opened.close()


@pytest.fixture
def made_run(workspace: Workspace) -> Callable[..., RunDirectory]:
    """Make a run's row and directory as a launcher and a worker would have left them."""

    def make(run_id: str = "baseline-digits-20260101-000000-abcdef", *, kind: RunKind = RunKind.BASELINE,
             launch: Launch | None = None, **status: Any) -> RunDirectory:  # fmt: skip
        with workspace.session() as session:
            config = parse_config(latest_config(session, PROJECT).values)
            digest = config_digest(config)
            row = Run(id=run_id, project=PROJECT, kind=kind, config_digest=digest, base_config_digest=digest, seed=42)
            session.add(row)
        specification = RunSpecification(
            run_id=run_id,
            project=PROJECT,
            kind=kind,
            config=config,
            config_digest=digest,
            code_root=str(workspace.path.parent),
        )
        directory = RunDirectory.create(workspace.run_directory(PROJECT, run_id).path, specification)
        write_launch(directory.path, launch or Launch(attempt=1))
        if status:
            now = {"attempt": 1, "started_at": time.time(), "heartbeat_at": time.time()}
            directory.write_status(RunStatus(**(now | status)))
        return directory

    return make


@pytest.fixture
def completed_run(made_run: Callable[..., RunDirectory]) -> RunDirectory:
    directory = made_run(state=RunState.COMPLETED, step=9, stop_reason="completed")
    directory.append_event("ended", state="completed", stop_reason="completed")
    directory.write_evidence(Summary(steps=9, stop_reason="completed"))
    with directory.metrics(writer=True) as store:
        store.write([("train/loss", step, 1.0 / step, 0.0) for step in range(1, 10)])
    return directory


@pytest.fixture
def entries_of(workspace: Workspace) -> Callable[[str], list[tuple[str, dict[str, Any]]]]:
    """Give the kinds and bodies of the ledger's entries about one run, in order."""

    def find(run_id: str) -> list[tuple[str, dict[str, Any]]]:
        kinds = ("run_started", "run_sealed", "run_resumed")
        with workspace.session() as session:
            found = [(number, kind, body) for kind in kinds for number, body in ledger.entries(session, PROJECT, kind)]
        return [(kind, body) for _, kind, body in sorted(found, key=lambda one: one[0]) if body["run_id"] == run_id]

    return find
