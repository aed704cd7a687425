"""A workspace whose runs are ordered for real and wait for an outer launcher, and its owner's settings."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from trainwright.tools.projects import create_project
from trainwright.tools.workspace import Workspace

GOAL = {"metric": "accuracy", "direction": "maximize", "target": 0.9}
CONFIG: dict[str, Any] = {
    "model": {"use": "mlp"},
    "data": {"use": "iris", "expectations": {"without": ["label_errors", "leaks"]}},
    "training": {"device": "cuda"},
    "distributed": {"launcher": "outer", "processes": 4},
}
"""Runs that wait for a cluster's scheduler: ordered and reserved for like all, and no process starts here."""


@pytest.fixture
def workspace(tmp_path: Path) -> Iterator[Workspace]:
    opened = Workspace.open(tmp_path / "workspace")
    path = opened.path / "settings.yaml"
    path.write_text(path.read_text().replace("outer_launcher: false", "outer_launcher: true"))
    opened.refreshed()
    create_project(opened, "big", intent="test", goal=GOAL, config=CONFIG)
    yield opened
    opened.close()


@pytest.fixture
def config() -> dict[str, Any]:
    """The projects' configuration."""
    return CONFIG


@pytest.fixture
def another(workspace: Workspace) -> Callable[[str], None]:
    """Make one more project like the first."""

    def make(name: str) -> None:
        create_project(workspace, name, intent="test", goal=GOAL, config=CONFIG)

    return make


@pytest.fixture
def settings(workspace: Workspace) -> Callable[..., None]:
    """Edit the owner's settings: `settings(gpu_hours=1.0)`; workspace limits as `workspace_gpu_hours`."""

    def edit(**values: float) -> None:
        path, part = workspace.path / "settings.yaml", ""
        lines = []
        for line in path.read_text().splitlines():
            name = line.split(":")[0].strip()
            part = "workspace_" if line.startswith("workspace_limits") else part
            key = name if line.startswith("price") else part + name
            lines.append(f"{line.split(':')[0]}: {values[key]!r}" if key in values else line)
        path.write_text("\n".join(lines) + "\n")
        workspace.refreshed()

    return edit
