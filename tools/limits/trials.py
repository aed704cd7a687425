"""Trials that searches have made, and those that running searches have reserved."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from sqlalchemy import func, select

from trainwright.tools.limits.amounts import effective_limits
from trainwright.tools.limits.reservation import how_to_raise
from trainwright.tools.workspace.tables import Study, Trial
from trainwright.trainer.base.errors import LimitReachedError

if TYPE_CHECKING:
    from sqlalchemy.orm import Session

    from trainwright.tools.limits.reservation import how_to_raise
    from trainwright.tools.workspace import Workspace
from trainwright.tools.workspace.tables import Project

ACTIVE = ("running", "confirming")
DOCUMENT = "phases/04_optimization/workflow.md"


class Trials(NamedTuple):
    """Counts over several studies."""

    made: int
    reserved: int
    """Trials that running searches have not made yet."""


def count_trials(session: Session, project: str | None = None, *, without: str | None = None) -> Trials:
    """Count over the studies of one project, or of all; one study may be left out."""
    counted = session.execute(select(Trial.study, func.count()).group_by(Trial.study))
    made = {str(study): int(count) for study, count in counted}
    studies = [
        study
        for study in session.scalars(select(Study))
        if study.id != without and (project is None or study.project == project)
    ]
    active = (study for study in studies if study.state in ACTIVE)
    reserved = sum(max(0, int(study.search["trials"]) - made.get(study.id, 0)) for study in active)
    return Trials(sum(made.get(study.id, 0) for study in studies), reserved)


def require_trials(session: Session, workspace: Workspace, project: Project, study_id: str | None, trials: int) -> None:
    """Raise LimitReachedError if a study of so many trials exceeds the remaining ones."""
    own = effective_limits(session, workspace, project).trials
    whole = workspace.settings.workspace_limits.trials
    for name, scope, allowed in (("trials", project.name, own), ("workspace_limits.trials", None, whole)):
        count = count_trials(session, scope, without=study_id)
        left = max(0, allowed - count.made - count.reserved)
        if trials > left:
            held = f" ({count.reserved} reserved by searches under way)" if count.reserved else ""
            raise LimitReachedError(
                f"The search asks for {trials} trials; {name} has {left} left of {allowed}{held}.",
                remedy="Search with fewer trials; only the workspace's owner can raise the limit: "
                + how_to_raise(name, project.name),
                document=DOCUMENT,
                details={"limit": name, "used": count.made, "reserved": count.reserved, "allowed": allowed},
            )
