"""The repository is a Claude Code plugin: its manifests, agent and skill name what exists."""

import json
import re
import shutil
import subprocess
from pathlib import Path

import pytest
import yaml

import trainwright
from trainwright.server.surface import TOOLS

ROOT = Path(__file__).parents[2]
AGENT_KEYS = {"name", "description", "tools", "model", "skills", "color", "maxTurns"}
SKILL_KEYS = {"name", "description", "when_to_use", "allowed-tools", "argument-hint"}
LONGEST_TOOL_NAME = 128
LONGEST_DESCRIPTION, LONGEST_SHOWN, LONGEST_PAGE = 1024, 1536, 8000
"""Characters: of a description, of it with when_to_use as a client lists them; bytes of a page."""
ANOTHER_PERSON = re.compile(r"\b(I|me|my|we|our|us|you|your)\b", re.IGNORECASE)
IMPERATIVE = re.compile(
    r"(Build|Calculate|Check|Choose|Configure|Copy|Create|Estimate|Generate|Get|Run|Train|Use|Write)\b"
)
"""How a description does not begin: it says what the skill does, and gives no orders."""
PAGES = [*sorted((ROOT / "skills").glob("*/SKILL.md")), *sorted((ROOT / "agents").glob("*.md"))]


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
    assert [link for link in links if not (path.parent / link.partition("#")[0]).is_file()] == []


@pytest.mark.requirement("SKILL-3", "SKILL-1")
@pytest.mark.parametrize("path", PAGES, ids=lambda path: f"{path.parent.name}/{path.stem}")
def test_a_page_keeps_the_rules_of_what_clients_list(path):
    """Those of the Agent Skills specification and of Claude Code, which hold for agents' descriptions too."""
    front = front_matter(path)
    name, description = front["name"], front["description"]
    assert name == (path.parent.name if path.name == "SKILL.md" else path.stem)
    assert re.fullmatch(r"[a-z0-9]+(-[a-z0-9]+)*", name)
    assert len(name) <= 64
    assert not re.search("anthropic|claude", name)
    assert 80 <= len(description) <= LONGEST_DESCRIPTION
    assert len(description) + len(front.get("when_to_use", "")) <= LONGEST_SHOWN
    assert not re.search(r"[<>]", description), "a description with tags is refused"
    assert ANOTHER_PERSON.search(description) is None, "descriptions are written in the third person"
    assert IMPERATIVE.match(description) is None
    assert path.stat().st_size <= LONGEST_PAGE


@pytest.mark.requirement("SKILL-3")
@pytest.mark.parametrize("path", sorted((ROOT / "skills").glob("*/SKILL.md")), ids=lambda path: path.parent.name)
def test_a_skill_says_when_to_use_it_and_when_not(path):
    assert front_matter(path)["when_to_use"].startswith("When ")
    when_not = path.read_text().partition("## When not\n")[2].partition("\n## ")[0]
    assert len(re.findall(r"^- ", when_not, flags=re.MULTILINE)) >= 3


@pytest.mark.requirement("SKILL-3", "SKILL-1", "MCP-2")
@pytest.mark.slow
def test_the_clients_own_validator_passes_everything_strictly(tmp_path):
    """`claude plugin validate --strict`: the manifest, and the front matter of every skill and agent."""
    program = shutil.which("claude")
    if program is None:
        pytest.skip("claude (npm: @anthropic-ai/claude-code) is not on PATH")

    def validate(folder):
        environment = {"PATH": "/usr/bin:/bin", "HOME": str(tmp_path), "DISABLE_AUTOUPDATER": "1"}
        command = [program, "plugin", "validate", "--strict", str(folder)]
        return subprocess.run(command, env=environment, capture_output=True, text=True, check=False, timeout=120)

    copy = tmp_path / "plugin"
    for name in (".claude-plugin", "skills", "agents"):
        shutil.copytree(ROOT / name, copy / name)
    done = validate(copy)
    assert done.returncode == 0, done.stdout + done.stderr
    page = copy / "agents" / "ml-trainer.md"
    page.write_text(page.read_text().replace("\ndescription:", "\ndescriptoin:"))
    assert validate(copy).returncode == 1
