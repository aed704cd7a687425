"""`run_status` of a workspace with many runs over stdio: by the SDK's client, and by bare lines of JSON.

What a client sees is the server's work and its own. The second client writes and reads lines and no more, so that its
figure is nearly the server's alone; the processor time of both processes stands beside.
"""

from __future__ import annotations

import json
import random
import subprocess
import time
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import psutil
from calls import server_on, structured
from mcp import Client

SETTLED_SECONDS = 2.5
"""What was written a moment ago is read anew each time."""
MOST = 300
"""Runs that are asked for, drawn from all."""
BARE_CALLS = 200


async def status_figures(workspace: Path, rounds: int) -> dict[str, float]:
    """Return the figures in milliseconds: the first time that each run is asked for, and again."""
    time.sleep(SETTLED_SECONDS)
    every = sorted(path.name for path in workspace.glob("projects/*/runs/*") if path.is_dir())
    runs = random.Random(0).sample(every, min(MOST, len(every)))
    async with Client(server_on(workspace)) as client:
        first = [await _status(client, run) for run in runs]
        spent, began = _processor_of(_server()), time.process_time()
        again = [await _status(client, run) for _ in range(rounds) for run in runs]
        own, servers = time.process_time() - began, _processor_of(_server()) - spent
        bare = [await _listing(client) for _ in range(BARE_CALLS)]
    return {
        "runs_in_workspace": len(every),
        "status_first_p50_ms": _at(first, 50),
        "status_p50_ms": _at(again, 50),
        "status_p99_ms": _at(again, 99),
        "status_server_processor_ms": round(1000 * servers / len(again), 2),
        "status_client_processor_ms": round(1000 * own / len(again), 2),
        "bare_call_p50_ms": _at(bare, 50),
        **line_figures(workspace, runs, rounds),
    }


def line_figures(workspace: Path, runs: Sequence[str], rounds: int) -> dict[str, float]:
    """Return the same by bare lines of JSON."""
    with Lines(workspace) as lines:
        for run in runs:
            lines.call("run_status", run_id=run)
        spent = _processor_of(lines.process)
        again = [lines.call("run_status", run_id=run) for _ in range(rounds) for run in runs]
        servers = _processor_of(lines.process) - spent
        bare = [lines.call("read_document", path="diagnostics/nan_loss.md") for _ in range(BARE_CALLS)]
    return {
        "lines_status_p50_ms": _at(again, 50),
        "lines_status_p99_ms": _at(again, 99),
        "lines_status_server_processor_ms": round(1000 * servers / len(again), 2),
        "lines_bare_call_p50_ms": _at(bare, 50),
    }


class Lines:
    """A client that does nothing with an answer but look whether it is one."""

    def __init__(self, workspace: Path) -> None:
        server = server_on(workspace)
        self._server = subprocess.Popen([server.command, *server.args], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        self.process = psutil.Process(self._server.pid)
        self._number = 0

    def __enter__(self) -> Self:
        information = {"name": "lines", "version": "1"}
        self._ask("initialize", protocolVersion="2025-06-18", capabilities={}, clientInfo=information)
        self._write({"jsonrpc": "2.0", "method": "notifications/initialized"})
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        with self._server:
            assert self._server.stdin is not None  # noqa: S101 - asked for above
            self._server.stdin.close()

    def call(self, tool: str, **arguments: Any) -> float:
        """Return the milliseconds from a call to its whole answer. Raises SystemExit where it was refused."""
        took, answer = self._ask("tools/call", name=tool, arguments=arguments)
        if "error" in answer or answer["result"].get("isError"):
            raise SystemExit(f"{tool}: {answer}")
        return took

    def _ask(self, method: str, **parameters: Any) -> tuple[float, dict[str, Any]]:
        self._number += 1
        began = time.perf_counter()
        self._write({"jsonrpc": "2.0", "id": self._number, "method": method, "params": parameters})
        while True:
            answer: dict[str, Any] = json.loads(self._read())
            if answer.get("id") == self._number:
                return 1000 * (time.perf_counter() - began), answer

    def _write(self, message: dict[str, Any]) -> None:
        assert self._server.stdin is not None  # noqa: S101 - asked for above
        self._server.stdin.write(json.dumps(message).encode() + b"\n")
        self._server.stdin.flush()

    def _read(self) -> bytes:
        assert self._server.stdout is not None  # noqa: S101 - asked for above
        if line := self._server.stdout.readline():
            return line
        raise SystemExit("the server has ended")


def _server() -> psutil.Process:
    """Return the server that the SDK's client has started."""
    (found,) = (each for each in psutil.Process().children() if "serve" in each.cmdline())
    return found


def _processor_of(process: psutil.Process) -> float:
    times = process.cpu_times()
    return float(times.user + times.system)


def _at(times: Sequence[float], percent: int) -> float:
    """Return the time that so many percent of all do not exceed."""
    return round(sorted(times)[len(times) * percent // 100], 2)


async def _status(client: Client, run: str) -> float:
    began = time.perf_counter()
    await structured(client, "run_status", {"run_id": run})
    return 1000 * (time.perf_counter() - began)


async def _listing(client: Client) -> float:
    """Time a call that reads one small file: what the protocol itself takes, for comparison."""
    began = time.perf_counter()
    await client.call_tool("read_document", {"path": "diagnostics/nan_loss.md"})
    return 1000 * (time.perf_counter() - began)
