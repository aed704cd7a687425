"""A function that words the answers is edited after a release: what verifies, and how the next release has it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from tests.worlds.flowers import NAME

from trainwright.tools import projects
from trainwright.tools.verification import verify_workspace
from trainwright.tools.workspace import Workspace

WORDS = "def present(output):\n    return {'kind': int(output.argmax())}\n"


def go_on(workspace: Workspace) -> list[str]:
    """Advance to the end; return the runs that it took."""
    before = {run.run_id for run in projects.project_status(workspace, NAME).runs}
    for _ in range(8):
        projects.advance(workspace, NAME)
        if (status := projects.project_status(workspace, NAME)).finished:
            break
    assert status.finished, status
    return sorted(run.kind for run in status.runs if run.run_id not in before)


def is_exported(steps: list[str]) -> bool:
    return any("export" in one and "completed" in one for one in steps)


@pytest.mark.long
@pytest.mark.timeout(600)
@pytest.mark.requirement("GATE-3", "CKPT-5", "GATE-7", "PHASE-8")
def test_an_edited_present_is_in_the_next_release_without_a_training_and_accuses_nobody(
    at: Callable[[str], Workspace], other_numpy: Callable[[], None]
) -> None:
    workspace = at("created")
    serve = workspace.path.parent / "code" / "serve.py"
    serve.write_text(WORDS)
    projects.configure(workspace, NAME, changes={"data.present": "serve.py:present"})
    go_on(workspace)
    serve.write_text(WORDS.replace("'kind'", "'flower'"))
    assert verify_workspace(workspace.path).problems == []
    projects.configure(workspace, NAME, begin_release=True)
    assert go_on(workspace) == ["export", "smoke"]
    released = Path(workspace.project_folder(NAME)) / "final_model" / "code" / "serve.py"
    assert "'flower'" in released.read_text()
    assert verify_workspace(workspace.path).problems == []

    serve.write_text(WORDS.replace("'kind'", "'iris'"))
    projects.configure(workspace, NAME, begin_release=True)
    steps: list[str] = []
    projects.advance(workspace, NAME, should_stop=lambda: is_exported(steps), said=steps.append)
    other_numpy()
    found = projects.project_status(workspace, NAME).next
    assert is_exported(steps), steps
    assert found is not None
    assert (found.tool, found.arguments["kind"]) == ("start_training", "smoke"), "no replay: the export met a new file"
