"""The server as a process: both eras of the protocol, a clean stdout, a light start, and the SDK's own launcher."""

import json
import subprocess
import sys
from importlib.metadata import version
from pathlib import Path

import psutil
import pytest

from trainwright.server import cli, default
from trainwright.server.surface import TOOLS
from trainwright.trainer.config import schema

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[2]
HEAVY = ("torch", "transformers", "accelerate", "tensorflow", "lightning", "huggingface_hub", "jinja2")


@pytest.mark.parametrize("mode", ["legacy", "auto", "2026-07-28"])
@pytest.mark.requirement("MCP-1")
async def test_old_and_new_protocol_serve_the_same(warm_stdio, mode):
    async with warm_stdio(mode=mode) as agent:
        assert len((await agent.client.list_tools()).tools) == len(TOOLS)
        assert (await agent.get("project_status"))["projects"] == []
        said = await agent.refusal("run_status", run_id="nope")
        assert "Remedy: " in said
        assert (await agent.client.list_prompts()).prompts
        templates = (await agent.client.list_resource_templates()).resource_templates
        assert {template.uri_template for template in templates} == {
            "trainwright://documents/{+path}",
            "trainwright://runs/{+run_id}/status",
            "trainwright://projects/{project}/status",
            "trainwright://projects/{project}/reports/{+path}",
            "trainwright://projects/{project}/pictures/{+path}",
            "trainwright://projects/{project}/pipeline",
            "trainwright://projects/{project}/pipeline/{file}",
            "trainwright://projects/{project}/data/{version}",
        }


@pytest.mark.requirement("MCP-2")
async def test_mcp_run_serves_the_file_that_only_imports_the_server(over_stdio, workspace):
    """`mcp dev` starts the same command under the Inspector."""
    launcher = [sys.executable, "-c", "from mcp.cli import app; app()", "run", str(ROOT / "server" / "main.py")]
    async with over_stdio(launcher, env={"TRAINWRIGHT_HOME": str(workspace)}) as agent:
        await agent.project()
    assert (workspace / "workspace.sqlite").is_file()


@pytest.mark.requirement("MCP-2")
def test_mcp_dev_leaves_the_environment_as_it_was_installed():
    """It starts the server with `uv run`, which changes the environment of a project that it manages."""
    import tomllib

    assert tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["uv"]["managed"] is False


async def test_a_server_makes_its_workspace_when_a_call_needs_it_never_loads_torch_and_ends_with_its_client(
    over_stdio, server_process, workspace
):
    async with over_stdio() as agent:
        await agent.client.list_tools()
        await agent.read("read_document")
        assert not workspace.exists()
        await agent.get("project_status")
        assert workspace.is_dir()
        await agent.project()
        await agent.refusal("start_training", project="iris", kind="baseline")
        await agent.get("project_status", project="iris")
        process = server_process()
        mapped = {Path(region.path).name for region in process.memory_maps()}
    assert not [name for name in mapped if name.startswith("libtorch")]
    assert psutil.wait_procs([process], timeout=20)[0]


def test_importing_the_whole_server_leaves_the_heavy_libraries_and_the_database_alone():
    """What start-up may load: everything else is imported at the first call that needs it."""
    code = f"import sys, {cli.__name__}, {default.__name__}; print(*sorted(sys.modules))"
    done = subprocess.run([sys.executable, "-P", "-c", code], capture_output=True, text=True, check=True)
    loaded = set(done.stdout.split())
    assert not loaded & {*HEAVY, "sqlalchemy", "numpy", "matplotlib", "optuna", "sklearn", schema.__name__}


@pytest.mark.requirement("MCP-1")
def test_nothing_but_the_protocol_reaches_stdout(serve_command):
    requests = [
        {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": initialize()},
        {"jsonrpc": "2.0", "method": "notifications/initialized"},
        {"jsonrpc": "2.0", "id": 2, "method": "tools/list"},
        {"jsonrpc": "2.0", "id": 3, "method": "tools/call", "params": {"name": "project_status", "arguments": {}}},
        {"jsonrpc": "2.0", "id": 4, "method": "tools/call", "params": {"name": "run_status", "arguments": {"x": 1}}},
        {"jsonrpc": "2.0", "id": 5, "method": "no/such/method"},
    ]
    with subprocess.Popen(
        serve_command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    ) as server:
        assert server.stdin is not None
        assert server.stdout is not None
        for request in requests:
            server.stdin.write(json.dumps(request) + "\n")
            server.stdin.flush()
        answers = {}
        while len(answers) < 5:
            message = json.loads(server.stdout.readline())
            assert message["jsonrpc"] == "2.0"
            if "id" in message:
                answers[message["id"]] = message
        server.stdin.close()
        assert server.stdout.read() == ""
        assert server.wait(20) == 0
    assert answers[1]["result"]["serverInfo"]["name"] == "trainwright"
    assert answers[1]["result"]["serverInfo"]["version"] == version("trainwright")
    assert answers[4]["result"]["isError"] is True
    assert "error" in answers[5]


def initialize():
    return {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "test", "version": "1"}}
