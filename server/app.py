"""The server object: tools, resources and prompts over one workspace that is opened at the first call."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path

from mcp.server import MCPServer

import trainwright
from trainwright.server.apps import run_apps
from trainwright.server.completions import add_completions
from trainwright.server.context import AppContext
from trainwright.server.prompts import add_prompts
from trainwright.server.resources import add_resources
from trainwright.server.stdio import StdioServer
from trainwright.server.surface import TOOLS
from trainwright.server.updates import Updates

INSTRUCTIONS = """\
Trainwright trains PyTorch models through five gated phases: planning, baseline, diagnostics, optimization, \
finalization. Begin with create_project, or project_status if one exists, then follow the `next` call that every \
answer carries; advance makes those calls for you until there is something to decide. Gates open on evidence that the \
server measured, never on claims; a refusal names each failed check, the measured value and what to do. \
Training runs in the background: start calls and run_status wait for it with wait_seconds. Runs are named as \
digits/baseline-2; detail="full" shows all of an answer. The documents are at read_document(path='SKILL.md')."""


def build_server(workspace_path: Path) -> MCPServer[AppContext]:
    """Return a server over the workspace folder, which is created when the first call needs it."""
    app = AppContext(workspace_path)
    updates = Updates(app)
    server = StdioServer(
        "trainwright",
        title="Trainwright",
        version=trainwright.__version__,
        instructions=INSTRUCTIONS,
        tools=list(TOOLS),
        lifespan=_lifespan(app, updates),
        subscriptions=updates,
        extensions=[run_apps()],
        log_level="WARNING",
    )
    updates.serve(server)
    add_resources(server)
    add_prompts(server)
    add_completions(server, app)
    return server


def _lifespan(
    app: AppContext, updates: Updates
) -> Callable[[MCPServer[AppContext]], AbstractAsyncContextManager[AppContext]]:
    @asynccontextmanager
    async def lifespan(_: MCPServer[AppContext]) -> AsyncIterator[AppContext]:
        app.begin()
        updates.begin()
        try:
            yield app
        finally:
            app.close()

    return lifespan
