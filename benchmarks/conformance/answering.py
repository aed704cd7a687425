"""Fixtures that only answer: tools with content of every kind and with special schemas, resources, prompts."""

from __future__ import annotations

import json
from typing import Annotated, Any

from content import audio, image, png, resource, said
from mcp.server.mcpserver.prompts.base import UserMessage
from mcp.types import CallToolResult
from pydantic import Field

from trainwright.server.agent_tool import StrictTool, agent_tool
from trainwright.server.stdio import StdioServer
from trainwright.trainer.base.errors import ConflictError

DIALECT = "https://json-schema.org/draft/2020-12/schema"
BY_PHONE = {"properties": {"contactMethod": {"const": "phone"}}, "required": ["contactMethod"]}
WHOLE_VOCABULARY: dict[str, Any] = {
    "$schema": DIALECT,
    "type": "object",
    "$defs": {
        "address": {
            "$anchor": "addressDef",
            "type": "object",
            "properties": {"street": {"type": "string"}, "city": {"type": "string"}},
        }
    },
    "properties": {
        "name": {"type": "string"},
        "address": {"$ref": "#/$defs/address"},
        "contactMethod": {"type": "string", "enum": ["phone", "email"]},
        "phone": {"type": "string"},
        "email": {"type": "string"},
    },
    "allOf": [{"anyOf": [{"required": ["phone"]}, {"required": ["email"]}]}],
    "if": BY_PHONE,
    "then": {"required": ["phone"]},
    "else": {"required": ["email"]},
    "additionalProperties": False,
}
"""A schema with keywords that no signature of ours gives: the list of tools has to carry them unchanged."""


def answering_tools() -> list[StrictTool]:
    """Return the tools."""
    json_schema_2020_12_tool.parameters = WHOLE_VOCABULARY
    return [
        greet,
        test_simple_text,
        test_image_content,
        test_audio_content,
        test_embedded_resource,
        test_multiple_content_types,
        test_error_handling,
        test_headers,
        json_schema_2020_12_tool,
    ]


@agent_tool(title="Greet", read_only=True, structured=False)
def greet(name: str) -> CallToolResult:
    """Greet somebody."""
    return said(f"Hello, {name}!")


@agent_tool(title="Text", read_only=True, structured=False)
def test_simple_text() -> CallToolResult:
    """Answer with text."""
    return said("This is a simple text response for testing.")


@agent_tool(title="Picture", read_only=True, structured=False)
def test_image_content() -> CallToolResult:
    """Answer with a picture."""
    return said(image())


@agent_tool(title="Sound", read_only=True, structured=False)
def test_audio_content() -> CallToolResult:
    """Answer with a sound."""
    return said(audio())


@agent_tool(title="Resource", read_only=True, structured=False)
def test_embedded_resource() -> CallToolResult:
    """Answer with a resource."""
    return said(resource("test://embedded-resource", "This is an embedded resource content."))


@agent_tool(title="Several kinds", read_only=True, structured=False)
def test_multiple_content_types() -> CallToolResult:
    """Answer with text, a picture and a resource."""
    data = json.dumps({"test": "data", "value": 123})
    embedded = resource("test://mixed-content-resource", data, "application/json")
    return said("Multiple content types test:", image(), embedded)


@agent_tool(title="Failure", read_only=True, structured=False)
def test_error_handling() -> CallToolResult:
    """Fail."""
    raise ConflictError("This tool intentionally returns an error for testing", remedy="Nothing helps.")


@agent_tool(title="Parameter in a header", read_only=True, structured=False)
def test_headers(region: Annotated[str, Field(json_schema_extra={"x-mcp-header": "Region"})]) -> CallToolResult:
    """Answer with an argument that clients also send as a header."""
    return said(region)


@agent_tool(title="Whole vocabulary", read_only=True, structured=False)
def json_schema_2020_12_tool(name: str = "") -> CallToolResult:
    """Answer with a name."""
    return said(name)


def add_resources(server: StdioServer) -> None:
    """Register the resources."""

    @server.resource("test://static-text", name="static-text", description="A text.", mime_type="text/plain")
    def static_text() -> str:
        return "This is the content of the static text resource."

    @server.resource("test://static-binary", name="static-binary", description="A picture.", mime_type="image/png")
    def static_binary() -> bytes:
        return png()

    @server.resource("test://template/{id}/data", name="template", description="Data.", mime_type="application/json")
    def template(id: str) -> str:  # noqa: A002 - the suite's name
        return json.dumps({"id": id, "templateTest": True, "data": f"Data for ID: {id}"})


def add_prompts(server: StdioServer) -> None:
    """Register the prompts."""

    @server.prompt("test_simple_prompt", description="A text.")
    def simple() -> str:
        return "This is a simple prompt for testing."

    @server.prompt("test_prompt_with_arguments", description="Two arguments.")
    def with_arguments(arg1: str, arg2: str) -> str:
        return f"Prompt with arguments: arg1='{arg1}', arg2='{arg2}'"

    @server.prompt("test_prompt_with_embedded_resource", description="A resource.")
    def with_resource(resourceUri: str) -> list[UserMessage]:  # noqa: N803 - the suite's name
        embedded = resource(resourceUri, "Embedded resource content for testing.")
        return [UserMessage(embedded), UserMessage("Please process the embedded resource above.")]

    @server.prompt("test_prompt_with_image", description="A picture.")
    def with_image() -> list[UserMessage]:
        return [UserMessage(image()), UserMessage("Please analyze the image above.")]
