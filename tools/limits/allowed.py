"""What a project may use: its own wishes, each cut down to the owner's present limit."""

from __future__ import annotations

from typing import TYPE_CHECKING

from trainwright.tools.workspace.settings import ProjectLimits

if TYPE_CHECKING:
    from sqlalchemy.orm import Session

    from trainwright.tools.workspace import Workspace
    from trainwright.tools.workspace.tables import Project


def effective_limits(session: Session, workspace: Workspace, project: Project) -> ProjectLimits:  # noqa: ARG001
    """Return the limits that hold for the project now."""
    owner = workspace.settings.limits
    wishes = {name: wish for name, wish in project.limits.items() if name in ProjectLimits.model_fields}
    values = {name: min(wishes.get(name, value), value) for name, value in owner.model_dump().items()}
    return ProjectLimits.model_validate(values)
