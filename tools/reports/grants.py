"""What the workspace's owner granted, as every report tells it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from trainwright.tools.owner import meaning, requests_of
from trainwright.tools.reports.markdown import table

if TYPE_CHECKING:
    from sqlalchemy.orm import Session

    from trainwright.tools.workspace import Workspace


def grants_section(session: Session, workspace: Workspace, project: str) -> str:
    """Return the section on the owner's grants, lapsed ones included; empty when nothing was granted."""
    granted = [each for each in requests_of(session, workspace, project) if each.state in {"granted", "lapsed"}]
    rows = [(str(each), meaning(each.wish), (each.decided_at or "")[:19]) for each in granted]
    return "\n\n## Granted by the owner\n\n" + table(("what", "meaning", "when (UTC)"), rows) if rows else ""
