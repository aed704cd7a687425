"""Changes of a workspace and of a run since the last look, for a page that stays open."""

from __future__ import annotations

from collections.abc import Sequence

from pydantic import BaseModel
from sqlalchemy import func, select

from trainwright.tools.dashboard.curves import NewPoints, curves_since
from trainwright.tools.dashboard.overview import AlertCard, ProjectCard, cards, living_runs, standing_alerts
from trainwright.tools.dashboard.run_page import RunProgress, progress_of, run_progress
from trainwright.tools.workspace import Workspace
from trainwright.tools.workspace.tables import LedgerEntry
from trainwright.trainer.base.file_stamps import Stamp, stamp_of


class WorkspaceNews(BaseModel):
    """What is new in a workspace."""

    sequence: int
    """Number of the ledger's last entry."""
    projects: list[ProjectCard]
    """Those that newer entries name."""
    living: list[RunProgress]
    """Runs under way that have moved."""
    living_ids: list[str]
    """All that are under way, the newest first."""
    alerts: list[AlertCard]
    """All that stand."""


class RunNews(BaseModel):
    """What is new about a run."""

    progress: RunProgress | None = None
    points: NewPoints | None = None
    reload: bool = False
    """Whether its page has changed: its state, its events, its checkpoints."""


class WorkspaceChanges:
    """Looks at a workspace again and again, for one reader."""

    def __init__(self, workspace: Workspace, sequence: int) -> None:
        """Begin after the ledger's entry `sequence`."""
        self._workspace, self._sequence = workspace, sequence
        self._sent: dict[str, RunProgress] | None = None
        self._alerts: list[AlertCard] = []

    def look(self) -> WorkspaceNews | None:
        """Return what is new since the last look; None where nothing is. Raises StorageError, IntegrityError."""
        with self._workspace.snapshot() as session:
            rows = living_runs(session)
            newest = session.scalar(select(func.max(LedgerEntry.sequence))) or 0
            query = select(LedgerEntry.project).where(LedgerEntry.sequence > self._sequence).distinct()
            touched = {name for name in session.scalars(query) if name} if newest > self._sequence else set()
            projects, alerts = cards(session, touched) if touched else [], standing_alerts(session)
        found = {row.id: progress_of(self._workspace, row) for row in rows}
        before, self._sent, self._sequence = self._sent, found, newest
        moved = [line for name, line in found.items() if before is None or _differs(before.get(name), line)]
        is_same = before is not None and list(before) == list(found) and self._alerts == alerts
        self._alerts = alerts
        if is_same and not projects and not moved:
            return None
        return WorkspaceNews(sequence=newest, projects=projects, living=moved, living_ids=list(found), alerts=alerts)


class RunChanges:
    """Looks at a run again and again, for one reader of some of its series."""

    def __init__(self, workspace: Workspace, run_id: str, keys: Sequence[str], cursor: str) -> None:
        """Begin at the cursor that reading the series gave. Raises NotFoundError."""
        self._workspace, self._run_id, self._keys = workspace, run_id, keys
        self.cursor = cursor
        progress = run_progress(workspace, run_id)
        self._files = workspace.run_directory(progress.project, run_id)
        self._progress: RunProgress | None = None
        self._stamps = self._look_at_files()

    def look(self) -> RunNews | None:
        """Return what is new since the last look; None where nothing is. Raises StorageError, IntegrityError."""
        points = curves_since(self._workspace, self._run_id, self._keys, self.cursor)
        progress, stamps = run_progress(self._workspace, self._run_id), self._look_at_files()
        news = RunNews(
            progress=progress if _differs(self._progress, progress) else None,
            points=points,
            reload=stamps != self._stamps or (self._progress is not None and self._progress.state != progress.state),
        )
        self._progress, self._stamps = progress, stamps
        self.cursor = points.cursor if points is not None else self.cursor
        return news if news.progress or news.points or news.reload else None

    def _look_at_files(self) -> tuple[Stamp, Stamp]:
        """Return the stamps of what a run's page shows beside its curves."""
        return stamp_of(self._files.path / "events.jsonl"), stamp_of(self._files.checkpoints)


def _differs(before: RunProgress | None, now: RunProgress) -> bool:
    """Return whether a reader sees a difference; a heartbeat alone is none."""
    return before is None or before.model_copy(update={"heartbeat_at": now.heartbeat_at}) != now
