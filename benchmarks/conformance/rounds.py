"""Fixtures that ask in rounds, as the newest revision does: the answer names what is needed, and the call is repeated.

What a round has to remember travels with the client as the state, which the SDK seals.
"""

from __future__ import annotations

from typing import Any

from content import said
from mcp.server.mcpserver import Context
from mcp.types import (
    CallToolResult,
    CreateMessageRequest,
    CreateMessageRequestParams,
    CreateMessageResult,
    ElicitRequest,
    ElicitRequestFormParams,
    ElicitResult,
    InputRequest,
    InputRequiredResult,
    ListRootsRequest,
    ListRootsResult,
    SamplingMessage,
    TextContent,
)

from trainwright.server.agent_tool import StrictTool, agent_tool
from trainwright.server.stdio import StdioServer

Answer = CallToolResult | InputRequiredResult


def round_tools() -> list[StrictTool]:
    """Return the tools."""
    return [
        test_input_required_result_elicitation,
        test_input_required_result_sampling,
        test_input_required_result_list_roots,
        test_input_required_result_request_state,
        test_input_required_result_multiple_inputs,
        test_input_required_result_multi_round,
        test_input_required_result_tampered_state,
        test_input_required_result_capabilities,
        confirm_delete,
    ]


# The questions, and their answers.


def form(message: str, **fields: str) -> ElicitRequest:
    """Return a question to the user; each field has its type."""
    properties = {name: {"type": kind} for name, kind in fields.items()}
    schema = {"type": "object", "properties": properties, "required": list(fields)}
    return ElicitRequest(params=ElicitRequestFormParams(message=message, requested_schema=schema))


def needed(questions: dict[str, InputRequest], state: str | None = None) -> InputRequiredResult:
    """Return that the questions have to be answered first."""
    return InputRequiredResult(input_requests=questions, request_state=state)


def accepted(context: Context[Any, Any], key: str) -> dict[str, Any] | None:
    """Return what the user has filled in; None where nobody has answered that question yet."""
    answer = (context.input_responses or {}).get(key)
    return answer.content or {} if isinstance(answer, ElicitResult) and answer.action == "accept" else None


def _prompt(text: str, most_tokens: int) -> CreateMessageRequest:
    message = SamplingMessage(role="user", content=TextContent(type="text", text=text))
    return CreateMessageRequest(params=CreateMessageRequestParams(messages=[message], max_tokens=most_tokens))


# The tools.


@agent_tool(title="Ask the user", read_only=True, structured=False)
def test_input_required_result_elicitation(context: Context[Any, Any]) -> Answer:
    """Greet the user, who is asked for a name."""
    found = accepted(context, "user_name")
    return (
        needed({"user_name": form("What is your name?", name="string")})
        if found is None
        else said(f"Hello, {found['name']}!")
    )


@agent_tool(title="Ask the model", read_only=True, structured=False)
def test_input_required_result_sampling(context: Context[Any, Any]) -> Answer:
    """Answer as the client's model does."""
    found = (context.input_responses or {}).get("capital_question")
    if not isinstance(found, CreateMessageResult):
        return needed({"capital_question": _prompt("What is the capital of France?", 100)})
    return said(found.content)


@agent_tool(title="Ask for the roots", read_only=True, structured=False)
def test_input_required_result_list_roots(context: Context[Any, Any]) -> Answer:
    """Name the client's roots."""
    found = (context.input_responses or {}).get("client_roots")
    if not isinstance(found, ListRootsResult):
        return needed({"client_roots": ListRootsRequest()})
    return said(", ".join(str(root.uri) for root in found.roots))


@agent_tool(title="Remember a state", read_only=True, structured=False)
def test_input_required_result_request_state(context: Context[Any, Any]) -> Answer:
    """Ask, and check the state that comes back with the answer."""
    if accepted(context, "confirm") is None or context.request_state != "asked":
        return needed({"confirm": form("Please confirm", ok="boolean")}, "asked")
    return said("state-ok")


@agent_tool(title="Guard a state", read_only=True, structured=False)
def test_input_required_result_tampered_state(context: Context[Any, Any]) -> Answer:
    """Ask, with a state that nobody else can write."""
    if accepted(context, "confirm") is None:
        return needed({"confirm": form("Please confirm", ok="boolean")}, "guarded")
    return said("confirmed")


@agent_tool(title="Ask for several things", read_only=True, structured=False)
def test_input_required_result_multiple_inputs(context: Context[Any, Any]) -> Answer:
    """Ask the user, the model and the client at once."""
    questions: dict[str, InputRequest] = {
        "user_name": form("What is your name?", name="string"),
        "greeting": _prompt("Generate a greeting", 50),
        "client_roots": ListRootsRequest(),
    }
    if questions.keys() <= (context.input_responses or {}).keys():
        return said("All is answered.")
    return needed(questions, "asked")


@agent_tool(title="Ask twice", read_only=True, structured=False)
def test_input_required_result_multi_round(context: Context[Any, Any]) -> Answer:
    """Ask for a name and then for a color."""
    name, color = accepted(context, "step1"), accepted(context, "step2")
    if name is not None:
        return needed({"step2": form("Step 2: What is your favorite color?", color="string")}, f"name={name['name']}")
    if color is None or context.request_state is None:
        return needed({"step1": form("Step 1: What is your name?", name="string")}, "begun")
    return said(f"{context.request_state}, color={color['color']}")


@agent_tool(title="Ask what can be asked", read_only=True, structured=False)
def test_input_required_result_capabilities(context: Context[Any, Any]) -> Answer:
    """Ask the user and the model, if the client can pass that on."""
    can = context.client_capabilities
    questions: dict[str, InputRequest] = {}
    if can is not None and can.elicitation is not None:
        questions["user_name"] = form("What is your name?", name="string")
    if can is not None and can.sampling is not None:
        questions["greeting"] = _prompt("Generate a greeting", 50)
    open_ones = {key: question for key, question in questions.items() if key not in (context.input_responses or {})}
    return needed(open_ones) if open_ones else said("Nothing is left to ask.")


@agent_tool(title="Delete", destructive=True, structured=False)
def confirm_delete(filename: str, context: Context[Any, Any]) -> Answer:
    """Ask before a file is deleted: as any tool here that asks, it does so before there is a task."""
    found = accepted(context, "confirm")
    if found is None:
        return needed({"confirm": form(f"Delete {filename}?", confirm="boolean")})
    return said(f"{filename}: {'deleted' if found['confirm'] else 'kept'}")


def add_asking_prompt(server: StdioServer) -> None:
    """Register the prompt that asks."""

    @server.prompt("test_input_required_result_prompt", description="Asks for its context.")
    def asking(context: Context[Any, Any]) -> str | InputRequiredResult:
        found = accepted(context, "user_context")
        if found is None:
            return needed({"user_context": form("What context should the prompt use?", context="string")})
        return f"The context is {found['context']}."
