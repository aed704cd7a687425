"""The model registry: versions listed and compared, aliases moved."""

from __future__ import annotations

from typing import Annotated, Any

from mcp.server.mcpserver import Context
from mcp.types import CallToolResult
from pydantic import Field

from trainwright.server.access import present_access
from trainwright.server.agent_tool import agent_tool, reply
from trainwright.server.context import workspace_of
from trainwright.server.markdown import counted
from trainwright.server.surface.arguments import Project
from trainwright.trainer.base.errors import ConfigurationError


@agent_tool(
    "tools.registry:Models",
    "tools.registry:Comparison",
    "tools.registry.scoring:Score",
    title="Versions of a model",
    read_only=True,
)
def models(
    context: Context[Any, Any],
    project: Project,
    compare: Annotated[
        list[str] | None, Field(min_length=2, max_length=2, description="Versions, aliases, latest or previous")
    ] = None,
    score: Annotated[str | None, Field(description="A labelled table below code_root")] = None,
    version: Annotated[str | None, Field(description="Of score; default: latest")] = None,
) -> CallToolResult:
    """Versions of a model: certified figures, lineage, aliases, folder. compare: two on the same rows, which neither
    trained on, with a paired interval. score: one on a file's rows that it was not trained on."""
    from trainwright.tools import registry
    from trainwright.tools.registry.scoring import score_model

    workspace = workspace_of(context)
    _require_one_question(score, compare, version)
    if score is not None:
        scored = score_model(workspace, project, score, version or "latest")
        value, ends = scored.metrics.get(scored.metric), scored.intervals.get(scored.metric)
        told = f"{value:.4g}{f' ({ends[0]:.4g} to {ends[1]:.4g})' if ends else ''}" if value is not None else "unknown"
        what = f"{scored.version} of {project} on {scored.rows} rows of {score}"
        if scored.known > scored.rows:
            rest = counted(scored.rows, "row")
            of = f"{scored.known} of {scored.known + scored.rows} rows of {score}"
            what = f"{scored.version} of {project} knows {of}, which test nothing. On the rest, {rest}"
        return reply(scored, f"{what}: {scored.metric} {told}, {scored.counts}.", omit={"project", "file", "known"})
    if compare is None:
        listed = registry.list_models(workspace, project)
        count = counted(len(listed.versions) + listed.older, "version")
        return reply(listed, f"{count} of the model of {project}; production: {listed.production}.", omit={"project"})
    answer = registry.compare_models(workspace, project, *compare)
    return reply(answer, f"{project}: {answer.in_words()}", omit={"project"})


def _require_one_question(score: str | None, compare: list[str] | None, version: str | None) -> None:
    if score is not None and compare is not None:
        raise ConfigurationError(
            "models answers score or compare, not both.",
            remedy="Make two calls: one with compare, one with score and version.",
        )
    if score is None and version is not None:
        raise ConfigurationError(
            f"models takes version={version!r} with score alone.",
            remedy="Add score, a labelled table below code_root, or leave version out: all versions are listed.",
        )


@agent_tool("tools.registry:Promotion", title="Promote a version", idempotent=True)
def promote_model(
    context: Context[Any, Any],
    project: Project,
    version: Annotated[str, Field(description="As v2; previous leads back")],
    alias: Annotated[str, Field(description="Or staging, archived, …")] = "production",
    reason: Annotated[str, Field(max_length=300)] = "",
) -> CallToolResult:
    """Move an alias to a version. production has a gate: certified, not worse than the one in production on the same
    rows; the way back is free."""
    from trainwright.tools import registry

    by = present_access().token or "an agent"
    answer = registry.promote(workspace_of(context), project, version, alias, why=reason, by=by)
    what = f"{alias} of {project} is {answer.version}. {answer.beside or ''}".rstrip()
    return reply(answer, what, omit={"project", "alias", "version", "beside"})
