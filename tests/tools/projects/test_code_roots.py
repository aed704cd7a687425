"""A code root that was moved: said as such, found again, and nothing is stale once the project points to it."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from trainwright.tools import projects
from trainwright.tools.verification import verify_workspace
from trainwright.tools.workspace import Workspace
from trainwright.tools.workspace.records import get_project
from trainwright.trainer.base.errors import ApprovalNeededError, ConfigurationError

NAME = "flowers"
At = Callable[[str], Workspace]


def status(workspace: Workspace) -> projects.ProjectStatus:
    found = projects.project_status(workspace, NAME)
    assert isinstance(found, projects.ProjectStatus)
    return found


@pytest.mark.requirement("PHASE-8", "GATE-2")
def test_a_moved_code_root_is_named_and_found_and_nothing_is_stale_once_the_project_points_to_it(at: At) -> None:
    workspace = at("based")
    old = workspace.path.parent / "code"
    new = workspace.path.parent / "mine" / "flowers"
    new.parent.mkdir()
    old.rename(new)
    found = status(workspace)
    assert found.gates["planning"].startswith(f"stale: code root: {old} is not there")
    assert found.next is not None
    assert (found.next.tool, found.next.arguments["changes"]) == ("configure", {"code_root": str(new)})
    answer = projects.configure(workspace, **found.next.arguments)
    assert answer.changed == {"code_root": [str(old), str(new)]}
    assert (answer.version, answer.reopened, answer.phase) == (1, [], "diagnostics")
    assert verify_workspace(workspace.path).findings == []
    (new / "flower_model.py").write_text("WIDTH = 1\n")
    assert "code: flower_model.py changed" in status(workspace).gates["planning"]


@pytest.mark.requirement("PHASE-8", "GATE-4")
def test_a_folder_with_other_files_or_outside_the_owners_roots_is_refused(at: At, tmp_path: Path) -> None:
    workspace = at("based")
    other = workspace.path.parent / "other"
    other.mkdir()
    with pytest.raises(ConfigurationError, match=r"does not hold the files .* code: flower_model.py was removed"):
        projects.configure(workspace, NAME, changes={"code_root": str(other)})
    with pytest.raises(ConfigurationError, match="does not hold the files"):  # and the owner is not asked in vain
        projects.configure(workspace, NAME, changes={"code_root": "/etc"})
    with pytest.raises(ConfigurationError, match="is the workspace, which holds what was measured"):
        projects.configure(workspace, NAME, changes={"code_root": str(workspace.path)})
    shutil.copytree(workspace.path.parent / "code", outside := tmp_path / "outside")
    with pytest.raises(ApprovalNeededError, match=f"code_root {outside}"):
        projects.configure(workspace, NAME, changes={"code_root": str(outside)})
    with pytest.raises(ConfigurationError, match="is not a folder"):
        projects.configure(workspace, NAME, changes={"code_root": "nowhere"})
    shutil.copytree(workspace.path.parent / "code", moved := workspace.path.parent / "moved")
    with pytest.raises(ConfigurationError, match="learning_rate"):
        projects.configure(workspace, NAME, changes={"code_root": str(moved), "optimizer.learning_rate": "fast"})
    with workspace.session() as session:
        assert Path(get_project(session, NAME).code_root).name == "code", "refused as a whole"
    assert status(workspace).phase == "diagnostics"
