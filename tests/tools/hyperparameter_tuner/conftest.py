"""A workspace with small projects on the digits, opened up to the optimization phase."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.worlds.scripted import Scripted, scripted

from trainwright.tools import ledger
from trainwright.tools.hyperparameter_tuner.conductor import _carry_out_wave, next_wave
from trainwright.tools.hyperparameter_tuner.trials import TrialRecord, trials_of
from trainwright.tools.projects import create_project
from trainwright.tools.workspace import Workspace
from trainwright.tools.workspace.records import latest_config
from trainwright.trainer.config import config_digest, parse_config

CONFIG: dict[str, Any] = {
    "model": {"use": "mlp", "args": {"hidden": [16]}},
    "data": {"use": "digits", "expectations": {"without": ["label_errors", "leaks"]}},
    "training": {"epochs": 3},
    "optimizer": {"learning_rate": 1e-6},
    "metrics": ["accuracy"],
    "logging": {"tensorboard": False},
}


@pytest.fixture(scope="module")
def module_workspace(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Workspace]:
    opened = Workspace.open(tmp_path_factory.mktemp("study") / "workspace")
    yield opened
    opened.close()


@pytest.fixture
def workspace(tmp_path: Path) -> Iterator[Workspace]:
    opened = Workspace.open(tmp_path / "workspace")
    yield opened
    opened.close()


@pytest.fixture
def digits(workspace: Workspace, make_project: Callable[..., str]) -> Workspace:
    """The workspace, with the usual project in it."""
    make_project(workspace)
    return workspace


@pytest.fixture
def launcher() -> Iterator[Scripted]:
    """Runs and studies that train nothing: what a study decides follows from the values of its trials."""
    with scripted() as launcher:
        yield launcher


@pytest.fixture
def by_hand(launcher: Scripted) -> Scripted:
    """Studies that the test conducts itself."""
    launcher.is_conducting = False
    return launcher


def table_of(workspace: Workspace, study_id: str) -> list[TrialRecord]:
    """Return a study's trials."""
    with workspace.session() as session:
        return trials_of(session, study_id)


def told(trials: list[TrialRecord]) -> list[dict[str, Any]]:
    """Return trials without their runs: two studies have runs of their own."""
    return [{key: value for key, value in vars(trial).items() if key != "run"} for trial in trials]


def tried(workspace: Workspace, study_id: str) -> None:
    """Carry out a study's trials in this thread. Its confirmation, which is most of its runs, is another test's."""
    while wave := next_wave(workspace, study_id):
        _carry_out_wave(workspace, study_id, wave)


@pytest.fixture(scope="session")
def make_project() -> Callable[..., str]:
    """Create a project; gates are another area's matter, so the earlier decisions stand in the ledger."""

    def make(workspace: Workspace, name: str = "digits", *, limits: dict[str, Any] | None = None, **config: Any) -> str:
        goal = {"metric": "accuracy", "direction": "maximize", "target": 0.99}
        create_project(workspace, name, intent="test", goal=goal, config=CONFIG | config, limits=limits)
        with workspace.session() as session:
            values = latest_config(session, name).values
            digest = config_digest(parse_config(values))
            rested_on = {"configuration": digest, "values": values, "smoke_run": "", "runs": []}
            for phase in ("planning", "baseline", "diagnostics"):
                body = {"phase": phase, "outcome": "passed", "checks": [], "rested_on": rested_on, "artifacts": {}}
                ledger.append(session, name, "gate", body)
        return name

    return make
