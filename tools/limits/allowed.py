"""What a project may use: its own wishes, each cut down to the owner's present limit."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from trainwright.tools.workspace.settings import ProjectLimits

if TYPE_CHECKING:
    from sqlalchemy.orm import Session

    from trainwright.tools.workspace import Settings, Workspace
    from trainwright.tools.workspace.tables import Project


def effective_limits(session: Session, workspace: Workspace, project: Project) -> ProjectLimits:  # noqa: ARG001
    """Return the limits that hold for the project now."""
    return limits_under(workspace.settings, project.limits)


def limits_under(settings: Settings, wishes: dict[str, Any]) -> ProjectLimits:
    """Return the limits of a project with such wishes under the owner's settings."""
    owner = settings.limits.model_dump()
    return ProjectLimits.model_validate({name: min(wishes.get(name, value), value) for name, value in owner.items()})
