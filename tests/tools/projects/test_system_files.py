"""What an operating system leaves in a folder that somebody has looked into is nobody's change."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from trainwright.tools import projects
from trainwright.tools.verification import verify_workspace
from trainwright.tools.workspace import Workspace
from trainwright.trainer.base.canonical import digest_path

NAME = "flowers"
LEFT = (".DS_Store", "Thumbs.db", "desktop.ini", "._model.safetensors")


@pytest.mark.requirement("PHASE-8", "GATE-3")
def test_files_that_an_operating_system_leaves_everywhere_are_no_difference(at: Callable[[str], Workspace]) -> None:
    workspace = at("finished")
    folders = [path for path in workspace.project_folder(NAME).rglob("*") if path.is_dir()]
    for folder in (workspace.path.parent / "code", workspace.project_folder(NAME), *folders):
        for name in LEFT:
            (folder / name).write_bytes(b"left")
    found = projects.project_status(workspace, NAME)
    assert isinstance(found, projects.ProjectStatus)
    assert (found.finished, found.remarks) == (True, [])
    assert verify_workspace(workspace.path).findings == []


@pytest.mark.requirement("PHASE-8")
def test_a_folder_of_data_has_the_same_digest_with_them(tmp_path: Path) -> None:
    (tmp_path / "cats").mkdir()
    (tmp_path / "cats" / "one.png").write_bytes(b"cat")
    before = digest_path(tmp_path)
    for name in LEFT:
        (tmp_path / "cats" / name).write_bytes(b"left")
    assert digest_path(tmp_path) == before
    (tmp_path / "cats" / "two.png").write_bytes(b"cat")
    assert digest_path(tmp_path) != before
