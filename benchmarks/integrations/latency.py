"""Times of the generated service beside the barest application and a bare loop, in turns, over one connection each."""

from __future__ import annotations

import http.client
import json
import os
import runpy
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
import onnxruntime
from programs import ROOT, run
from tests.data_servers import free_port

SECONDS = 60.0
FOUND = "import importlib.util as u; print([n for n in ('torch', 'trainwright') if u.find_spec(n)])"


@contextmanager
def process(command: list[str | Path], cwd: Path, port: int, path: str, **environment: str) -> Iterator[str]:
    """Run a server until it answers a GET, and yield its address."""
    given = {name: value for name, value in os.environ.items() if name != "PYTHONSAFEPATH"} | environment
    log = cwd / f"log-{port}.txt"
    with log.open("w") as file:
        server = subprocess.Popen(list(map(str, command)), cwd=cwd, env=given, stdout=file, stderr=file)
    try:
        ends = time.monotonic() + SECONDS
        while not _answers(port, path):
            if server.poll() is not None or time.monotonic() > ends:
                raise RuntimeError(f"{command[0]} does not answer: {log.read_text()[-2000:]}")
            time.sleep(0.05)
        yield f"http://127.0.0.1:{port}"
    finally:
        server.terminate()
        server.wait(SECONDS)


def _answers(port: int, path: str) -> bool:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=5)
    try:
        connection.request("GET", path)
        return connection.getresponse().status == 200
    except OSError:
        return False
    finally:
        connection.close()


@contextmanager
def service(python: Path, folder: Path, **settings: str) -> Iterator[str]:
    """Run a generated service by the interpreter of its own environment; it must have no torch and no Trainwright."""
    found = run(python, "-c", FOUND, cwd=folder)
    if found.strip() != "[]":
        raise RuntimeError(f"the lock file brought {found}")
    port = free_port()
    names = {f"SERVICE_{name.upper()}": value for name, value in settings.items()} | {"SERVICE_PORT": str(port)}
    with process([python, "app.py"], folder, port, "/ready", **names) as url:
        yield url


def caller(url: str, body: Any) -> Callable[[], Any]:
    """Return a function that sends one request over a connection that stays, and returns the answer."""
    connection = http.client.HTTPConnection(url.removeprefix("http://"))
    content = json.dumps(body).encode()

    def call() -> Any:
        connection.request("POST", "/predict", content, {"Content-Type": "application/json"})
        answer = connection.getresponse()
        read = answer.read()
        if answer.status != 200:
            raise RuntimeError(read[:300])
        return read

    return call


def figures(python: Path, folder: Path, row: dict[str, Any], rounds: int, calls: int) -> dict[str, Any]:
    """Return p50 and p99 in milliseconds of service, barest application and session call, and the ratios of the p50.

    Args:
        folder: of the service.
        row: that the service predicts.
        rounds, calls: how often each gets its turn, and requests of a turn.
    """
    program = folder / "model" / "model.onnx"
    inputs = _prepared(folder, row)
    port = free_port()
    bare_app = ROOT / "benchmarks" / "integrations" / "bare_app.py"
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    session = onnxruntime.InferenceSession(program, options, providers=["CPUExecutionProvider"])
    with (
        service(python, folder, rate="100000000/minute") as url,
        process([python, bare_app, program, str(port)], folder, port, "/openapi.json") as bare,
    ):
        contestants = {
            "service": caller(url, {"row": row}),
            "bare": caller(bare, {"input": inputs.tolist()}),
            "session": lambda: session.run(None, {"input": inputs}),
        }
        times: dict[str, list[list[float]]] = {name: [] for name in contestants}
        for turn in range(rounds + 1):
            for name, call in contestants.items():
                found = [_seconds(call) for _ in range(calls)]
                if turn:  # the first one warms up
                    times[name].append(found)
    answer: dict[str, Any] = {}
    for name, turns in times.items():
        every = np.array(turns).reshape(-1) * 1000.0
        answer[f"{name}_p50_ms"], answer[f"{name}_p99_ms"] = (
            round(float(np.percentile(every, p)), 4) for p in (50, 99)
        )
    pairs = zip(times["service"], times["bare"], times["session"], strict=True)
    halves = [tuple(median(one) for one in turn) for turn in pairs]
    answer["service_p50_ratio"] = round(median(ours / bare for ours, bare, _ in halves), 3)
    answer["session_p50_ratio"] = round(median(ours / alone for ours, _, alone in halves), 1)
    return answer


def _seconds(call: Callable[[], Any]) -> float:
    started = time.perf_counter()
    call()
    return time.perf_counter() - started


def _prepared(folder: Path, row: dict[str, Any]) -> Any:
    shipped = runpy.run_path(str(folder / "model" / "predict.py"))
    schema = json.loads((folder / "model" / "schema.json").read_text(encoding="utf-8"))
    return shipped["encode_rows"]([row], schema)
