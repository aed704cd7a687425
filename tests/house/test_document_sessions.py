"""Sessions that documents show are played: files written, tools called on a real server, runs waited for."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path

import pytest
from mcp import Client
from tests.worlds.warm import warm

from trainwright.server.app import build_server

pytestmark = pytest.mark.slow

spec = importlib.util.spec_from_file_location("house_documents_sessions", Path(__file__).with_name("documents.py"))
reader = importlib.util.module_from_spec(spec)
sys.modules[spec.name] = reader
spec.loader.exec_module(reader)

SESSIONS = [path for path in reader.documents() if any(block.kind == "run: agent" for block in reader.blocks(path))]


@pytest.mark.requirement("MCP-3")
@pytest.mark.parametrize("path", SESSIONS, ids=lambda path: path.name)
async def test_a_session_in_a_document_runs_as_shown(path, tmp_path):
    with warm():  # documents say what the tools do, not how a run's interpreter starts
        await _played(path, tmp_path)


async def _played(path, tmp_path):
    async with Client(build_server(tmp_path / ".trainwright")) as client:
        for block in reader.blocks(path):
            if (block.kind or "").startswith("file: "):
                (tmp_path / block.kind.removeprefix("file: ")).write_text(block.text, encoding="utf-8")
            elif block.kind == "run: agent":
                for call in reader.parse_calls(block.text, str(block)):
                    answer = await _answer(client, call.tool, call.arguments)
                    if "run_id" in answer:
                        await _wait(client, answer["run_id"])


async def _answer(client, tool, arguments):
    result = await client.call_tool(tool, arguments)
    assert not result.is_error, f"{tool}: {result.content[0].text}"
    return result.structured_content


async def _wait(client, run_id):
    for _ in range(6):
        view = await _answer(client, "run_status", {"run_id": run_id, "wait_seconds": 50})
        if view["state"] not in {"created", "starting", "running"}:
            assert view["state"] == "completed", view
            return
    await client.call_tool("stop_training", {"project": run_id.split("/")[0], "run_id": run_id})
    pytest.fail(f"{run_id} did not end")
