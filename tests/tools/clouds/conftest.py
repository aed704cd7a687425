"""Workspace of a project that jobs are rendered for."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.worlds.flowers import CONFIG, GOAL, NAME, write_code

from trainwright.tools import projects
from trainwright.tools.workspace import Workspace


def _home(folder: Path) -> Workspace:
    write_code(folder / "code")
    workspace = Workspace.open(folder / "workspace")
    projects.create_project(workspace, NAME, intent="tell irises apart", goal=GOAL, config=CONFIG)
    return workspace


@pytest.fixture
def home(tmp_path: Path) -> Workspace:
    return _home(tmp_path)


@pytest.fixture(scope="module")
def left_alone(tmp_path_factory: pytest.TempPathFactory) -> Workspace:
    """The same for all tests of a file: for what writes nothing into the project."""
    return _home(tmp_path_factory.mktemp("home"))
