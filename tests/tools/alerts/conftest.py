"""A workspace with a small project and hand-made run directories, whose curves a test chooses."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import pytest
from sqlalchemy import select
from tests.tools.training_orchestrator.conftest import CONFIG, PROJECT, made_run, make_project, workspace

from trainwright.tools.alerts import look
from trainwright.tools.workspace import Workspace
from trainwright.tools.workspace.records import get_run
from trainwright.tools.workspace.tables import RaisedAlert, Run
from trainwright.trainer.run import RunDirectory, RunState, RunStatus

__all__ = ["made_run", "make_project", "workspace"]

HEALTHY = [("train/loss", step, 1.0 / step, 0.0) for step in range(1, 10)]
EXPLODING = [
    row
    for step in range(1, 10)
    for row in (("train/gradient_norm", step, 1e6, 0.0), ("train/loss", step, 1.0, 0.0))  # nothing is learned either
]
RUN = "baseline-digits-20260101-000000-abcdef"
LATER = "baseline-digits-20260102-000000-abcdef"


def write(directory: RunDirectory, rows: list[tuple[str, int, float, float]]) -> None:
    """Record rows as a worker does."""
    with directory.metrics(writer=True) as store:
        store.write(rows)


def running(**status: Any) -> RunStatus:
    """A worker's status."""
    return RunStatus(**({"state": RunState.RUNNING, "attempt": 1, "step": 9, "heartbeat_at": time.time()} | status))


@pytest.fixture(autouse=True)
def plain_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let runs have an optimizer whose steps are as long as the gradient, so that a large one is more than units."""
    monkeypatch.setitem(CONFIG, "optimizer", {"name": "sgd", "learning_rate": 0.01})


@pytest.fixture
def look_at(workspace: Workspace) -> Callable[..., list[RaisedAlert]]:
    """Look at a run as a follower does that is started afresh, and give its alerts."""
    from trainwright.tools.alerts import looking

    def look_now(run_id: str, **status: Any) -> list[RaisedAlert]:
        looking._RUNS.clear()
        with workspace.session() as session:
            run = get_run(session, run_id)
        look(workspace, run, running(**status))
        with workspace.session() as session:
            return list(session.scalars(select(RaisedAlert).where(RaisedAlert.run == run_id)))

    return look_now


@pytest.fixture
def other_configuration(workspace: Workspace) -> Callable[[str], None]:
    """Let a run have been started under another configuration."""

    def change(run_id: str) -> None:
        with workspace.session() as session:
            row = session.get(Run, run_id)
            assert row is not None
            row.config_digest = row.base_config_digest = "blake3:another"

    return change


@pytest.fixture
def project_name() -> str:
    return PROJECT
