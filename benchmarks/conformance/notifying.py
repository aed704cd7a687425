"""Fixtures that notify during a call: progress, logs, changed lists; and that refuse what the client cannot do."""

from __future__ import annotations

from typing import Any

import anyio
from content import said
from mcp.server.mcpserver import Context
from mcp.shared.exceptions import MCPError
from mcp.types import (
    MISSING_REQUIRED_CLIENT_CAPABILITY,
    CallToolResult,
    ClientCapabilities,
    InputRequiredResult,
    MissingRequiredClientCapabilityErrorData,
    SamplingCapability,
)
from rounds import accepted, form, needed

from trainwright.server.agent_tool import StrictTool, agent_tool

PAUSE_SECONDS = 0.05


def notifying_tools() -> list[StrictTool]:
    """Return the tools."""
    return [
        test_tool_with_progress,
        test_tool_with_logging,
        test_logging_tool,
        test_streaming_elicitation,
        test_missing_capability,
        test_trigger_tool_change,
        test_trigger_prompt_change,
        test_reconnection,
    ]


@agent_tool(title="Progress", read_only=True, structured=False)
async def test_tool_with_progress(context: Context[Any, Any]) -> CallToolResult:
    """Report progress three times."""
    for done in (0, 50, 100):
        await context.report_progress(done, 100)
        await anyio.sleep(PAUSE_SECONDS)
    return said("done")


@agent_tool(title="Logs", read_only=True, structured=False)
async def test_tool_with_logging(context: Context[Any, Any]) -> CallToolResult:
    """Send three logs."""
    for text in ("Tool execution started", "Tool processing data", "Tool execution completed"):
        await context.info(text)
        await anyio.sleep(PAUSE_SECONDS)
    return said("done")


@agent_tool(title="A log", read_only=True, structured=False)
async def test_logging_tool(context: Context[Any, Any]) -> CallToolResult:
    """Send a log, which reaches only clients that ask for logs."""
    await context.info("This is a log.")
    return said("done")


@agent_tool(title="Progress and a question", read_only=True, structured=False)
async def test_streaming_elicitation(context: Context[Any, Any]) -> CallToolResult | InputRequiredResult:
    """Report progress, and ask."""
    await context.report_progress(1, 2)
    if accepted(context, "name") is None:
        return needed({"name": form("What is your name?", name="string")})
    return said("done")


@agent_tool(title="Demand a capability", read_only=True, structured=False)
def test_missing_capability(context: Context[Any, Any]) -> CallToolResult:
    """Work only for clients whose model can be asked."""
    can = context.client_capabilities
    if can is None or can.sampling is None:
        wanted = ClientCapabilities(sampling=SamplingCapability())
        data = MissingRequiredClientCapabilityErrorData(required_capabilities=wanted)
        raise MCPError(
            code=MISSING_REQUIRED_CLIENT_CAPABILITY,
            message="The client has not declared sampling.",
            data=data.model_dump(by_alias=True, mode="json", exclude_none=True),
        )
    return said("done")


@agent_tool(title="Change the tools", structured=False)
async def test_trigger_tool_change(context: Context[Any, Any]) -> CallToolResult:
    """Tell subscribers that the list of tools has changed."""
    await context.notify_tools_changed()
    return said("changed")


@agent_tool(title="Change the prompts", structured=False)
async def test_trigger_prompt_change(context: Context[Any, Any]) -> CallToolResult:
    """Tell subscribers that the list of prompts has changed."""
    await context.notify_prompts_changed()
    return said("changed")


@agent_tool(title="Close the stream", read_only=True, structured=False)
async def test_reconnection(context: Context[Any, Any]) -> CallToolResult:
    """Close the stream before the answer; a server that keeps no events lets it open."""
    await context.close_sse_stream()
    await anyio.sleep(PAUSE_SECONDS)
    return said("done")
