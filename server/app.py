"""The server object: tools, resources and prompts over one workspace that is opened at the first call."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path

import anyio.to_thread
from mcp.server import MCPServer
from mcp.types import Completion, CompletionArgument, CompletionContext, PromptReference, ResourceTemplateReference

import trainwright
from trainwright.server.agent_tool import run_apps
from trainwright.server.context import AppContext
from trainwright.server.documents import paths_beginning
from trainwright.server.prompts import add_prompts
from trainwright.server.resources import DOCUMENT_TEMPLATE, RUN_TEMPLATE, add_resources
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


# Completions: document paths, run ids and project names.

MOST_VALUES = 100
"""The protocol's bound on the values of one completion."""


def add_completions(server: MCPServer[AppContext], app: AppContext) -> None:
    """Register the one completion handler."""

    @server.completion()  # type: ignore[no-untyped-call, untyped-decorator]
    async def complete(
        reference: PromptReference | ResourceTemplateReference,
        argument: CompletionArgument,
        _: CompletionContext | None,
    ) -> Completion | None:
        if isinstance(reference, ResourceTemplateReference) and reference.uri == DOCUMENT_TEMPLATE:
            values = paths_beginning(argument.value)
        elif isinstance(reference, ResourceTemplateReference) and reference.uri == RUN_TEMPLATE:
            values = await anyio.to_thread.run_sync(_names, app, "run_id", argument.value)
        elif isinstance(reference, PromptReference):
            values = await anyio.to_thread.run_sync(_names, app, argument.name, argument.value)
        else:
            return None
        return Completion(values=values[:MOST_VALUES], total=len(values), has_more=len(values) > MOST_VALUES)


def _names(app: AppContext, argument: str, beginning: str) -> list[str]:
    """Return the projects' names, or the runs' handles and ids, that begin so, the newest first."""
    from sqlalchemy import select

    from trainwright.tools.workspace.handles import run_handles
    from trainwright.tools.workspace.tables import Project

    with app.workspace().snapshot() as session:
        if argument == "project":
            names = list(session.scalars(select(Project.name).order_by(Project.created_at.desc())))
        elif argument == "run_id":
            runs = list(reversed(run_handles(session).items()))
            names = [handle if handle.startswith(beginning) else name for handle, name in runs]
        else:
            return []
    return [name for name in names if name.startswith(beginning)]
