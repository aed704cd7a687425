"""What calls on a small workspace cost an agent: the first tool list, its size, a start call."""

from __future__ import annotations

import json
import statistics
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from mcp import Client, StdioServerParameters

from trainwright.server import cli

CHARACTERS_PER_TOKEN = 4.0
PROJECT = {
    "name": "bench",
    "intent": "measure",
    "goal": {"metric": "accuracy", "direction": "maximize", "target": 0.9},
    "config": {"model": {"use": "mlp"}, "data": {"use": "digits"}, "metrics": ["accuracy"]},
}


def server_on(workspace: Path) -> StdioServerParameters:
    """Return how a client starts the server on a workspace."""
    arguments = ["-P", "-m", cli.__name__, "serve", "--workspace", str(workspace)]
    return StdioServerParameters(command=sys.executable, args=arguments)


async def first_tool_list(folder: Path) -> tuple[float, int]:
    """Return seconds from starting the server to its answered `tools/list`, and the answer's length in characters."""
    began = time.perf_counter()
    async with Client(server_on(folder / "empty")) as client:
        listed = await client.list_tools()
        seconds = time.perf_counter() - began
    tools = [tool.model_dump(mode="json", by_alias=True, exclude_none=True) for tool in listed.tools]
    return seconds, len(json.dumps(tools, separators=(",", ":")))


async def start_calls(folder: Path, repetitions: int) -> list[float]:
    """Return the seconds of each `start_training` call; every run is waited for before the next one starts."""
    seconds = []
    async with Client(server_on(folder / "runs")) as client:
        await structured(client, "create_project", PROJECT)
        for _ in range(repetitions):
            began = time.perf_counter()
            view = await structured(client, "start_training", {"project": "bench", "kind": "smoke"})
            seconds.append(time.perf_counter() - began)
            while view["state"] in {"created", "starting", "running"}:
                wait = {"run_id": view["run_id"], "wait_seconds": 50}
                view = await structured(client, "run_status", wait)
    return seconds


async def structured(client: Client, tool: str, arguments: dict[str, Any]) -> dict[str, Any]:
    """Return the structured content of a call. Raises SystemExit where it was refused."""
    result = await client.call_tool(tool, arguments)
    if result.is_error or result.structured_content is None:
        raise SystemExit(f"{tool}: {result.content}")
    return result.structured_content


async def measure(repetitions: int) -> dict[str, float]:
    """Return the figures: medians, and the longest start call."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        lists = [await first_tool_list(folder) for _ in range(repetitions)]
        starts = await start_calls(folder, repetitions)
    return {
        "repetitions": repetitions,
        "first_tool_list_seconds": round(statistics.median(seconds for seconds, _ in lists), 3),
        "tool_list_characters": lists[0][1],
        "tool_list_tokens_estimated": round(lists[0][1] / CHARACTERS_PER_TOKEN),
        "start_call_seconds": round(statistics.median(starts), 3),
        "start_call_seconds_longest": round(max(starts), 3),
    }
