"""`trainwright call`: one tool for shells and scripts, here or at a server over HTTP."""

from __future__ import annotations

import asyncio
import json
import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from trainwright.server.workspace_path import WorkspaceOption, workspace_path
from trainwright.trainer.base.errors import ConfigurationError, TrainwrightError

if TYPE_CHECKING:
    from mcp.types import CallToolResult

VARIABLE = "TRAINWRIGHT_TOKEN"
SHOWN_CHARACTERS = 80


def call(
    tool: Annotated[str, typer.Argument(help="A tool: project_status")],
    arguments: Annotated[str, typer.Argument(help='Its arguments as JSON: \'{"project": "digits"}\'')] = "{}",
    *,
    url: Annotated[
        str | None, typer.Option("--url", help=f"A server over HTTP; the token comes from {VARIABLE}.")
    ] = None,
    workspace: WorkspaceOption = None,
) -> None:
    """Call one tool and print its answer as JSON; exit with 1 where it refuses."""
    given = _read(arguments)
    try:
        result = asyncio.run(_called(url, workspace, tool, given))
    except Exception as error:  # noqa: BLE001 - clients raise groups of groups
        raise worded(error, url) from None
    facts = result.structured_content
    if result.is_error:
        facts = facts or {}
        text = "\n".join(block.text for block in result.content if block.type == "text")
        raise TrainwrightError(facts.get("message") or text, remedy=facts.get("remedy") or "See what it says.")
    shown = facts if facts is not None else {"content": [block.model_dump(mode="json") for block in result.content]}
    typer.echo(json.dumps(shown, indent=2, ensure_ascii=False))


def _read(arguments: str) -> dict[str, Any]:
    try:
        given = json.loads(arguments)
    except ValueError:
        given = None
    if isinstance(given, dict):
        return given
    raise ConfigurationError(
        f"The arguments are no JSON object: {arguments[:SHOWN_CHARACTERS]!r}.",
        remedy='Quote it for the shell: trainwright call project_status \'{"project": "digits"}\'',
    )


async def _called(url: str | None, workspace: Path | None, tool: str, arguments: dict[str, Any]) -> CallToolResult:
    from mcp import Client

    if url is None:
        from trainwright.server.app import build_server

        async with Client(build_server(workspace_path(workspace))) as client:
            return await client.call_tool(tool, arguments)
    from mcp.client.streamable_http import streamable_http_client
    from mcp.shared._httpx_utils import create_mcp_http_client  # the SDK's HTTP client, with its patience

    async with create_mcp_http_client({"Authorization": f"Bearer {token()}"}) as http:
        http.event_hooks = {"response": [_refused]}
        async with Client(streamable_http_client(url, http_client=http)) as client:
            return await client.call_tool(tool, arguments)


async def _refused(response: Any) -> None:
    """Say in words what a refusal before any call means."""
    what = {
        401: "lets nobody in by this token: it is wrong, expired or revoked",
        403: "refuses this token, or where the request comes from",
        421: "is not served under this name",
        429: "has had too many requests of this token",
    }.get(response.status_code)
    if what is not None:
        raise ConfigurationError(
            f"{response.url} {what} ({response.status_code}).",
            remedy=f"Set {VARIABLE} to a living token (`trainwright tokens list` there), and --url to the address that "
            "`trainwright serve --http` printed; after 429 wait a second.",
        )


def worded(error: BaseException, url: str | None) -> BaseException:
    """Return the error that a group of groups is about, as one for people where it is one of the protocol."""
    from mcp import MCPError

    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    if isinstance(error, MCPError):
        return TrainwrightError(error.message, remedy="Look at `trainwright call --help`, and at docs/remote.md.")
    if url is not None and not isinstance(error, TrainwrightError):
        return ConfigurationError(f"{url} cannot be reached: {error}.", remedy="Is the server running there?")
    return error


def token() -> str:
    """Return the token that the environment has. Raises ConfigurationError without one."""
    if found := os.environ.get(VARIABLE):
        return found
    raise ConfigurationError(
        f"--url needs a token, and {VARIABLE} is not set.",
        remedy=f"On the server's machine: trainwright tokens new NAME --scope operate; here: export {VARIABLE}=…",
    )
