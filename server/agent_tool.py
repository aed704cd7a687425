"""Tools with strict arguments, short schemas, and answers that are sent once.

The SDK drops unknown arguments silently, names every field twice in its schemas, and repeats a structured
result as indented text. An agent pays for all three, so the tools here are a subclass that does none of it.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import suppress
from typing import Any

import anyio.to_thread
from mcp.server.apps import APP_MIME_TYPE, Apps, client_supports_apps
from mcp.server.mcpserver import Context
from mcp.server.mcpserver.resolve import resolve_arguments
from mcp.server.mcpserver.resources import Resource
from mcp.server.mcpserver.tools import Tool
from mcp.shared.exceptions import MCPError
from mcp.types import CallToolResult, ContentBlock, InputRequiredResult, TextContent, ToolAnnotations
from pydantic import ValidationError

from trainwright.server.access import permitted, present_access, require_operating
from trainwright.server.bounded_wait import is_at_once, patience
from trainwright.server.context import AppContext
from trainwright.server.errors import argument_error, from_afar, refusal, with_call
from trainwright.server.markdown import facts_of, markdown, rounded
from trainwright.tools.answers import Answer
from trainwright.trainer.base.errors import ConfigurationError
from trainwright.trainer.base.secret_kinds import known_in

OUTPUT_SCHEMA: dict[str, Any] = {"type": "object"}
"""Output schema of every tool: an object. Full schemas would cost each client several thousand tokens: answers are
checked against their models where they are built, and `tools/INDEX.md` lists all their fields."""


RECORDED_TEXTS = frozenset({"intent", "reason"})
"""Arguments in running text that the ledger keeps."""
MAX_RECORDED = 20_000
"""Characters of them that are searched for secrets: tools take far fewer."""


class StrictTool(Tool):
    """A tool that refuses unknown arguments and turns every failure into a message with a remedy."""

    answers: tuple[str, ...] = ()
    """`module:Model` of its answers, resolved only when `tools/INDEX.md` is written."""

    async def run(self, arguments: dict[str, Any], context: Context[Any, Any], convert_result: bool = False) -> Any:  # noqa: ARG002
        """Check the arguments, run the function, and return its CallToolResult.

        A failure is a result too: worded for the agent, with the call that fixes it.

        Raises:
            MCPError: protocol errors pass through unchanged.
        """
        app = context.request_context.lifespan_context
        if isinstance(app, AppContext) and not app.is_ready:
            await anyio.to_thread.run_sync(app.import_operations)
        from trainwright.server.argument_repair import normalized_arguments  # loads the configuration's schema

        try:
            if not (self.annotations and self.annotations.read_only_hint):
                require_operating(self.name)
            normalized, notes = normalized_arguments(self.fn_metadata.arg_model, arguments)
            values = self._checked(normalized)
            if present_access().projects:
                values = await anyio.to_thread.run_sync(lambda: permitted(self, values, app.workspace()))
        except Exception as error:  # noqa: BLE001 - a value that breaks the check itself
            return refusal(error)
        with patience(context, values) as wait:
            result = await self._answer(normalized, values, context)
            if isinstance(result, InputRequiredResult):  # the client shows the question to a person and calls again
                return result
            shows_run, notes = self.meta is not None, [*notes, *wait.notes]
            return await anyio.to_thread.run_sync(_completed, context, normalized, result, notes, shows_run)

    async def _answer(self, normalized: dict[str, Any], values: dict[str, Any], context: Context[Any, Any]) -> Any:
        """Return the result, a failure worded for the agent, or the question to a person. Raises MCPError."""
        direct = {self.context_kwarg: context} if self.context_kwarg else {}
        try:
            answers = await resolve_arguments(self.resolved_params, self.resolver_plans, values, context)
            if isinstance(answers, InputRequiredResult):
                return answers
            return await self.fn_metadata.call_fn(self.fn, self.is_async, values, direct | answers)
        except MCPError:
            raise
        except Exception as error:  # noqa: BLE001 - the one place where failures are worded for the agent
            return refusal(with_call(from_afar(error), self.name, normalized))

    def _checked(self, arguments: dict[str, Any]) -> dict[str, Any]:
        """Return the arguments as the function takes them. Raises ConfigurationError."""
        refuse_recorded_secrets(arguments)
        try:
            return self.fn_metadata.validate_arguments(arguments)
        except ValidationError as error:
            from trainwright.server.argument_repair import repaired_arguments

            repaired = repaired_arguments(self.fn_metadata.arg_model, arguments, error)
            raise argument_error(self.name, error, self.parameters, repaired) from error


def refuse_recorded_secrets(arguments: dict[str, Any]) -> None:
    """Refuse a secret in the running text of a call, which the ledger keeps for ever; values have checks of their own.

    Raises:
        ConfigurationError: the argument and the kind are named, never the secret.
    """
    for name in RECORDED_TEXTS.intersection(arguments):
        for kind in sorted({place.kind for place in known_in(str(arguments[name])[:MAX_RECORDED])}):
            raise ConfigurationError(
                f"`{name}` holds a secret ({kind}), and it would be recorded; nothing was done.",
                remedy=f"Make the same call with the secret taken out of `{name}`; if it was real, revoke it.",
            )


def noted(result: CallToolResult, notes: list[str]) -> CallToolResult:
    """Return the result with the notes on repaired arguments, in both of its forms."""
    if not notes or result.is_error:
        return result
    facts = result.structured_content
    if facts is not None:
        facts = {**facts, "taken_as": [*notes, *facts.get("taken_as", [])]}
    lines = TextContent(type="text", text="\n".join(f"taken_as: {note}" for note in notes))
    return result.model_copy(update={"content": [lines, *result.content], "structured_content": facts})


def _completed(
    context: Context[Any, Any], arguments: dict[str, Any], result: CallToolResult, notes: list[str], shows_run: bool
) -> CallToolResult:
    """Return the result with the run's curves, the notes, the news of alerts, and handles in place of long ids.

    The answer is complete without each of them. All on one thread: each change of threads takes a tenth of a
    millisecond and more.
    """
    if shows_run:
        with suppress(Exception):
            result = with_curves(context, arguments, result)
    result = noted(result, [*notes, *_elsewhere(result)])
    app = context.request_context.lifespan_context
    if not isinstance(app, AppContext):
        return result
    with suppress(Exception):  # the next answer carries the news then
        may_act = present_access().operates and not is_at_once()  # else those who can act would never be told
        result = with_news(app, arguments, result) if may_act else result
        app.follow_runs()
        app.after_call()
    with suppress(Exception):
        result = _named(app, result)
    return result


def _elsewhere(result: CallToolResult) -> list[str]:
    """Return how a final model that the answer names is brought to a client that may be on another machine."""
    facts = result.structured_content or {}
    if present_access().token is None or "final_model/" not in str(facts):
        return []
    project = facts.get("project") or "PROJECT"
    return [
        f"final_model/ lies on the server: `trainwright fetch {project} --url ADDRESS` brings it, as does GET "
        f"/releases/{project}.tar with the token"
    ]


def _named(app: AppContext, result: CallToolResult) -> CallToolResult:
    """Return the result with handles in place of the long ids of runs and studies, in both of its forms."""
    texts = [block.text if isinstance(block, TextContent) else "" for block in result.content]
    texts, facts = app.with_handles([texts, result.structured_content])
    content = [
        block.model_copy(update={"text": text}) if isinstance(block, TextContent) else block
        for block, text in zip(result.content, texts, strict=True)
    ]
    return result.model_copy(update={"content": content, "structured_content": facts})


def agent_tool(
    *answers: str,
    title: str,
    read_only: bool = False,
    destructive: bool = False,
    idempotent: bool = False,
    structured: bool = True,
    shows_run: bool = False,
) -> Callable[[Callable[..., Any]], StrictTool]:
    """Make a tool of a function: its docstring is the description, its signature the strict schema.

    Args:
        answers: `module:Model` of the answers it may give, below `trainwright`.
        structured: whether it answers with structured content; False for documents and pictures (see content_only).
        shows_run: whether hosts of MCP Apps show the view of a run beside its answers.
    """

    def make(function: Callable[..., Any]) -> StrictTool:
        annotations = ToolAnnotations(
            read_only_hint=read_only,
            destructive_hint=None if read_only else destructive,  # has no meaning for a read-only tool
            idempotent_hint=(idempotent and not read_only) or None,  # false is the default
            open_world_hint=False,
        )
        description = " ".join((function.__doc__ or "").split())
        tool = StrictTool.from_function(
            function, title=title, description=description, annotations=annotations, structured_output=False
        )
        assert isinstance(tool, StrictTool)  # noqa: S101 - tells the type checker what from_function makes here
        arguments = tool.fn_metadata.arg_model
        arguments.model_config = {**arguments.model_config, "extra": "forbid", "strict": True}
        arguments.model_rebuild(force=True)
        tool.parameters = shortened(arguments.model_json_schema(by_alias=True))
        tool.answers = answers
        tool.meta = {"ui": {"resourceUri": RUN_VIEW}} if shows_run else None
        tool.fn_metadata.output_schema = OUTPUT_SCHEMA if structured else None
        return tool

    return make


def reply(
    answer: Answer, headline: str = "", *content: ContentBlock, omit: Collection[str] = (), full: bool = False
) -> CallToolResult:
    """Return the answer twice: as structured content, and as Markdown with the same facts.

    Args:
        omit: fields that the headline already reports.
        full: everything, not only what matters now.
    """
    facts = facts_of(answer, full=full)
    text = TextContent(type="text", text=markdown(facts, headline, frozenset(omit)))
    return CallToolResult(content=[text, *content], structured_content=facts)


def content_only(answer: Answer, headline: str, *content: ContentBlock, omit: Collection[str] = ()) -> CallToolResult:
    """Return an answer that consists of its content: a document, a picture.

    Some clients drop the content of an answer with structured content, so this one has none.
    """
    return reply(answer, headline, *content, omit=omit).model_copy(update={"structured_content": None})


def shortened(schema: dict[str, Any]) -> dict[str, Any]:
    """Return a JSON schema without titles and references, where optional values show only their type."""
    definitions = schema.get("$defs", {})
    return {key: _short(value, definitions, key) for key, value in schema.items() if key not in {"$defs", "title"}}


def _short(node: Any, definitions: dict[str, Any], parent: str = "") -> Any:
    if isinstance(node, list):
        return [_short(item, definitions) for item in node]
    if not isinstance(node, dict):
        return node
    if parent in {"properties", "patternProperties"}:  # names of the user's fields, a `title` among them
        return {name: _short(value, definitions) for name, value in node.items()}
    if "$ref" in node:
        node = {**definitions[node["$ref"].rsplit("/", 1)[-1]], **{k: v for k, v in node.items() if k != "$ref"}}
    options = [option for option in node.get("anyOf", []) if option != {"type": "null"}]
    if len(options) == 1 and len(node["anyOf"]) == 2:
        return _short({**options[0], **{k: v for k, v in node.items() if k != "anyOf"}}, definitions)
    return {key: _short(value, definitions, key) for key, value in node.items() if not _is_noise(key, value)}


def _is_noise(key: str, value: Any) -> bool:
    """Return whether a reader assumes the keyword's value anyway, or learns of a far bound when it refuses."""
    if key == "default":
        return not value  # null, false, 0 and an empty text are the usual defaults of optional arguments
    return key in {"title", "maxLength", "maximum"} or (key == "additionalProperties" and value is True)


# News in answers: alerts that no answer has carried yet stand in the next one about their project, whatever tool.


def with_news(app: AppContext, arguments: Mapping[str, Any], result: CallToolResult) -> CallToolResult:
    """Return the result with the alerts that nobody has seen, in both of its forms; they count as seen then."""
    facts = result.structured_content
    about, own = projects_in({"arguments": arguments, "facts": facts}), set(present_access().projects)
    found, left = app.take_news((about & own or own) if own else about, list(_shown(facts or {})))
    if not found:
        return result
    news = rounded({"news": alike(found), **({"more_news": left} if left else {})})
    text = TextContent(type="text", text=markdown(news))
    with_facts = {**news, **facts} if facts is not None else None
    return result.model_copy(update={"content": [text, *result.content], "structured_content": with_facts})


def alike(news: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return news of one cause once, by the first run that raised it, with the names of the others."""
    found: dict[tuple[Any, ...], dict[str, Any]] = {}
    for one in news:
        cause = tuple(one.get(name) for name in ("id", "state", "severity", "document", "fix"))
        first = found.setdefault(cause, dict(one))
        if first["run_id"] != one["run_id"]:
            first["also"] = ", ".join(filter(None, [first.get("also"), one["run_id"]]))
    return list(found.values())


def projects_in(values: Mapping[str, Any]) -> set[str]:
    """Return the projects that a call and its answer name: by name, by a handle, or by the long id of a run."""
    found = set()
    for key, text in _fields(values):
        if key == "project":
            found.add(text)
        elif key in {"run_id", "study_id", "run_ids"}:
            found.add(text.partition("/")[0] if "/" in text else project_of(text))
    return {name for name in found if name}


def _fields(value: Any, key: str = "") -> Iterator[tuple[str, str]]:
    if isinstance(value, str):
        yield key, value
    elif isinstance(value, Mapping):
        for name, item in value.items():
            if name != "next":
                yield from _fields(item, name)
    elif isinstance(value, list):
        for item in value:
            yield from _fields(item, key)


def project_of(run_id: str) -> str:
    """Return the project in a run's long id (`baseline-iris-20260101-000000-abcdef`), or an empty text."""
    parts = run_id.rsplit("-", 3)
    return parts[0].partition("-")[2] if len(parts) == 4 else ""


def _shown(facts: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Return (run, diagnostic) of the alerts that an answer shows anyway."""
    for alert in facts.get("alerts") or []:
        run = alert.get("run_id") or facts.get("run_id")
        if run and alert.get("id"):
            yield run, alert["id"]


# MCP Apps: the view of a run that hosts show beside an answer. For all other clients answers are as they were.

RUN_VIEW = "ui://trainwright/run.html"
CURVES = "trainwright/curves"
"""Key of an answer's `_meta`: the host hands it to the view, and no model reads it."""


class ViewResource(Resource):
    """The view's single HTML file."""

    async def read(self) -> str:
        """Return the HTML."""
        from trainwright.server.dashboard.application import app_html

        return await anyio.to_thread.run_sync(app_html)


def run_apps() -> Apps:
    """Return the extension with the view; the tools name it in their own `_meta`."""
    apps = Apps()
    apps.add_resource(ViewResource(uri=RUN_VIEW, name="run", title="View of a run", mime_type=APP_MIME_TYPE))
    return apps


def with_curves(context: Context[Any, Any], arguments: dict[str, Any], result: CallToolResult) -> CallToolResult:
    """Return the result with the run's curves in its `_meta`, where the client shows views. Raises TrainwrightError."""
    app = context.request_context.lifespan_context
    if result.is_error or not isinstance(app, AppContext) or not client_supports_apps(context):
        return result
    from trainwright.server.surface.arguments import run_of
    from trainwright.tools.dashboard import run_glance

    workspace = app.workspace()
    named = (result.structured_content or {}).get("run_id") or next(iter(arguments.get("run_ids", [])), None)
    glance = run_glance(workspace, run_of(workspace, named))
    return result.model_copy(update={"meta": {**(result.meta or {}), CURVES: glance.model_dump(mode="json")}})
