"""Diagnosis, curves and comparison of runs."""

from __future__ import annotations

import base64
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, cast
from urllib.parse import urlsplit

from mcp.server.mcpserver import Context
from mcp.types import CallToolResult, ImageContent
from pydantic import Field

from trainwright.server.access import present_access
from trainwright.server.agent_tool import agent_tool, content_only, reply
from trainwright.server.context import workspace_of
from trainwright.server.files import links
from trainwright.server.markdown import counted
from trainwright.server.surface.arguments import Detail, Project, RunId, run_of, study_of
from trainwright.tools.answers import NextCall
from trainwright.tools.figures.kinds import Kind, StudyKind, is_of_study
from trainwright.trainer.base.errors import ConfigurationError

if TYPE_CHECKING:
    from trainwright.tools.workspace import Workspace


@agent_tool("tools.projects:DiagnosisAnswer", title="Diagnose a run", idempotent=True, shows_run=True)
def diagnose_run(
    context: Context[Any, Any],
    project: Project | None = None,
    run_id: Annotated[RunId | None, Field(description="Any, also under way")] = None,
    fix: Annotated[str | None, Field(description="try, or one fix's id")] = None,
    detail: Detail = "concise",
) -> CallToolResult:
    """How a run goes and what to do: verdict (healthy, attention, stop), alerts with ready changes, curves in
    numbers, what could not be judged, one next call. With project alone it writes the baseline's
    diagnostic_report.md, which the diagnostics gate needs, or reports on the run that failed. fix tries fixes in short
    paired runs."""
    from trainwright.tools import projects
    from trainwright.tools.training_monitor.assessment import fit_in_words
    from trainwright.tools.workspace.records import get_run

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
    answer = projects.diagnose(workspace, project, run, fix=fix)
    words = fit_in_words(answer.fit, answer.reasons, answer.beside_rivals)
    found = f"{answer.verdict}. {words}, recommendation: {answer.recommendation}"
    looks = answer.verdict == "attention" and answer.recommendation in {"deploy", "decide"} and bool(answer.alerts)
    found += f", after a look at {answer.alerts[0].id}." if looks else "."
    omit = {"run_id", "project", "kind", "state", "verdict", "fit", "recommendation", "beside_rivals"}
    headline = f"Run {answer.run_id} of {project} ({answer.kind}, {answer.state}): {found}"
    shown = links(workspace, project, [*([answer.report] if answer.report else []), *answer.plots])
    return reply(answer, headline, *shown, omit=omit, full=detail == "full")


@agent_tool("tools.projects:CurvesAnswer", title="Plot runs", read_only=True, structured=False, shows_run=True)
def plot_metrics(
    context: Context[Any, Any],
    run_ids: Annotated[list[str], Field(max_length=8)] = [],  # noqa: B006 - never changed
    kind: Kind | StudyKind = "curves",
    metric: Annotated[
        str | None, Field(description="Of kind curves: one recorded key, e.g. validation/accuracy")
    ] = None,
    study_id: str | None = None,
) -> CallToolResult:
    """See runs: a picture in the answer, and its path. Predictions: validation rows at the best epoch;
    range_test, batch_size: a probe's. Of a study (study_id): history to pareto."""
    from trainwright.tools import projects

    workspace = workspace_of(context)
    if study_id is not None:
        wanted = _of_study(kind, run_ids, study_id)
        return _study_picture(workspace, study_of(workspace, study_id), wanted)
    kind = _of_runs(kind, run_ids)
    answer = projects.plot_metrics(workspace, [run_of(workspace, run) for run in run_ids], metric, kind)
    shown = links(workspace, Path(answer.path).parents[1].name, [answer.path])
    what = metric or ("learning curves" if kind == "curves" else kind.replace("_", " "))
    return content_only(
        answer, f"{what.capitalize()} of {counted(len(answer.run_ids), 'run')}.", _picture(answer.path), *shown
    )


def _study_picture(workspace: Workspace, study: str, kind: StudyKind) -> CallToolResult:
    """Return the picture of a study."""
    from trainwright.tools import projects

    answer = projects.plot_study(workspace, study, kind)
    shown = links(workspace, Path(answer.path).parents[1].name, [answer.path])
    return content_only(answer, f"{answer.kind.capitalize()} of study {study}.", _picture(answer.path), *shown)


def _of_study(kind: Kind | StudyKind, run_ids: list[str], study: str) -> StudyKind:
    """Return a kind of picture that studies have, history by default. Raises ConfigurationError for what runs have."""
    if is_of_study(kind):
        if not run_ids:
            return kind
    elif kind == "curves" and not run_ids:
        return "history"
    shown = kind if is_of_study(kind) else "history"
    raise ConfigurationError(
        f"study_id={study!r} asks for a picture of a study, and kind={kind!r}, run_ids={run_ids!r} for one of runs.",
        remedy=f"plot_metrics(study_id={study!r}, kind={shown!r}); plot_metrics(run_ids={run_ids or ['latest']!r})",
    )


def _of_runs(kind: Kind | StudyKind, run_ids: list[str]) -> Kind:
    """Return a kind of picture that runs have. Raises ConfigurationError for a study's, and without runs."""
    if is_of_study(kind) and not (kind == "importance" and run_ids):
        raise ConfigurationError(
            f"A picture of kind {kind!r} shows a study, and none is named.",
            remedy=f"plot_metrics(study_id=…, kind={kind!r}); plot_metrics(run_ids=['latest'], kind='importance') "
            "draws what each input is worth to a run.",
        )
    if not run_ids:
        raise ConfigurationError(
            f"plot_metrics needs run_ids, or a study_id; `run_ids` = {run_ids!r}.",
            remedy="plot_metrics(run_ids=['latest']); plot_metrics(study_id='digits/study-1', kind='history')",
        )
    return cast("Kind", kind)


@agent_tool("tools.projects:ComparisonAnswer", title="Compare runs", read_only=True)
def compare_runs(
    context: Context[Any, Any],
    run_ids: Annotated[list[str] | None, Field(min_length=2, max_length=12)] = None,
    project: Project | None = None,
    study_id: str | None = None,
    only: Annotated[str | None, Field(description="Kind or label, of a project's runs")] = None,
) -> CallToolResult:
    """Runs side by side, named or of a project or study: metrics, means over seeds, what differs in configuration,
    data, code and packages; and a picture of their curves."""
    from trainwright.tools import projects

    workspace = workspace_of(context)
    runs = None if run_ids is None else [run_of(workspace, run, project) for run in run_ids]
    study = None if study_id is None else study_of(workspace, study_id, project)
    answer = projects.compare_runs(workspace, runs, project=project, study_id=study, only=only)
    shown: list[Any] = []
    if answer.picture is not None:
        shown = [_picture(answer.picture), *links(workspace, Path(answer.picture).parents[1].name, [answer.picture])]
    return reply(answer, f"{counted(len(answer.runs), 'run')} compared.", *shown)


@agent_tool("server.surface.answers:DashboardAnswer", title="Open the live page", idempotent=True)
def open_dashboard(
    context: Context[Any, Any],
    page: Literal["trainwright", "tensorboard", "mlflow", "wandb"] = "trainwright",
) -> CallToolResult:
    """Serve the workspace's live page, or a tracker's, on this machine while this server runs; returns its address for
    a browser."""
    from trainwright.server.surface.answers import DashboardAnswer

    workspace_of(context)  # made here, if this is the first call
    app = context.request_context.lifespan_context
    address = app.dashboard_address() if page == "trainwright" else app.tracker_address(page)
    call = NextCall(tool="project_status", why="the page shows people the same")
    port = urlsplit(address).port
    forward = f"ssh -L {port}:127.0.0.1:{port} BOX" if present_access().token is not None else None
    if page != "trainwright":
        headline = "Give the person this address."
        return reply(DashboardAnswer(address=address, forward=forward, next=call), headline)
    headline = "Give the person this address: it opens on the server's machine alone; the token in it lets them in."
    return reply(DashboardAnswer(address=address, forward=forward, next=call), headline)


def _picture(path: str) -> ImageContent:
    return ImageContent(type="image", data=base64.b64encode(Path(path).read_bytes()).decode(), mime_type="image/png")
