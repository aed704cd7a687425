"""Limits of a project: its requests, each cut down to the owner's present limit, and what the owner granted."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from trainwright.tools.owner import granted
from trainwright.tools.workspace.settings import LEAST, ProjectLimits

if TYPE_CHECKING:
    from sqlalchemy.orm import Session

    from trainwright.tools.owner import Wish
    from trainwright.tools.workspace import Settings, Workspace
    from trainwright.tools.workspace.tables import Project


def effective_limits(session: Session, workspace: Workspace, project: Project) -> ProjectLimits:
    """Return the limits that hold for the project now."""
    grants = [request.wish for request in granted(session, workspace, project.name)]
    return limits_under(workspace.settings, project.limits, grants)


def limits_under(settings: Settings, wishes: dict[str, Any], grants: list[Wish]) -> ProjectLimits:
    """Return the limits of a project with such wishes, under the owner's settings and grants."""
    values: dict[str, Any] = {
        name: (max if name in LEAST else min)(wishes.get(name, value), value)
        for name, value in settings.limits.model_dump().items()
    }
    for wish in grants:
        if wish.kind == "limit" and wish.value is not None:
            looser = min if wish.name in LEAST else max
            values[wish.name] = type(values[wish.name])(looser(values[wish.name], wish.value))
    return ProjectLimits.model_validate(values)
