"""The server killed with SIGKILL at random moments of promotions: never two versions in production, never none.

Two releases take turns in production, through its gate and back. After each kill the ledger names one version, the link
leads to a released one, the former or the next, and a server that starts leads it where the ledger has it.

Prints, as its last line, one JSON object.
"""

from __future__ import annotations

import asyncio
import collections
import json
import random
import signal
import tempfile
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

from mcp.shared.exceptions import MCPError
from world import CONFIG, PROJECT, RATES, World, call, configured, server

from trainwright.tools.verification import verify_workspace


class Served(World):
    """The workspace of two releases, as someone sees it who serves from it."""

    @property
    def link(self) -> Path:
        """What is served."""
        return self.project / "served" / "production"

    def in_production(self) -> list[int]:
        """Return the versions that the ledger's moves have named so far, the last of them in production."""
        query = "SELECT body FROM ledger WHERE kind = 'model_promoted' ORDER BY sequence"
        bodies = [json.loads(body) for (body,) in self.read(query)]
        return [body["version"] for body in bodies if body["outcome"] == "moved"]

    def problems(self, before: int) -> list[str]:
        """Return what is wrong before another server starts."""
        allowed = {f"v{number}" for number in (before, self.in_production()[-1])}
        leads = str(self.link.readlink()) if self.link.is_symlink() else "nowhere"
        found = [] if leads in allowed else [f"production leads {leads}, and the ledger has {allowed}"]
        return found if (self.link / "final_model" / "README.md").is_file() else [*found, "no final model is served"]


async def release(world: Served) -> None:
    """Make two releases, and put the first into production."""
    goal = {"metric": "accuracy", "direction": "maximize", "target": 0.6}
    async with server(world) as (client, _):
        arguments = {"name": PROJECT, "intent": "", "goal": goal, "config": CONFIG | {"search": None}}
        answer = await call(client, {"tool": "create_project", "arguments": arguments})
        for rate in RATES:
            while answer.get("now_in") != "finished":
                asked = answer.get("next") or {"tool": "advance", "arguments": {"project": PROJECT}}
                answer = await call(client, asked)
            if rate != RATES[-1]:
                answer = await call(client, configured({"optimizer.learning_rate": RATES[-1]}))
        await promote(client, "v1")


async def promote(client: Any, version: str) -> None:
    """Put a version into production."""
    await call(client, {"tool": "promote_model", "arguments": {"project": PROJECT, "version": version}})


async def killed(world: Served, draw: random.Random, seconds: float) -> float | None:
    """Promote the other version and kill the server meanwhile; return the seconds of an answer."""
    other = "v2" if world.in_production()[-1] == 1 else "v1"
    async with server(world) as (client, process):
        began = time.monotonic()
        answer = asyncio.ensure_future(promote(client, other))
        done, _ = await asyncio.wait([answer], timeout=draw.uniform(0, 1.2 * seconds))
        took = time.monotonic() - began if done else None
        process.send_signal(signal.SIGKILL)
        with suppress(MCPError, TimeoutError):
            await asyncio.wait_for(answer, 10)
    return took


async def kill_promotions(kills: int, folder: Path, seed: int = 0) -> dict[str, Any]:
    """Kill so many servers, and judge what each leaves."""
    world, draw, problems = Served(folder), random.Random(seed), list[str]()
    await release(world)
    counts, seconds = collections.Counter[str](), 4.0
    for number in range(kills):
        moves = world.in_production()
        took = await killed(world, draw, seconds)
        seconds = seconds if took is None else (seconds + took) / 2
        moved = len(world.in_production()) - len(moves)
        counts["answered" if took is not None else "moved, not answered" if moved else "not moved"] += 1
        problems += world.problems(moves[-1])
        if moved not in {0, 1} or (took is not None and moved != 1):
            problems.append(f"{moved} moves in the ledger")
        async with server(world) as (client, _):
            status = await call(client, {"tool": "models", "arguments": {"project": PROJECT}})
        now = f"v{world.in_production()[-1]}"
        if status["production"] != now or str(world.link.readlink()) != now:
            problems.append(
                f"{status['production']} is shown, {world.link.readlink()} served, and the ledger has {now}"
            )
        problems += verify_workspace(world.path).problems if number % 10 == 9 else []
        print(f"{number + 1} kills of promotions, {len(problems)} problems", flush=True)
    return {"kills": kills, "problems": problems, "left": counts, "versions_served": sorted(set(world.in_production()))}


def main(kills: int, seed: int) -> None:
    """Measure and print."""
    began = time.monotonic()
    with tempfile.TemporaryDirectory() as name:
        figures = asyncio.run(kill_promotions(kills, Path(name), seed))
    print(json.dumps(figures | {"seconds": round(time.monotonic() - began)}))
    raise SystemExit(1 if figures["problems"] else 0)
