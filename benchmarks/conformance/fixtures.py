"""Fixtures of the conformance suite, added to the server that `build_server` makes.

The tools are of the product's own class, so that the suite judges how it checks arguments, words failures and passes
on questions. What each fixture has to do stands in the suite, in the description of the scenario that needs it.
"""

from __future__ import annotations

from pathlib import Path

from answering import add_prompts, add_resources, answering_tools
from asking import asking_tools
from jobs import Jobs, job_tools
from mcp.server.context import ServerRequestContext
from mcp.types import EmptyResult, SetLevelRequestParams
from notifying import notifying_tools
from rounds import add_asking_prompt, round_tools

from trainwright.server.app import build_server
from trainwright.server.context import AppContext
from trainwright.server.stdio import StdioServer
from trainwright.server.surface import TOOLS


def build_with_fixtures(workspace: Path, *, read_only: bool = False) -> StdioServer:
    """Return a server with all tools, resources and prompts of the product, and those of the suite."""
    jobs = Jobs()
    added = [*answering_tools(), *asking_tools(), *round_tools(), *notifying_tools(), *job_tools(jobs)]
    server = build_server(workspace, read_only=read_only, tasks=jobs, tools=[*TOOLS, *added])
    add_resources(server)
    add_prompts(server)
    add_asking_prompt(server)
    _take_levels(server)
    return server


def _take_levels(server: StdioServer) -> None:
    """Accept `logging/setLevel` of the older revisions, which the product does not offer: it sends no logs."""

    async def accept(_: ServerRequestContext[AppContext], __: SetLevelRequestParams) -> EmptyResult:
        return EmptyResult()

    lowlevel = server._lowlevel_server  # the SDK has no other way
    lowlevel.add_request_handler("logging/setLevel", SetLevelRequestParams, accept)
