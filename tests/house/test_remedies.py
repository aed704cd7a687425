"""Errors keep their word: the calls in their remedies and the documents they name exist."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

from trainwright.server.surface import TOOLS

ROOT = Path(__file__).parents[2]
SKILL = ROOT / "skills" / "ml-trainer"
SCHEMAS = {tool.name: tool.parameters for tool in TOOLS}
SOURCES = [path for folder in ("server", "tools", "trainer") for path in sorted((ROOT / folder).rglob("*.py"))]


def _texts(path, keyword):
    """Yield (line, text) of every literal given as `keyword=`; what is computed in an f-string reads as `…`."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.keyword) and node.arg == keyword:
            for part in ast.walk(node.value):
                if isinstance(part, ast.JoinedStr):
                    yield part.lineno, "".join(_plain(value) for value in part.values)
                elif isinstance(part, ast.Constant) and isinstance(part.value, str):
                    yield part.lineno, part.value


def _plain(node):
    return node.value if isinstance(node, ast.Constant) else "…"


def _calls(text):
    """Return the source of every `tool(…)` in a text, up to its closing bracket."""
    found = []
    for match in re.finditer(r"\b(" + "|".join(SCHEMAS) + r")\(", text):
        depth, end = 0, match.end() - 1
        for end in range(match.end() - 1, len(text)):
            depth += {"(": 1, ")": -1}.get(text[end], 0)
            if depth == 0:
                break
        if depth == 0:
            found.append(text[match.start() : end + 1])
    return found


def _names(call):
    """Return the argument names of a call; None when it is cut into pieces by an f-string and cannot be parsed."""
    try:
        node = ast.parse(re.sub(r"…", "0", call)).body[0].value
    except SyntaxError:
        return None
    positional = [argument.id for argument in node.args if isinstance(argument, ast.Name)]
    return positional + [keyword.arg for keyword in node.keywords]


CALLS = [
    pytest.param(call, id=f"{path.relative_to(ROOT)}:{line}:{call[:40]}")
    for path in SOURCES
    for keyword in ("remedy", "why")
    for line, text in _texts(path, keyword)
    for call in _calls(text)
]
NAMED_DOCUMENTS = [
    pytest.param(text, id=f"{path.relative_to(ROOT)}:{line}")
    for path in SOURCES
    for line, text in _texts(path, "document")
    if text.endswith((".md", ".yaml")) and "…" not in text
]


@pytest.mark.requirement("GATE-2")
@pytest.mark.parametrize("call", CALLS)
def test_calls_in_remedies_take_real_arguments(call):
    names = _names(call)
    unknown = set(names or ()) - set(SCHEMAS[call.split("(")[0]]["properties"])
    assert not unknown, f"no such argument: {sorted(unknown)}"


REMEDIES = [
    pytest.param(text, id=f"{path.relative_to(ROOT)}:{line}")
    for path in SOURCES
    for keyword in ("remedy", "why")
    for line, text in _texts(path, keyword)
    if "(" in text
]
NEXT_CALLS = [
    pytest.param(node, id=f"{path.relative_to(ROOT)}:{node.lineno}")
    for path in SOURCES
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "NextCall"
]
NOT_TOOLS = {"launch_environment", "train_step", "validation_step"}


@pytest.mark.requirement("GATE-2")
@pytest.mark.parametrize("remedy", REMEDIES)
def test_remedies_name_no_tool_that_does_not_exist(remedy):
    called = set(re.findall(r"(?<![.\w])([a-z]+(?:_[a-z]+)+)\(", remedy))
    assert not called - set(SCHEMAS) - NOT_TOOLS


@pytest.mark.requirement("MCP-5")
@pytest.mark.parametrize("node", NEXT_CALLS)
def test_next_calls_name_real_tools_and_arguments(node):
    keywords = {keyword.arg: keyword.value for keyword in node.keywords}
    tool, arguments = keywords.get("tool"), keywords.get("arguments")
    if not isinstance(tool, ast.Constant):
        pytest.skip("the tool is computed; the tests of that place look at its value")
    assert tool.value in SCHEMAS
    if isinstance(arguments, ast.Dict):
        names = {key.value for key in arguments.keys if isinstance(key, ast.Constant)}
        assert not names - set(SCHEMAS[tool.value]["properties"])


@pytest.mark.requirement("GATE-2")
@pytest.mark.parametrize("document", NAMED_DOCUMENTS)
def test_documents_that_errors_name_exist(document):
    assert (SKILL / document).is_file()
