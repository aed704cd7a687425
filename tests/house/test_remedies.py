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
REMEDIES = ("remedy", "why")
NOT_TOOLS = {"launch_environment", "train_step", "validation_step"}


@pytest.fixture(scope="module")
def nodes():
    """(place, node) of every keyword and call in the product's sources: each file is parsed once, when it is asked."""
    return [
        (f"{path.relative_to(ROOT)}:{node.lineno}", node)
        for path in SOURCES
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.keyword | ast.Call)
    ]


@pytest.fixture(scope="module")
def texts(nodes):
    """Return a function: (place, text) of each literal given as one of the keywords; what is computed reads as `…`."""
    given = [(place, node) for place, node in nodes if isinstance(node, ast.keyword)]

    def of(*keywords):
        return [(place, text) for place, node in given if node.arg in keywords for text in _literals(node.value)]

    return of


def _literals(value):
    for part in ast.walk(value):
        if isinstance(part, ast.JoinedStr):
            yield "".join(_plain(piece) for piece in part.values)
        elif isinstance(part, ast.Constant) and isinstance(part.value, str):
            yield part.value


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


@pytest.mark.requirement("GATE-2")
def test_calls_in_remedies_take_real_arguments(texts):
    calls = [(place, call) for place, text in texts(*REMEDIES) for call in _calls(text)]
    assert len(calls) > 50, "the sources are read in another way than they are written"
    assert [found for place, call in calls if (found := _unknown_arguments(place, call))] == []


def _unknown_arguments(place, call):
    unknown = set(_names(call) or ()) - set(SCHEMAS[call.split("(")[0]]["properties"])
    return f"{place}: {call} has no argument {sorted(unknown)}" if unknown else ""


@pytest.mark.requirement("GATE-2")
def test_remedies_name_no_tool_that_does_not_exist(texts):
    called = [
        (place, name)
        for place, text in texts(*REMEDIES)
        for name in re.findall(r"(?<![.\w])([a-z]+(?:_[a-z]+)+)\(", text)
    ]
    assert len(called) > 50, "the sources are read in another way than they are written"
    assert [(place, name) for place, name in called if name not in {*SCHEMAS, *NOT_TOOLS}] == []


@pytest.mark.requirement("MCP-5")
def test_next_calls_name_real_tools_and_arguments(nodes):
    """Where the tool is computed, the tests of that place look at its value."""
    found = [
        (place, {keyword.arg: keyword.value for keyword in node.keywords})
        for place, node in nodes
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "NextCall"
    ]
    named = [(place, given) for place, given in found if isinstance(given.get("tool"), ast.Constant)]
    assert len(named) > 20, "the sources are read in another way than they are written"
    assert [wrong for place, given in named if (wrong := _wrong_next(place, given))] == []


def _wrong_next(place, given):
    tool, arguments = given["tool"].value, given.get("arguments")
    if tool not in SCHEMAS:
        return f"{place}: there is no tool {tool!r}"
    keys = arguments.keys if isinstance(arguments, ast.Dict) else []
    unknown = {key.value for key in keys if isinstance(key, ast.Constant)} - set(SCHEMAS[tool]["properties"])
    return f"{place}: {tool} has no argument {sorted(unknown)}" if unknown else ""


@pytest.mark.requirement("GATE-2")
def test_documents_that_errors_name_exist(texts):
    named = [(place, text) for place, text in texts("document") if text.endswith((".md", ".yaml")) and "…" not in text]
    assert named
    assert [(place, document) for place, document in named if not (SKILL / document).is_file()] == []
