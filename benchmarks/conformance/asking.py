"""Fixtures that ask the client during a call, as the older revisions do: elicitation and sampling."""

from __future__ import annotations

import json
from typing import Any

from content import said
from mcp.server.mcpserver import Context
from mcp.types import CallToolResult, SamplingMessage, TextContent

from trainwright.server.agent_tool import StrictTool, agent_tool

USER = {
    "username": {"type": "string", "description": "User's response"},
    "email": {"type": "string", "description": "User's email address"},
}
DEFAULTS = {
    "name": {"type": "string", "default": "John Doe"},
    "age": {"type": "integer", "default": 30},
    "score": {"type": "number", "default": 95.5},
    "status": {"type": "string", "enum": ["active", "inactive", "pending"], "default": "active"},
    "verified": {"type": "boolean", "default": True},
}
OPTIONS = ["option1", "option2", "option3"]
TITLED = [{"const": f"value{number}", "title": f"{place} option"} for number, place in ((1, "First"), (2, "Second"))]
CHOICES = {
    "untitledSingle": {"type": "string", "enum": OPTIONS},
    "titledSingle": {"type": "string", "oneOf": TITLED},
    "legacyEnum": {"type": "string", "enum": ["opt1", "opt2"], "enumNames": ["Option One", "Option Two"]},
    "untitledMulti": {"type": "array", "items": {"type": "string", "enum": OPTIONS}},
    "titledMulti": {"type": "array", "items": {"anyOf": TITLED}},
}
"""All forms in which a choice may be asked for."""


def asking_tools() -> list[StrictTool]:
    """Return the tools."""
    return [test_sampling, test_elicitation, test_elicitation_sep1034_defaults, test_elicitation_sep1330_enums]


@agent_tool(title="Ask the model", read_only=True, structured=False)
async def test_sampling(prompt: str, context: Context[Any, Any]) -> CallToolResult:
    """Let the client's model answer."""
    message = SamplingMessage(role="user", content=TextContent(type="text", text=prompt))
    answer = await context.session.create_message([message], max_tokens=100, related_request_id=context.request_id)
    return said(f"LLM response: {answer.content.model_dump_json()}")


@agent_tool(title="Ask the user", read_only=True, structured=False)
async def test_elicitation(message: str, context: Context[Any, Any]) -> CallToolResult:
    """Ask the user."""
    return said(f"User response: {await _asked(context, message, USER, required=['username', 'email'])}")


@agent_tool(title="Ask with defaults", read_only=True, structured=False)
async def test_elicitation_sep1034_defaults(context: Context[Any, Any]) -> CallToolResult:
    """Ask the user, with a default for each answer."""
    return said(f"Elicitation completed: {await _asked(context, 'Are these right?', DEFAULTS)}")


@agent_tool(title="Ask for choices", read_only=True, structured=False)
async def test_elicitation_sep1330_enums(context: Context[Any, Any]) -> CallToolResult:
    """Ask the user for choices, each in another form."""
    return said(f"Elicitation completed: {await _asked(context, 'Which ones?', CHOICES)}")


async def _asked(
    context: Context[Any, Any], message: str, properties: dict[str, Any], required: list[str] | None = None
) -> str:
    """Return what the user did and answered."""
    schema = {"type": "object", "properties": properties, "required": required or []}
    answer = await context.session.elicit_form(message, schema, related_request_id=context.request_id)
    return f"action={answer.action}, content={json.dumps(answer.content)}"
