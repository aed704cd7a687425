"""News in answers: alerts that no answer has carried yet stand in the next one about their project, whatever tool."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from mcp.types import CallToolResult, TextContent

from trainwright.server.facts import rounded
from trainwright.server.markdown import markdown

if TYPE_CHECKING:
    from trainwright.server.context import AppContext


def with_news(app: AppContext, arguments: Mapping[str, Any], result: CallToolResult) -> CallToolResult:
    """Return the result with the alerts that nobody has seen, in both of its forms; they count as seen then."""
    facts = result.structured_content
    found, left = app.take_news(_projects({"arguments": arguments, "facts": facts}), list(_shown(facts or {})))
    if not found:
        return result
    news = rounded({"news": found, **({"more_news": left} if left else {})})
    text = TextContent(type="text", text=markdown(news))
    with_facts = {**news, **facts} if facts is not None else None
    return result.model_copy(update={"content": [text, *result.content], "structured_content": with_facts})


def _projects(values: Mapping[str, Any]) -> set[str]:
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
