"""What a client sees of the tools: locked, small, and described."""

import json
from pathlib import Path

import pytest
from tests.server.surface_files import ROOT, derived_files

from trainwright.server.surface import TOOLS

SNAPSHOT = Path(__file__).with_name("snapshots") / "tools.json"
MAX_TOKENS = 5500


async def listed(open_agent):
    async with open_agent() as agent:
        tools = (await agent.client.list_tools()).tools
    return [tool.model_dump(mode="json", by_alias=True, exclude_none=True) for tool in tools]


@pytest.mark.requirement("MCP-1")
async def test_the_public_surface_is_the_locked_one(in_memory):
    """Change it on purpose, by the command that the next test names."""
    seen = {tool["name"]: tool for tool in await listed(in_memory)}
    locked = {tool["name"]: tool for tool in json.loads(SNAPSHOT.read_text())}
    assert list(seen) == list(locked)
    assert seen == locked


@pytest.mark.requirement("SKILL-2")
def test_the_index_and_the_published_schemas_fit_the_code():
    files = derived_files()
    assert ROOT / "tools" / "INDEX.md" in files
    stale = [path.name for path, text in files.items() if path.read_text() != text]
    assert not stale, "run `python tests/server/surface_files.py --write`"


@pytest.mark.requirement("MCP-5")
async def test_the_tool_list_is_small(in_memory):
    tools = await listed(in_memory)
    assert len(json.dumps(tools, separators=(",", ":"))) / 4 < MAX_TOKENS
    assert len(tools) <= 25


async def test_schemas_carry_no_noise_and_refuse_unknown_arguments(in_memory):
    for tool in await listed(in_memory):
        schema = tool["inputSchema"]
        assert schema["additionalProperties"] is False, tool["name"]
        assert not noisy_titles(schema), tool["name"]
        assert "$defs" not in schema, tool["name"]


def noisy_titles(node):
    """Paths at which a schema has a `title` keyword (a property of that name is no keyword)."""
    if isinstance(node, list):
        return [found for item in node for found in noisy_titles(item)]
    if not isinstance(node, dict):
        return []
    own = ["title"] if isinstance(node.get("title"), str) else []
    return own + [found for value in node.values() for found in noisy_titles(value)]


@pytest.mark.parametrize("tool", TOOLS, ids=lambda tool: tool.name)
def test_every_tool_says_what_it_is_for_and_what_it_does(tool):
    assert 60 < len(tool.description) < 420
    assert tool.title
    assert tool.annotations is not None
    assert tool.annotations.read_only_hint is not None
    assert (tool.annotations.destructive_hint is None) == tool.annotations.read_only_hint
    assert tool.answers, "an answer model"


async def test_the_list_is_the_same_on_every_connection(in_memory):
    assert await listed(in_memory) == await listed(in_memory)
