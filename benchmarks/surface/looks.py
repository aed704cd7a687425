"""What looks at a large workspace cost an agent, through a real client over stdio, and a person at a terminal."""

from __future__ import annotations

import json
import statistics
import subprocess
import sys
import time
from pathlib import Path

from calls import server_on, structured
from large import LONG
from mcp import Client

from trainwright.server import cli

SETTLED_SECONDS = 2.5
"""What was written a moment ago is read anew by every look."""


async def looks(workspace: Path, repetitions: int) -> dict[str, float]:
    """Return the figures of status calls, of the run with a million points and its plot, in milliseconds.

    Every project is looked at once before the calls that count; what that first round takes is a figure of its own.
    """
    time.sleep(SETTLED_SECONDS)
    names = sorted(path.name for path in (workspace / "projects").iterdir())
    run = next(path.name for path in (workspace / "projects" / LONG / "runs").iterdir() if "baseline" in path.name)
    async with Client(server_on(workspace)) as client:
        first = [await _timed(client, "project_status", {"project": name}) for name in names]
        listing_first = await _timed(client, "project_status", {})
        run_first = await _timed(client, "run_status", {"run_id": run})
        by_name = [
            await _timed(client, "project_status", {"project": name}) for _ in range(repetitions) for name in names
        ]
        listing = [await _timed(client, "project_status", {}) for _ in range(5 * repetitions)]
        of_run = [await _timed(client, "run_status", {"run_id": run}) for _ in range(5 * repetitions)]
        plot = await _timed(client, "plot_metrics", {"run_ids": [run]})
    return {
        "status_first_ms": round(statistics.median(first), 1),
        "status_p50_ms": round(statistics.median(by_name), 1),
        "status_p99_ms": round(_percentile(by_name, 99), 1),
        "listing_first_ms": round(listing_first, 1),
        "listing_p50_ms": round(statistics.median(listing), 1),
        "listing_p99_ms": round(_percentile(listing, 99), 1),
        "run_status_million_first_ms": round(run_first, 1),
        "run_status_million_p50_ms": round(statistics.median(of_run), 1),
        "run_status_million_p99_ms": round(_percentile(of_run, 99), 1),
        "plot_million_ms": round(plot, 1),
    }


def commands(workspace: Path) -> dict[str, float]:
    """Return the seconds of `trainwright status` and `trainwright verify`, the latter with nothing found."""
    return {"status_command_seconds": _command("status", workspace), "verify_seconds": _command("verify", workspace)}


def _command(name: str, workspace: Path) -> float:
    began = time.perf_counter()
    done = subprocess.run(
        [sys.executable, "-P", "-m", cli.__name__, name, "--workspace", str(workspace)],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    if done.returncode:
        raise SystemExit(f"trainwright {name}: {done.stdout[-2000:]}{done.stderr[-2000:]}")
    return round(time.perf_counter() - began, 2)


async def _timed(client: Client, tool: str, arguments: dict[str, object]) -> float:
    began = time.perf_counter()
    if tool == "plot_metrics":  # a picture, and no structured content
        answer = await client.call_tool(tool, arguments)
        if answer.is_error:
            raise SystemExit(f"{tool}: {json.dumps([str(block) for block in answer.content])}")
    else:
        await structured(client, tool, arguments)
    return 1000 * (time.perf_counter() - began)


def _percentile(values: list[float], percent: int) -> float:
    """Return the value that so many percent of all do not exceed."""
    return sorted(values)[min(len(values) - 1, len(values) * percent // 100)]
