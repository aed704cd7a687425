"""Diagnosis, curves and comparison of runs."""

from __future__ import annotations

import base64
from pathlib import Path
from typing import Annotated, Any

from mcp.server.mcpserver import Context
from mcp.types import CallToolResult, ImageContent
from pydantic import Field

from trainwright.server.agent_tool import agent_tool, content_only, reply
from trainwright.server.context import workspace_of
from trainwright.server.files import links
from trainwright.server.format import counted
from trainwright.server.surface.arguments import Detail, Project, RunId, run_of


@agent_tool("tools.projects:DiagnosisAnswer", title="Diagnose a run", idempotent=True)
def diagnose_run(
    context: Context[Any, Any],
    project: Project | None = None,
    run_id: Annotated[RunId | None, Field(description="Any run, also one under way")] = None,
    detail: Detail = "concise",
) -> CallToolResult:
    """Find what is wrong with a run and how to fix it: alerts with their document and ready configuration
    changes, the fit of the learning curves, and a recommendation: deploy, optimize or debug. With project alone it
    writes the baseline's diagnostic_report.md, which the diagnostics gate needs, or reports on the run that failed."""
    from trainwright.tools import projects
    from trainwright.tools.workspace.records import get_run
    from trainwright.trainer.base.errors import ConfigurationError

    workspace = workspace_of(context)
    if project is None and run_id is None:
        raise ConfigurationError(
            "diagnose_run needs a project or a run_id.",
            remedy="diagnose_run(project='…'); project_status() lists them.",
        )
    run = run_of(workspace, run_id, project) if run_id else None
    if project is None:
        with workspace.session() as session:
            project = get_run(session, str(run)).project
    answer = projects.diagnose(workspace, project, run)
    found = f"{answer.fit} fit, recommendation: {answer.recommendation}."
    omit = {"run_id", "project", "kind", "state", "fit", "recommendation"}
    headline = f"Run {answer.run_id} of {project} ({answer.kind}, {answer.state}): {found}"
    shown = links(workspace, project, [*([answer.report] if answer.report else []), *answer.plots])
    return reply(answer, headline, *shown, omit=omit, full=detail == "full")


@agent_tool("tools.projects:CurvesAnswer", title="Plot runs", read_only=True, structured=False)
def plot_metrics(
    context: Context[Any, Any],
    run_ids: Annotated[list[str], Field(min_length=1, max_length=8)],
    metric: Annotated[
        str | None, Field(description="One recorded key, e.g. validation/accuracy; default: all learning curves")
    ] = None,
) -> CallToolResult:
    """See the learning curves of one run or several overlaid: a picture in the answer, and its file's path."""
    from trainwright.tools import projects

    workspace = workspace_of(context)
    answer = projects.plot_metrics(workspace, [run_of(workspace, run) for run in run_ids], metric)
    shown = links(workspace, Path(answer.path).parents[1].name, [answer.path])
    picture = base64.b64encode(Path(answer.path).read_bytes()).decode()
    image = ImageContent(type="image", data=picture, mime_type="image/png")
    return content_only(
        answer, f"{metric or 'Learning curves'} of {counted(len(answer.run_ids), 'run')}.", image, *shown
    )


@agent_tool("tools.projects:ComparisonAnswer", title="Compare runs", read_only=True)
def compare_runs(
    context: Context[Any, Any], run_ids: Annotated[list[str], Field(min_length=2, max_length=12)]
) -> CallToolResult:
    """Runs side by side: metrics at the best and last epoch, time, and only those configuration keys that differ."""
    from trainwright.tools import projects

    workspace = workspace_of(context)
    answer = projects.compare_runs(workspace, [run_of(workspace, run) for run in run_ids])
    return reply(answer, f"{counted(len(answer.runs), 'run')} compared.")
