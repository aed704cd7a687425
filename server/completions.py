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

    from trainwright.server.desk import Desk

MOST_VALUES = 100
"""The protocol's bound on the values of one completion."""


def add_completions(server: MCPServer[Desk], desk: Desk) -> None:
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
            values = await anyio.to_thread.run_sync(_names, desk, "run_id", argument.value)
        elif isinstance(reference, PromptReference):
            values = await anyio.to_thread.run_sync(_names, desk, argument.name, argument.value)
        else:
            return None
        return Completion(values=values[:MOST_VALUES], total=len(values), has_more=len(values) > MOST_VALUES)


def _names(desk: Desk, argument: str, beginning: str) -> list[str]:
    """Return the projects' names or the runs' ids that begin so, the newest first."""
    from sqlalchemy import select

    from trainwright.tools.workspace.tables import Project, Run

    columns = {"project": (Project.name, Project.created_at), "run_id": (Run.id, Run.created_at)}
    if argument not in columns:
        return []
    name, created = columns[argument]
    with desk.workspace().session() as session:
        query = select(name).where(name.startswith(beginning, autoescape=True)).order_by(created.desc())
        return list(session.scalars(query.limit(MOST_VALUES + 1)))
