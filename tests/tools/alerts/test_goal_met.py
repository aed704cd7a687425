"""Whoever has learned what the goal asks for is not told how to learn better; findings on the data stay news."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.worlds.records import Script
from tests.worlds.scripted import scripted

from trainwright.tools import alerts, projects
from trainwright.tools.training_orchestrator import start_run, wait_for_run
from trainwright.tools.workspace import Workspace
from trainwright.trainer.run import RunKind

CONFIG = {
    "model": {"use": "mlp", "args": {"hidden": [8]}},
    "data": {"use": "iris"},
    "training": {"epochs": 3},
    "logging": {"tensorboard": False},
}
STALLED = {"id": "convergence_stall", "severity": "warning", "measured": 0.0, "step": 1, "message": "It stalls."}
NOISY = {"id": "label_noise", "severity": "warning", "measured": 0.2, "step": 1, "message": "Labels differ."}


@pytest.mark.slow
@pytest.mark.requirement("DIAG-6", "DIAG-10")
@pytest.mark.parametrize(("target", "told"), [(0.5, {"label_noise"}), (0.9999, {"label_noise", "convergence_stall"})])
def test_a_run_that_meets_its_goal_raises_no_alert_of_how_it_learns(
    target: float, told: set[str], tmp_path: Path
) -> None:
    workspace = Workspace.open(tmp_path / "world")
    goal = {"metric": "accuracy", "direction": "maximize", "target": target}
    projects.create_project(workspace, "iris", intent="", goal=goal, config=CONFIG)
    with scripted(Script(events=(("alert", STALLED), ("alert", NOISY)))):
        run_id = start_run(workspace, "iris", RunKind.SMOKE).run_id
        wait_for_run(workspace, run_id)
    news = {row.id for row in alerts.news_of(workspace, run_id)}
    assert news & {"label_noise", "convergence_stall"} == told
    workspace.close()
