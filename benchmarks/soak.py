"""Whether memory, open files or processes grow: over the epochs of one run, and over many runs of one server.

Then one server over HTTP with many clients of both eras and runs that are alive, for minutes: no call may fail. Then it
is killed at random moments under that load: every client must find its run again, and those that know tasks its task.

Prints a table and, as its last line, one JSON object. Sizes are resident memory in MiB, read from outside the process.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import random
import signal
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psutil
from mcp import Client, StdioServerParameters
from mcp.client.extension import advertise
from mcp.client.streamable_http import streamable_http_client
from mcp.shared._httpx_utils import create_mcp_http_client
from mcp.types import Request, Result
from pydantic import ConfigDict

from trainwright.server import cli
from trainwright.server.http.tokens import Tokens
from trainwright.server.tasks import TASKS
from trainwright.trainer import worker
from trainwright.trainer.config import config_digest, parse_config
from trainwright.trainer.run import RunDirectory, RunKind, RunSpecification, RunState
from trainwright.trainer.run.environment import launch_environment

WARM_UP = 0.2
"""Share of the samples before the first one that counts: caches fill, lazy imports happen."""
RUNS_PER_PROJECT = 20
"""A decision reads its project's history, so the server needs more for a long one: that is no leak."""
TINY: dict[str, Any] = {
    "model": {"use": "mlp", "args": {"hidden": [8]}},
    "data": {"use": "iris"},
    "metrics": ["accuracy"],
    "loader": {"batch_size": 64},
}


CODE = (
    "import time\nfrom torch import nn\n\n\nclass Net(nn.Linear):\n    def forward(self, x):\n"
    "        time.sleep(0.5)\n        return super().forward(x)\n\n\ndef net():\n    return Net(4, 3)\n"
)
"""A model that lets the processor rest, so that many runs live side by side on a few cores."""
ENDLESS: dict[str, Any] = {
    "model": {"use": "slow.py:net"},
    "training": {"epochs": 10**6, "validate_every_n_epochs": 1000},
    "early_stopping": {"enabled": False},
    "checkpoints": {"checkpoint_every_n_epochs": 10**6},
    "logging": {"every_n_steps": 10, "tensorboard": False},
}
TOKENS = 10
"""That the clients share: each has 64 requests open at most, and 50 a second."""
WAIT_SECONDS = 2.0
PAUSE_SECONDS = 1.0
"""Between the rounds of a client: the longest, at random."""
AFTER_KILL_SECONDS = 90.0
"""In which a client must have found its run: 50 of them connect at once."""
LIVING = {"created", "starting", "running", "completed"}


@dataclass
class Sample:
    """A look at a process from outside."""

    memory_mib: float
    files: int
    children: int


def look(process: psutil.Process) -> Sample:
    """Return what the process holds now."""
    return Sample(process.memory_info().rss / 2**20, process.num_fds(), len(process.children(recursive=True)))


def growth(samples: list[Sample]) -> dict[str, float]:
    """Return what changed from after the warm-up to the end, as medians of a tenth each: files come and go."""
    steady = samples[int(len(samples) * WARM_UP) :]
    width = max(len(steady) // 10, 1)
    first, last = _typical(steady[:width]), _typical(steady[-width:])
    return {
        "memory_mib": round(last.memory_mib, 1),
        "memory_growth_mib": round(last.memory_mib - first.memory_mib, 1),
        "open_files_growth": last.files - first.files,
        "processes_growth": last.children - first.children,
    }


def _typical(samples: list[Sample]) -> Sample:
    memory = statistics.median(sample.memory_mib for sample in samples)
    files, children = (
        statistics.median_low(values) for values in zip(*((s.files, s.children) for s in samples), strict=True)
    )
    return Sample(memory, files, children)


def over_epochs(epochs: int, folder: Path) -> dict[str, float]:
    """Train one tiny model for so many epochs, a checkpoint after each, and watch its worker."""
    config = parse_config({**TINY, "training": {"epochs": epochs}, "early_stopping": {"enabled": False}})
    specification = RunSpecification(
        run_id="soak", project="soak", kind=RunKind.BASELINE, config=config,
        config_digest=config_digest(config), code_root=str(folder),
    )  # fmt: skip
    run = RunDirectory.create(folder / "soak", specification)
    environment = {**os.environ, **launch_environment(config)}
    training = subprocess.Popen([sys.executable, "-P", "-m", worker.__name__, str(run.path)], env=environment)
    samples, process, began = [], psutil.Process(training.pid), time.monotonic()
    while training.poll() is None:
        if run.last_status().epoch and (sample := look(process)).memory_mib:  # none is left of one that has just ended
            samples.append(sample)
        time.sleep(0.25)
    if run.status().state is not RunState.COMPLETED:
        raise SystemExit(f"The run ended as {run.status().state}: {run.status().failure}")
    return {"epochs": epochs, "seconds": round(time.monotonic() - began, 1), **growth(samples)}


async def over_runs(runs: int, folder: Path) -> dict[str, float]:
    """Let one server start so many runs, follow each to its end, and watch the server."""
    arguments = ["-P", "-m", cli.__name__, "serve", "--workspace", str(folder / "workspace")]
    began, samples = time.monotonic(), []
    async with Client(StdioServerParameters(command=sys.executable, args=arguments)) as client:
        server = next(p for p in psutil.Process().children() if "serve" in p.cmdline())
        goal = {"metric": "accuracy", "direction": "maximize", "target": 0.9}
        for number in range(runs):
            project = f"soak-{number // RUNS_PER_PROJECT}"
            if number % RUNS_PER_PROJECT == 0:
                await _call(client, "create_project", name=project, intent="soak", goal=goal, config=TINY)
            view = await _call(client, "start_training", project=project, kind="smoke")
            while view["state"] in {"created", "starting", "running"}:
                view = await _call(client, "run_status", run_id=view["run_id"], wait_seconds=50)
            if view["state"] != "completed":
                raise SystemExit(f"A run ended as {view['state']}: {view.get('failure')}")
            samples.append(look(server))
    return {"runs": runs, "seconds": round(time.monotonic() - began, 1), **growth(samples)}


# Many clients over HTTP.


class About(Request[dict[str, Any], str]):
    """A request about a task."""

    name_param = "taskId"


class Answered(Result):
    """Whatever is answered."""

    model_config = ConfigDict(extra="allow")


class Served:
    """A server over HTTP on one port, begun anew when it was killed."""

    def __init__(self, workspace: Path) -> None:
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.port = free.getsockname()[1]
        self.address, self.log = f"http://127.0.0.1:{self.port}/mcp", workspace.parent / "server.log"
        arguments = ["serve", "--http", "--port", str(self.port), "--workspace", str(workspace)]
        self._command = [sys.executable, "-P", "-m", cli.__name__, *arguments]
        self.tokens = [Tokens(workspace).new(f"soak-{number}", "operate") for number in range(TOKENS)]

    async def begin(self) -> None:
        """Start it, and return when it takes connections."""
        with self.log.open("a") as log:
            self.process = subprocess.Popen(self._command, stdout=log, stderr=log, start_new_session=True)
        for _ in range(600):
            with suppress(OSError):
                socket.create_connection(("127.0.0.1", self.port), 1).close()
                return
            await asyncio.sleep(0.1)
        raise SystemExit(f"The server does not begin: {self.log.read_text()[-2000:]}")

    def kill(self) -> None:
        """Kill it; its runs go on."""
        self.process.send_signal(signal.SIGKILL)
        self.process.wait()


@dataclass
class Tally:
    """What the clients met."""

    seconds: list[float] = field(default_factory=list)
    """Of each call that asks for no wait."""
    errors: list[str] = field(default_factory=list)
    found: list[float] = field(default_factory=list)
    """Seconds from a kill until a client had found its run, and its task."""
    kills: int = 0


class Visitor:
    """One client: every second one is of an older era; the others know tasks."""

    def __init__(self, number: int, served: Served, run: str, tally: Tally) -> None:
        self.number, self.served, self.run, self.tally = number, served, run, tally
        self.mode = "legacy" if number % 2 else "auto"

    @asynccontextmanager
    async def connected(self) -> AsyncIterator[Client]:
        """Connect."""
        header = {"Authorization": f"Bearer {self.served.tokens[self.number % TOKENS]}"}
        knows = [] if self.mode == "legacy" else [advertise(TASKS)]
        async with (
            create_mcp_http_client(header) as http,
            Client(
                streamable_http_client(self.served.address, http_client=http), mode=self.mode, extensions=knows
            ) as one,
        ):
            yield one

    async def look(self, client: Client) -> None:
        """Look at the own run, its task and what else an agent looks at; what is wrong raises."""
        project = self.run.partition("/")[0]
        view = await self._timed(_call(client, "run_status", run_id=self.run))
        if view["run_id"] != self.run or view["state"] not in LIVING:
            raise ValueError(f"{self.run} is {view['run_id']}, {view['state']}")
        if self.mode != "legacy":
            request = About(method="tasks/get", params={"taskId": self.run})
            task = (await self._timed(client.session.send_request(request, Answered))).model_dump(by_alias=True)
            if task["status"] not in {"working", "completed"}:
                raise ValueError(f"the task {self.run} is {task}")
        await self._timed(_call(client, "project_status", project=project))
        await self._timed(client.read_resource(f"trainwright://projects/{project}/status"))

    async def _timed(self, call: Any) -> Any:
        began = time.monotonic()
        answer = await call
        self.tally.seconds.append(time.monotonic() - began)
        return answer

    async def stay(self, until: float) -> None:
        """Look again and again over one connection; any failure is one."""
        try:
            async with self.connected() as client:
                while time.monotonic() < until:
                    await self.look(client)
                    await _call(client, "run_status", run_id=self.run, wait_seconds=WAIT_SECONDS)
                    await asyncio.sleep(random.uniform(0, PAUSE_SECONDS))
        except Exception as error:  # noqa: BLE001 - groups of groups
            self.tally.errors.append(f"client {self.number} ({self.mode}): {_innermost(error)}")

    async def find_again(self, since: float) -> None:
        """Connect until the own run is found."""
        error: BaseException | None = None
        while time.monotonic() < since + AFTER_KILL_SECONDS:
            try:
                async with self.connected() as client:
                    await self.look(client)
                self.tally.found.append(time.monotonic() - since)
                return
            except Exception as caught:  # noqa: BLE001 - whatever it is, it tries again
                error = caught
                await asyncio.sleep(0.2)
        self.tally.errors.append(f"client {self.number} ({self.mode}) after a kill: {_innermost(error)}")


def _innermost(error: BaseException | None) -> str:
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return f"{type(error).__name__}: {str(error)[:300]}"


async def over_clients(clients: int, runs: int, minutes: float, kills: int, folder: Path) -> dict[str, Any]:
    """Let so many clients look at so many living runs for a time, then kill the server so often among them."""
    workspace = folder / "many" / "workspace"
    workspace.mkdir(parents=True)
    (workspace.parent / "slow.py").write_text(CODE)
    (workspace / "settings.yaml").write_text(f"code_roots: [..]\nworkspace_limits: {{runs_at_once: {runs}}}\n")
    served, tally = Served(workspace), Tally()
    await served.begin()
    try:
        names = await _long_runs(served, runs)
        visitors = [Visitor(number, served, names[number % runs], tally) for number in range(clients)]
        samples: list[Sample] = []
        until = time.monotonic() + 60 * minutes
        watching = asyncio.create_task(_watch(psutil.Process(served.process.pid), samples))
        await asyncio.gather(*(visitor.stay(until) for visitor in visitors))
        watching.cancel()
        calm, tally.seconds = sorted(tally.seconds), []
        for _ in range(kills):
            await _kill_under_load(served, visitors, tally)
        states = await _stopped(served, names)
    finally:
        served.kill()
    found = {"calls": len(calm), "median_ms": _at(calm, 0.5), "p99_ms": _at(calm, 0.99), "kills": tally.kills}
    found |= {"found_again": len(tally.found), "found_after_s": round(_at(sorted(tally.found), 0.99) / 1000, 1)}
    return {"clients": clients, "runs": runs, **found, **growth(samples), "runs_ended_otherwise": states,
            "errors": tally.errors}  # fmt: skip


async def _watch(process: psutil.Process, samples: list[Sample]) -> None:
    while True:
        samples.append(look(process))
        await asyncio.sleep(1)


def _at(values: list[float], share: float) -> float:
    """Return a quantile in milliseconds."""
    return round(1000 * values[min(int(share * len(values)), len(values) - 1)], 1) if values else 0.0


async def _long_runs(served: Served, runs: int) -> list[str]:
    """Start runs that go on until they are stopped, one a project; return their names."""
    names = []
    goal = {"metric": "accuracy", "direction": "maximize", "target": 0.9}
    async with _plain(served) as client:
        for number in range(runs):
            project = f"many-{number}"
            await _call(client, "create_project", name=project, intent="soak", goal=goal, config=TINY | ENDLESS)
            view = await _call(client, "start_training", project=project, kind="smoke", max_steps=10**8)
            names.append(view["run_id"])
    return names


@asynccontextmanager
async def _plain(served: Served) -> AsyncIterator[Client]:
    """Connect a client to which starts are answered with runs."""
    async with (
        create_mcp_http_client({"Authorization": f"Bearer {served.tokens[0]}"}) as http,
        Client(streamable_http_client(served.address, http_client=http)) as client,
    ):
        yield client


async def _kill_under_load(served: Served, visitors: list[Visitor], tally: Tally) -> None:
    """Kill the server while all clients are at work, begin it anew, and let each find its run."""
    heard, tally.errors = tally.errors, []
    at_work = [asyncio.create_task(visitor.stay(time.monotonic() + 3600)) for visitor in visitors]
    await asyncio.sleep(random.uniform(0.5, 4))
    served.kill()
    since = time.monotonic()
    tally.kills += 1
    await served.begin()
    for task in at_work:
        task.cancel()
    await asyncio.gather(*at_work, return_exceptions=True)
    tally.errors = heard  # those of connections that the kill broke are none
    await asyncio.gather(*(visitor.find_again(since) for visitor in visitors))


async def _stopped(served: Served, names: list[str]) -> list[str]:
    """Stop all runs; return those that had ended in another way."""
    found = []
    async with _plain(served) as client:
        for name in names:
            view = await _call(client, "run_status", run_id=name)
            if view["state"] in {"starting", "running"}:
                await _call(client, "stop_training", project=name.partition("/")[0], run_id=name)
            else:
                found.append(f"{name}: {view['state']}")
    return found


async def _call(client: Client, tool: str, **arguments: Any) -> dict[str, Any]:
    result = await client.call_tool(tool, arguments)
    if result.is_error or result.structured_content is None:
        raise RuntimeError(f"{tool}: {result.content}")
    return result.structured_content


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--epochs", type=int, default=2000)
    parser.add_argument("--runs", type=int, default=200)
    parser.add_argument("--clients", type=int, default=50)
    parser.add_argument("--alive", type=int, default=20, help="Runs that the clients look at.")
    parser.add_argument("--minutes", type=float, default=10)
    parser.add_argument("--kills", type=int, default=100)
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        training = over_epochs(asked.epochs, Path(name)) if asked.epochs else {}
        server = asyncio.run(over_runs(asked.runs, Path(name))) if asked.runs else {}
        many = over_clients(asked.clients, asked.alive, asked.minutes, asked.kills, Path(name))
        http = asyncio.run(many) if asked.clients else {}
    for title, figures in (("one run's worker", training), ("one server", server), ("many clients", http)):
        print(f"{title:18} " + "  ".join(f"{key} {value}" for key, value in figures.items()))
    print(json.dumps({"worker": training, "server": server, "clients": http}))
    raise SystemExit(bool(http.get("errors") or http.get("runs_ended_otherwise")))


if __name__ == "__main__":
    main()
