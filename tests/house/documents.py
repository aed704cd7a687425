"""Reading the project's documents for the tests: fenced blocks, inline calls, links, and the calls they show."""

from __future__ import annotations

import ast
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
OF_THE_USER = {"train_step", "validation_step", "compute_loss"}
AGENT_FACING = ("skills", "agents", "prompts")
FENCE = re.compile(r"^(?P<indent> *)(?P<ticks>`{3,})(?P<language>[\w-]*)\s*$")
COMMENT = re.compile(r"^\s*<!-- (?P<kind>(?:run|check): [a-z-]+|file: [\w./-]+) -->\s*$")
INLINE_CODE = re.compile(r"(?<!`)`([^`\n]+)`(?!`)")
LINK = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)")
CALL = re.compile(r"^[a-z][a-z0-9_]*\(.*\)$")


@dataclass(frozen=True)
class Block:
    """A fenced block: what it holds, and how it says it is to be tested."""

    document: str
    line: int
    language: str
    kind: str | None
    text: str

    def __str__(self) -> str:
        return f"{self.document}:{self.line}"


@dataclass(frozen=True)
class Call:
    """A tool call as a document shows it. A value of Ellipsis stands for anything."""

    where: str
    tool: str
    arguments: dict[str, Any]


def documents() -> list[Path]:
    """Return every Markdown document of the project that is not a generated artifact."""
    top = sorted(ROOT.glob("*.md"))
    return top + [path for folder in ("docs", *AGENT_FACING) for path in sorted((ROOT / folder).rglob("*.md"))]


def blocks(path: Path) -> list[Block]:
    """Return the fenced blocks of a document in order. Raises ValueError when a fence is never closed."""
    document = path.relative_to(ROOT).as_posix()
    found: list[Block] = []
    opened: tuple[int, re.Match[str], str | None] | None = None
    body: list[str] = []
    kind: str | None = None
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), start=1):
        if opened is None:
            comment, fence = COMMENT.match(line), FENCE.match(line)
            if fence:
                opened, body = (number, fence, kind), []
            kind = comment["kind"] if comment else None
        elif line.strip() == opened[1]["ticks"]:
            start, fence, marked = opened
            text = "\n".join(entry.removeprefix(fence["indent"]) for entry in body)
            found.append(Block(document, start, fence["language"], marked, text))
            opened, kind = None, None
        else:
            body.append(line)
    if opened is not None:
        raise ValueError(f"{document}:{opened[0]}: the fence is never closed")
    return found


def prose(path: Path) -> str:
    """Return a document's text without front matter and fenced blocks."""
    text = path.read_text(encoding="utf-8")
    if text.startswith("---\n"):
        text = text.split("\n---\n", 1)[1]
    return re.sub(r"^ *(`{3,})[^\n]*\n.*?\n *\1 *$", "", text, flags=re.MULTILINE | re.DOTALL)


def inline_calls(path: Path, tools: dict[str, dict[str, Any]]) -> list[Call]:
    """Return the calls in inline code, `run_status(run_id)`: a bare name stands for the argument of that name."""
    where = path.relative_to(ROOT).as_posix()
    spans = [span for span in INLINE_CODE.findall(prose(path)) if CALL.match(span)]
    known = [span for span in spans if span.split("(")[0] in tools or _reads_like_a_tool(path, span)]
    return [call for span in known for call in parse_calls(span, f"{where}: `{span}`")]


def _reads_like_a_tool(path: Path, span: str) -> bool:
    """Whether an agent would take it for one: a snake_case call in a document written for agents."""
    name = span.partition("(")[0]
    return path.relative_to(ROOT).parts[0] in AGENT_FACING and "_" in name and name not in OF_THE_USER


def parse_calls(text: str, where: str) -> list[Call]:
    """Return the calls of Python source; `…`, `...` and `<words>` stand for any value. Raises SyntaxError."""
    source = re.sub(r"(?<![\"\w])<[^<>\n]+>", "...", text).replace("(…)", "(...)")
    source = re.sub(r"(?<=[=:\[ ,])…", "...", source)
    calls = []
    for statement in ast.parse(source).body:
        if not (isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Call)):
            raise SyntaxError(f"{where}: not a tool call")
        calls.append(_call(statement.value, where))
    return calls


def _call(node: ast.Call, where: str) -> Call:
    if not isinstance(node.func, ast.Name):
        raise SyntaxError(f"{where}: a tool is called by its plain name")
    arguments = {keyword.arg or "**": _value(keyword.value) for keyword in node.keywords}
    for position in node.args:
        if isinstance(position, ast.Name):
            arguments[position.id] = ...
        elif not (isinstance(position, ast.Constant) and position.value is ...):
            raise SyntaxError(f"{where}: tools take arguments by name")
        else:
            arguments["..."] = ...
    return Call(where, node.func.id, arguments)


def _value(node: ast.expr) -> Any:
    try:
        value = ast.literal_eval(node)
    except ValueError:
        return ...
    return ... if "Ellipsis" in repr(value) or "…" in repr(value) else value


def links(path: Path) -> list[str]:
    """Return the targets of a document's relative links."""
    return [target for target in LINK.findall(prose(path)) if not re.match(r"[a-z]+:", target)]


def anchors(path: Path) -> set[str]:
    """Return a document's anchors: those of its headings, as the usual renderers make them, and those written out."""
    text = prose(path)
    headings = re.findall(r"^#+ +(.+?) *$", text, flags=re.MULTILINE)
    written = set(re.findall(r'^<a id="([\w.-]+)"></a>$', text, flags=re.MULTILINE))
    return written | {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}
