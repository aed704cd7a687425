"""`run_status` of a workspace with many runs, through a real client over stdio."""

from __future__ import annotations

import random
import time
from pathlib import Path

from calls import server_on, structured
from mcp import Client

SETTLED_SECONDS = 2.5
"""What was written a moment ago is read anew each time."""
MOST = 300
"""Runs that are asked for, drawn from all."""


async def status_figures(workspace: Path, rounds: int) -> dict[str, float]:
    """Return the figures in milliseconds: the first time that each run is asked for, and again."""
    time.sleep(SETTLED_SECONDS)
    every = sorted(path.name for path in workspace.glob("projects/*/runs/*") if path.is_dir())
    runs = random.Random(0).sample(every, min(MOST, len(every)))
    async with Client(server_on(workspace)) as client:
        first = [await _status(client, run) for run in runs]
        again = sorted([await _status(client, run) for _ in range(rounds) for run in runs])
        bare = sorted([await _listing(client) for _ in range(200)])
    return {
        "runs_in_workspace": len(every),
        "status_first_p50_ms": round(sorted(first)[len(first) // 2], 2),
        "status_p50_ms": round(again[len(again) // 2], 2),
        "status_p99_ms": round(again[len(again) * 99 // 100], 2),
        "bare_call_p50_ms": round(bare[len(bare) // 2], 2),
    }


async def _status(client: Client, run: str) -> float:
    began = time.perf_counter()
    await structured(client, "run_status", {"run_id": run})
    return 1000 * (time.perf_counter() - began)


async def _listing(client: Client) -> float:
    """Time a call that reads one small file: what the protocol itself takes, for comparison."""
    began = time.perf_counter()
    await client.call_tool("read_document", {"path": "diagnostics/nan_loss.md"})
    return 1000 * (time.perf_counter() - began)
