"""`trainwright connect`: what each client's documentation asks for, and never a token."""

import json
import tomllib

import pytest
from typer.testing import CliRunner

from trainwright.server import cli
from trainwright.server.http.clients import CLIENTS

pytestmark = pytest.mark.requirement("MCP-2")
URL = "https://box.example.org/mcp"
SSH = {"command": "ssh", "args": ["-p", "2222", "anna@box", "trainwright", "serve", "--workspace", "/data/ws"]}


def shown(client, *options):
    answer = CliRunner().invoke(cli.app, ["connect", client, "--print", *options])
    assert answer.exit_code == 0, answer.output
    return answer.stdout


@pytest.mark.parametrize(
    ("client", "servers", "entry"),
    [
        ("claude-code", "mcpServers", {"type": "http", "headers": "Bearer ${TRAINWRIGHT_TOKEN}"}),
        ("cursor", "mcpServers", {"headers": "Bearer ${env:TRAINWRIGHT_TOKEN}"}),
        ("vscode", "servers", {"type": "http", "headers": "Bearer ${input:trainwright-token}"}),
    ],
)
def test_clients_that_read_json_are_told_the_address_and_where_the_token_comes_from(client, servers, entry):
    given = json.loads(shown(client, "--remote", URL))
    expected = {**entry, "url": URL, "headers": {"Authorization": entry["headers"]}}
    assert given[servers] == {"trainwright": expected}
    assert json.loads(shown(client, "--remote", "https://box.example.org"))[servers]["trainwright"]["url"] == URL


def test_vs_code_asks_for_the_token():
    (asked,) = json.loads(shown("vscode", "--remote", URL))["inputs"]
    assert asked == {
        "type": "promptString",
        "id": "trainwright-token",
        "description": "Token of Trainwright",
        "password": True,
    }


def test_claude_desktop_comes_by_a_bridge_since_its_file_knows_commands_only():
    entry = json.loads(shown("claude-desktop", "--remote", URL))["mcpServers"]["trainwright"]
    assert entry["args"][:3] == ["-y", "mcp-remote", URL]
    assert set(entry) == {"command", "args", "env"}


def test_codex_reads_toml():
    given = tomllib.loads(shown("codex", "--remote", URL))
    assert given == {"mcp_servers": {"trainwright": {"url": URL, "bearer_token_env_var": "TRAINWRIGHT_TOKEN"}}}
    local = tomllib.loads(shown("codex", "-w", "/data/my ws"))["mcp_servers"]["trainwright"]
    assert local["args"] == ["serve", "--workspace", "/data/my ws"]


@pytest.mark.parametrize("client", [name for name in CLIENTS if name not in {"codex", "python"}])
def test_over_ssh_every_client_starts_the_command_there(client):
    given = json.loads(shown(client, "--remote", "ssh://anna@box:2222/data/ws"))
    (entry,) = (given.get("mcpServers") or given["servers"]).values()
    assert {"command": entry["command"], "args": entry["args"]} == SSH


@pytest.mark.parametrize("remote", [(), ("--remote", URL), ("--remote", "ssh://box/ws")])
def test_the_python_sdk_gets_a_script(remote):
    compile(shown("python", *remote), "script", "exec")


@pytest.mark.parametrize(
    "remote", ["box", "ftp://box", "https://anna:secret@box/mcp", "ssh://anna:secret@box", "ssh://-oX/"]
)
def test_what_is_no_address_of_a_server_is_refused_without_its_password(remote):
    answer = CliRunner().invoke(cli.app, ["connect", "cursor", "--print", "--remote", remote])
    assert "is no address of a server" in str(answer.exception)
    assert "secret" not in str(answer.exception)
