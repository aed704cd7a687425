"""What an agent that knows nothing reads out of an answer: the one call that it names, from the text or from the data.

Two kinds of clients are in wide use: those that hand on the text of an answer alone, and those that hand on its
structured content alone. A refusal names its call in both as well; where its data has no `next`, the words of its
remedy stand there.
"""

from __future__ import annotations

import ast
import re
from dataclasses import dataclass
from typing import Any

from mcp.types import CallToolResult, TextContent

FORMS = ("text", "structured")
CALL = re.compile(r"\b([a-z_]+)\(")
CONSTANTS = {"true": True, "false": False, "null": None}


@dataclass(frozen=True)
class Call:
    """A tool with its arguments."""

    tool: str
    arguments: dict[str, Any]

    def __str__(self) -> str:
        """As one would write it: `pass_gate(project='digits')`."""
        return f"{self.tool}({', '.join(f'{name}={value!r}' for name, value in self.arguments.items())})"


def text_of(result: CallToolResult) -> str:
    """Return all text of an answer."""
    return "\n".join(block.text for block in result.content if isinstance(block, TextContent))


def named_call(result: CallToolResult, form: str, tools: set[str]) -> Call | None:
    """Return the call that an answer names, read in this form alone; None where it names none that can be made.

    Args:
        form: text or structured.
        tools: names of the tools that exist.
    """
    if form == "structured":
        return _structured(result.structured_content or {}, tools)
    text = text_of(result)
    remedy = call_after("Remedy: ", text, tools) if result.is_error else None
    return remedy or call_after("Next: ", text, tools) or _of_listed(text, tools)


def call_after(mark: str, text: str, tools: set[str]) -> Call | None:
    """Return the first call of a known tool on the first line that begins with the mark and holds one."""
    for line in text.splitlines():
        stripped = line.strip()
        if not stripped.startswith(mark):
            continue
        for found in CALL.finditer(stripped):
            if found.group(1) in tools and (call := _read(stripped, found)) is not None:
                return call
    return None


def _of_listed(text: str, tools: set[str]) -> Call | None:
    """Return the first call that a list's entries name for themselves: the list of projects has one in each."""
    entries = (line.rpartition("; next: ")[2] for line in text.splitlines() if "; next: " in line)
    return next((call for entry in entries if (call := call_after("Next: ", f"Next: {entry}", tools))), None)


def _structured(content: dict[str, Any], tools: set[str]) -> Call | None:
    following = content.get("next")
    if following is None and content.get("projects"):
        following = content["projects"][0].get("next")
    if following is not None:
        return Call(following["tool"], dict(following.get("arguments") or {}))
    said = f"{content.get('message', '')}\nRemedy: {content.get('remedy', '')}"
    return call_after("Remedy: ", said, tools)


def _read(line: str, found: re.Match[str]) -> Call | None:
    """Read the call that begins there: up to the first closing bracket that makes it whole."""
    for end in (place + 1 for place, sign in enumerate(line) if sign == ")" and place > found.start()):
        try:
            whole = ast.parse(line[found.start() : end], mode="eval").body
        except SyntaxError:
            continue
        if not isinstance(whole, ast.Call) or whole.args:
            return None
        try:
            return Call(found.group(1), {each.arg or "": _value(each.value) for each in whole.keywords})
        except ValueError:  # `changes={…}`: no call that could be made as it stands
            return None
    return None


def _value(node: ast.expr) -> Any:
    """Return the value of a literal, in Python's words or JSON's. Raises ValueError."""
    if isinstance(node, ast.Name) and node.id in CONSTANTS:
        return CONSTANTS[node.id]
    if isinstance(node, ast.Dict):
        pairs = zip(node.keys, node.values, strict=True)
        return {_value(key): _value(value) for key, value in pairs if key is not None}
    if isinstance(node, ast.List | ast.Tuple):
        return [_value(item) for item in node.elts]
    return ast.literal_eval(node)
