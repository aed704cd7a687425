"""Limits of a project: its requests, each cut down to the owner's present limit, and what the owner granted."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from trainwright.tools.owner import granted
from trainwright.tools.workspace.settings import LEAST, ProjectLimits

if TYPE_CHECKING:
    from sqlalchemy.orm import Session

    from trainwright.tools.owner import Grant
    from trainwright.tools.workspace import Settings, Workspace
    from trainwright.tools.workspace.tables import Project


def effective_limits(session: Session, workspace: Workspace, project: Project) -> ProjectLimits:
    """Return the limits in force for the project."""
    grants = [request.grant for request in granted(session, workspace, project.name)]
    return limits_under(workspace.settings, project.limits, grants)


def limits_under(settings: Settings, requested: dict[str, Any], grants: list[Grant]) -> ProjectLimits:
    """Return the limits of a project that requested these, under the owner's settings and grants."""
    values: dict[str, Any] = {
        name: (max if name in LEAST else min)(requested.get(name, value), value)
        for name, value in settings.limits.model_dump().items()
    }
    for grant in grants:
        if grant.kind == "limit" and grant.value is not None:
            looser = min if grant.name in LEAST else max
            values[grant.name] = type(values[grant.name])(looser(values[grant.name], grant.value))
    return ProjectLimits.model_validate(values)
