"""MCP Apps: the view of a run that hosts show beside an answer. For all other clients answers are as they were."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import anyio.to_thread
from mcp.server.apps import APP_MIME_TYPE, Apps, client_supports_apps
from mcp.server.mcpserver.resources import Resource

from trainwright.server.context import AppContext

if TYPE_CHECKING:
    from mcp.server.mcpserver import Context
    from mcp.types import CallToolResult

RUN_VIEW = "ui://trainwright/run.html"
CURVES = "trainwright/curves"
"""Key of an answer's `_meta`: the host hands it to the view, and no model reads it."""


class ViewResource(Resource):
    """The view's single HTML file."""

    async def read(self) -> str:
        """Return the HTML."""
        from trainwright.server.dashboard.bundle import app_html

        return await anyio.to_thread.run_sync(app_html)


def run_apps() -> Apps:
    """Return the extension with the view; the tools name it in their own `_meta`."""
    apps = Apps()
    apps.add_resource(ViewResource(uri=RUN_VIEW, name="run", title="View of a run", mime_type=APP_MIME_TYPE))
    return apps


def with_curves(context: Context[Any, Any], arguments: dict[str, Any], result: CallToolResult) -> CallToolResult:
    """Return the result with the run's curves in its `_meta`, where the client shows views. Raises TrainwrightError."""
    app = context.request_context.lifespan_context
    if result.is_error or not isinstance(app, AppContext) or not client_supports_apps(context):
        return result
    from trainwright.server.surface.arguments import run_of
    from trainwright.tools.dashboard import run_glance

    workspace = app.workspace()
    named = (result.structured_content or {}).get("run_id") or next(iter(arguments.get("run_ids", [])), None)
    glance = run_glance(workspace, run_of(workspace, named))
    return result.model_copy(update={"meta": {**(result.meta or {}), CURVES: glance.model_dump(mode="json")}})
