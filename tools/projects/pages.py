"""Pages of a project and its runs, written when a run has been diagnosed or a gate has passed."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from trainwright.tools.gates.evidence import Evidence

if TYPE_CHECKING:
    from trainwright.tools.workspace import Workspace

MOST_PAGES = 20
"""Runs without a page that a gate's passing gives one."""
log = logging.getLogger("trainwright")


def write_pages(
    workspace: Workspace, project: str, run_id: str | None = None, *, evidence: Evidence | None = None
) -> list[str]:
    """Write the page of a run, or of the newest ended ones, and the project's; return the paths.

    Never fails: a page decides nothing, and what it lacks stands in the log.

    Args:
        evidence: the project's, where the caller has read it already.
    """
    from trainwright.tools.reports.pages import has_new_page

    if workspace.is_archived:
        return []
    try:
        if run_id is not None and (there := has_new_page(workspace, project, run_id)) is not None:
            return [str(there)]
        if evidence is not None:
            return _written(evidence, run_id)
        with workspace.session() as session:
            return _written(Evidence(session, workspace, project), run_id)
    except Exception:
        log.exception("the pages of project %s were not written", project)
        return []


def _written(evidence: Evidence, run_id: str | None) -> list[str]:
    from trainwright.tools.reports.pages import write_project_page, write_run_page

    chosen = [run_id] if run_id is not None else _ended(evidence)
    runs = [run for one in chosen if (run := evidence.run(one)) is not None]
    written = [write_run_page(evidence, run) for run in runs]
    return [str(path) for path in (*written[:1], write_project_page(evidence))]


def write_ended_page(workspace: Workspace, project: str, run_id: str) -> None:
    """Write the page of a run that has ended and has none. Never fails."""
    from trainwright.tools.reports.pages import has_new_page, write_run_page

    try:
        status = workspace.run_directory(project, run_id).status()
        if not status.state.is_ended or has_new_page(workspace, project, run_id) is not None:
            return
        with workspace.snapshot() as session:
            evidence = Evidence(session, workspace, project)
            if (run := evidence.run(run_id)) is not None:
                write_run_page(evidence, run)
    except Exception:
        log.exception("the page of run %s was not written", run_id)


def _ended(evidence: Evidence) -> list[str]:
    from trainwright.tools.workspace.records import runs_of

    return [row.id for row in runs_of(evidence.session, evidence.name) if row.sealed][-MOST_PAGES:]
