"""The server killed with SIGKILL at random moments of gate decisions: never half a decision.

One project goes through its gates again and again, two configurations taking turns, each with its own finished runs,
so that every decision replaces artifacts of an earlier one. A real server is told over stdio to pass a gate (or to
diagnose, which a gate rests on) and killed. What it leaves must be no decision or a whole one: row, ledger entry,
artifacts with their digests, nothing that `verify` names; and the next server must go on from there.

Prints a table and, as its last line, one JSON object.
"""

from __future__ import annotations

import argparse
import asyncio
import collections
import itertools
import json
import os
import random
import signal
import sqlite3
import sys
import tempfile
import threading
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psutil
from mcp import Client, StdioServerParameters
from mcp.shared.exceptions import MCPError

from trainwright.server import cli
from trainwright.tools.verification import verify_workspace
from trainwright.trainer.base.canonical import digest_file

PROJECT = "killed"
CONFIG: dict[str, Any] = {
    "model": {"use": "mlp", "args": {"hidden": [16]}},
    "data": {"use": "digits"},
    "optimizer": {"learning_rate": 0.0005},
    "training": {"epochs": 6},
    "logging": {"tensorboard": False},
    "search": {
        "trials": 2,
        "method": "random",
        "space": {"optimizer.learning_rate": {"type": "categorical", "choices": [0.01, 0.02]}},
    },
}
GOAL = {"metric": "accuracy", "direction": "maximize", "target": 0.999}
"""Out of reach, so that no optimization is skipped: each rests on a search of its own, confirmed on repeated seeds."""
RATES = (0.0005, 0.0006)
DECIDING = ("pass_gate", "diagnose_run")
DRAFTS = ".drafts"

Call = dict[str, Any]
Seconds = dict[str, float]


@dataclass
class Tally:
    """What the kills came to."""

    gates: collections.Counter[str] = field(default_factory=collections.Counter)
    """Kills by the phase whose gate was asked for, and of diagnoses."""
    moments: collections.Counter[str] = field(default_factory=collections.Counter)
    """Kills by what the server had left on the disk."""
    problems: list[str] = field(default_factory=list)

    @property
    def kills(self) -> int:
        """Kills during gate decisions; those of diagnoses come on top."""
        return sum(number for name, number in self.gates.items() if name != "diagnose_run")


class World:
    """The workspace, as someone sees it who reads its database and its files, and no server."""

    def __init__(self, folder: Path) -> None:
        self.path = folder / "workspace"
        self.project = self.path / "projects" / PROJECT

    def entries(self) -> list[tuple[int, str, dict[str, Any]]]:
        """Return the ledger's gate and diagnosis entries: (sequence, kind, body)."""
        query = "SELECT sequence, kind, body FROM ledger WHERE kind IN ('gate', 'diagnosis') ORDER BY sequence"
        return [(number, kind, json.loads(body)) for number, kind, body in self._read(query)]

    def artifact_problems(self) -> list[str]:
        """Return the artifacts that are not as the newest accepted entry of each phase names them."""
        newest = {
            body.get("phase", "diagnostics"): body["artifacts"] for _, _, body in self.entries() if body["artifacts"]
        }
        named = {name: digest for artifacts in newest.values() for name, digest in artifacts.items()}
        paths = {name: self.project / name for name in named}
        return [name for name, path in paths.items() if not path.is_file() or digest_file(path) != named[name]]

    def _read(self, query: str) -> list[tuple[Any, ...]]:
        connection = sqlite3.connect(self.path / "workspace.sqlite")
        try:
            return connection.execute(query).fetchall()
        finally:
            connection.close()


@asynccontextmanager
async def server(world: World) -> AsyncIterator[tuple[Client, psutil.Process]]:
    """Start a server as an agent's client does, and give the client and the server's process."""
    arguments = ["-P", "-m", cli.__name__, "serve", "--workspace", str(world.path)]
    before = set(psutil.Process().children())
    parameters = StdioServerParameters(command=sys.executable, args=arguments, env=dict(os.environ))
    async with Client(parameters) as client:
        [process] = set(psutil.Process().children()) - before
        yield client, process


def configured(changes: dict[str, Any]) -> Call:
    """Return the call that changes the configuration; a project that is finished begins its next release."""
    return {"tool": "configure", "arguments": {"project": PROJECT, "changes": changes, "begin_release": True}}


async def call(client: Client, asked: Call) -> dict[str, Any]:
    """Call a tool that must succeed, and return its answer."""
    result = await client.call_tool(asked["tool"], asked["arguments"])
    if result.is_error or result.structured_content is None:
        raise RuntimeError(f"{asked}: {result.content}")
    return dict(result.structured_content)


async def next_decision(client: Client, rates: Iterator[float]) -> Call:
    """Follow the server's own `next` up to a deciding call, and return it.

    A finished project is given the other configuration, which re-opens its gates.
    """
    while True:
        status = await call(client, {"tool": "project_status", "arguments": {"project": PROJECT}})
        asked = status.get("next")
        if asked is None:
            changes = {"optimizer.learning_rate": next(rates)}
            asked = configured(changes)
        if asked["tool"] in DECIDING:
            return asked
        await call(client, asked)


async def prepare(world: World) -> Seconds:
    """Take both configurations through all gates, so that all runs exist; return the seconds of each decision."""
    seconds: Seconds = {}
    async with server(world) as (client, _):
        arguments = {"name": PROJECT, "intent": "", "goal": GOAL, "config": CONFIG}
        await call(client, {"tool": "create_project", "arguments": arguments})
        for rate in (*RATES, RATES[0]):
            changes = {"optimizer.learning_rate": rate}
            answer = await call(client, configured(changes))
            while answer.get("next") is not None:
                began = time.monotonic()
                asked = answer["next"]
                answer = await call(client, asked)
                seconds[name_of(asked)] = time.monotonic() - began
    return seconds


def name_of(asked: Call) -> str:
    """Return the phase of a gate that is asked for, or the tool."""
    return str(asked["arguments"].get("phase", asked["tool"])) if asked["tool"] == "pass_gate" else str(asked["tool"])


def kill_at(process: psutil.Process, world: World, draw: random.Random, seconds: float) -> threading.Thread:
    """Kill the server at a random moment: of the whole decision, or right after its drafts or its commit appear."""
    log = world.path / "workspace.sqlite-wal"
    drafts = world.project / DRAFTS
    mark = log.stat().st_mtime_ns if log.exists() else 0
    kind = draw.choice(("any", "any", "drafts", "commit"))
    delay = draw.uniform(0, 1.1 * seconds) if kind == "any" else draw.choice((0.0, draw.uniform(0, 0.05)))

    def wait_and_kill() -> None:
        deadline = time.monotonic() + 2 * seconds + 1
        while kind != "any" and time.monotonic() < deadline:
            if drafts.exists() if kind == "drafts" else log.exists() and log.stat().st_mtime_ns != mark:
                break
        time.sleep(delay)
        process.send_signal(signal.SIGKILL)

    thread = threading.Thread(target=wait_and_kill)
    thread.start()
    return thread


async def decide_and_kill(
    client: Client, process: psutil.Process, world: World, asked: Call, *, draw: random.Random, seconds: Seconds
) -> bool:
    """Make the deciding call and kill the server meanwhile; return whether its answer came before its end.

    How long such a call takes is learnt from those that were answered.
    """
    began = time.monotonic()

    async def ask() -> bool:
        result = await client.call_tool(asked["tool"], asked["arguments"])
        seconds[name_of(asked)] = (seconds[name_of(asked)] + time.monotonic() - began) / 2
        return not result.is_error

    answer = asyncio.ensure_future(ask())
    thread = kill_at(process, world, draw, seconds[name_of(asked)])
    await asyncio.to_thread(thread.join)
    while psutil.pid_exists(process.pid):  # until the client, whose child it is, has taken note
        await asyncio.sleep(0.005)
    with suppress(MCPError, TimeoutError):
        return await asyncio.wait_for(answer, 5)
    return False


def look(world: World, asked: Call, before: int, tally: Tally, *, answered: bool) -> bool:
    """Judge what the killed server left in the database; return whether it holds the decision."""
    new = [(kind, body) for number, kind, body in world.entries() if number > before]
    wanted = "gate" if asked["tool"] == "pass_gate" else "diagnosis"
    phase = asked["arguments"].get("phase")
    if len(new) > 1 or any(kind != wanted or body.get("phase") != phase for kind, body in new):
        tally.problems.append(f"{name_of(asked)}: {len(new)} new entries")
    if any(body.get("outcome") == "refused" for _, body in new):
        tally.problems.append(f"{name_of(asked)}: refused though `next` named it")
    if answered and not new:
        tally.problems.append(f"{name_of(asked)}: answered, and not recorded")
    drafted = (world.project / DRAFTS).exists()
    moment = ("recorded, not published" if drafted else "published") if new else "drafted" if drafted else "no trace"
    tally.gates[name_of(asked)] += 1
    tally.moments[f"{moment}{', answered' if answered else ''}"] += 1
    return bool(new)


async def check(client: Client, world: World, asked: Call, tally: Tally, *, decided: bool) -> None:
    """Judge what a new server shows of it, and what verify names."""
    status = await call(client, {"tool": "project_status", "arguments": {"project": PROJECT, "detail": "full"}})
    problems = [f"artifact {name} is not as recorded" for name in world.artifact_problems()]
    if asked["tool"] == "pass_gate":
        shown = status["gates"][asked["arguments"]["phase"]]
        if decided != (shown in {"passed", "skipped"}):
            problems.append(f"decided: {decided}, and the server shows {shown}")
    if (world.project / DRAFTS).exists():
        problems.append("drafts are left")
    problems += verify_workspace(world.path).problems
    tally.problems += [f"{name_of(asked)}: {problem}" for problem in problems]


async def kill_gates(kills: int, folder: Path, seed: int = 0) -> Tally:
    """Kill servers until so many gate decisions were hit, and judge every one."""
    world, tally, draw = World(folder), Tally(), random.Random(seed)
    seconds = await prepare(world)
    last: tuple[Call, bool] | None = None
    rates = itertools.cycle(RATES)
    while tally.kills < kills or last is not None:
        if last is not None and draw.random() < 0.3:  # verify alone finishes what was recorded, too
            tally.problems += [f"{name_of(last[0])}: {text}" for text in verify_workspace(world.path).problems]
        async with server(world) as (client, process):
            if last is not None:
                await check(client, world, last[0], tally, decided=last[1])
                last = None
            if tally.kills >= kills:
                break
            asked = await next_decision(client, rates)
            before = max(number for number, _, _ in world.entries())
            answered = await decide_and_kill(client, process, world, asked, draw=draw, seconds=seconds)
            last = (asked, look(world, asked, before, tally, answered=answered))
        print(f"{tally.kills} kills of gate decisions, {len(tally.problems)} problems", flush=True)
    return tally


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kills", type=int, default=200)
    parser.add_argument("--seed", type=int, default=0)
    asked = parser.parse_args()
    began = time.monotonic()
    with tempfile.TemporaryDirectory() as name:
        tally = asyncio.run(kill_gates(asked.kills, Path(name), asked.seed))
    for title, counts in (("killed during", tally.gates), ("left on the disk", tally.moments)):
        print(f"\n{title}")
        for what, number in counts.most_common():
            print(f"  {what:<32} {number:>5}")
    for problem in tally.problems:
        print(f"  PROBLEM {problem}")
    figures = {
        "kills": tally.kills,
        "half_decisions": len(tally.problems),
        "killed_during": tally.gates,
        "left_on_disk": tally.moments,
        "seconds": round(time.monotonic() - began),
    }
    print(json.dumps(figures))
    raise SystemExit(1 if tally.problems else 0)


if __name__ == "__main__":
    main()
