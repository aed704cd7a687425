"""The run or study that a call means: by its handle, by the beginning of its id, or left out."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from trainwright.tools.workspace import Workspace

TO_RESUME = ("stopped", "interrupted")


def run_of(
    workspace: Workspace, name: str | None, project: str | None = None, *, prefer: tuple[str, ...] | None = None
) -> str:
    """Return the run's long id. Raises NotFoundError or ConflictError, with near handles."""
    from trainwright.tools.workspace.handles import ACTIVE_STATES, run_named
    from trainwright.tools.workspace.records import get_project

    with workspace.snapshot() as session:
        if project is not None:
            get_project(session, project)
        return run_named(session, name, project=project, prefer=prefer or ACTIVE_STATES)


def study_of(workspace: Workspace, name: str | None, project: str | None = None) -> str:
    """Return the study's long id. Raises NotFoundError or ConflictError, with near handles."""
    from trainwright.tools.workspace.handles import study_named

    with workspace.snapshot() as session:
        return study_named(session, name, project=project)


def names_study(name: str | None) -> bool:
    """Return whether the name of a run or study is that of a study: `digits/study-1`, or a long id of one."""
    return name is not None and name.rpartition("/")[2].startswith("study-")
