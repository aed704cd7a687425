"""Completions: document paths, run ids and project names."""

from __future__ import annotations

from typing import TYPE_CHECKING

import anyio.to_thread
from mcp.types import (
    Completion,
    CompletionArgument,
    CompletionContext,
    PromptReference,
    ResourceTemplateReference,
)

from trainwright.server.documents import paths_beginning
from trainwright.server.resources import DOCUMENT_TEMPLATE, RUN_TEMPLATE

if TYPE_CHECKING:
    from mcp.server import MCPServer

    from trainwright.server.context import AppContext

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
