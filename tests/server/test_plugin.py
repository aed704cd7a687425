"""The repository is a Claude Code plugin: its manifests, agent and skill name what exists."""

import json
import re
from pathlib import Path

import pytest
import yaml

import trainwright
from trainwright.server.surface import TOOLS

ROOT = Path(__file__).parents[2]
AGENT_KEYS = {"name", "description", "tools", "model", "skills", "color", "maxTurns"}
SKILL_KEYS = {"name", "description", "when_to_use", "allowed-tools", "argument-hint"}
LONGEST_TOOL_NAME = 128


def front_matter(path):
    return yaml.safe_load(path.read_text().split("---\n")[1])


def plugin():
    return json.loads((ROOT / ".claude-plugin" / "plugin.json").read_text())


def server_name():
    (name,) = json.loads((ROOT / ".mcp.json").read_text())["mcpServers"]
    return name


@pytest.mark.requirement("MCP-2")
def test_the_manifest_is_that_of_this_version():
    manifest = plugin()
    assert manifest["name"] == "trainwright"
    assert manifest["version"] == trainwright.__version__
    assert {"description", "author", "license", "keywords"} <= set(manifest)


@pytest.mark.requirement("MCP-2")
def test_the_client_starts_the_server_by_a_command_that_is_installed():
    import tomllib

    scripts = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["scripts"]
    server = json.loads((ROOT / ".mcp.json").read_text())["mcpServers"][server_name()]
    assert server["command"] in scripts
    assert server["args"] == ["serve"]


@pytest.mark.requirement("SKILL-1")
@pytest.mark.parametrize("path", sorted((ROOT / "agents").glob("*.md")), ids=lambda path: path.stem)
def test_an_agent_names_tools_that_exist(path):
    """As they are called in a plugin, and as they are called with a plain .mcp.json."""
    front = front_matter(path)
    assert set(front) <= AGENT_KEYS
    assert front["name"] == path.stem
    prefixes = (f"mcp__plugin_{plugin()['name']}_{server_name()}__", f"mcp__{server_name()}__")
    named = [tool.strip() for tool in front["tools"].split(",")]
    ours = [tool for tool in named if tool.startswith("mcp__")]
    chosen = {tool.removeprefix(prefixes[1]) for tool in ours if tool.startswith(prefixes[1])}
    assert set(ours) == {prefix + tool for prefix in prefixes for tool in chosen}
    known = {tool.name for tool in TOOLS}
    assert chosen == known if path.stem == "ml-trainer" else chosen < known
    assert all(len(tool) <= LONGEST_TOOL_NAME for tool in named)
    assert (ROOT / "skills" / front["skills"] / "SKILL.md").is_file()


@pytest.mark.requirement("SKILL-2")
@pytest.mark.parametrize("path", sorted((ROOT / "skills").glob("*/SKILL.md")), ids=lambda path: path.parent.name)
def test_a_skill_has_known_keys_and_its_links_lead_somewhere(path):
    front = front_matter(path)
    assert set(front) <= SKILL_KEYS
    assert front["name"] == path.parent.name
    links = re.findall(r"\]\(([^)]+)\)", path.read_text())
    assert links
    assert [link for link in links if not (path.parent / link).is_file()] == []
