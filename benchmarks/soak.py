"""Whether memory, open files or processes grow: over the epochs of one run, and over many runs of one server.

Prints a table and, as its last line, one JSON object. Sizes are resident memory in MiB, read from outside the process.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil
from mcp import Client, StdioServerParameters

from trainwright.server import cli
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


async def _call(client: Client, tool: str, **arguments: Any) -> dict[str, Any]:
    result = await client.call_tool(tool, arguments)
    if result.is_error or result.structured_content is None:
        raise SystemExit(f"{tool}: {result.content}")
    return result.structured_content


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--epochs", type=int, default=2000)
    parser.add_argument("--runs", type=int, default=200)
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        training = over_epochs(asked.epochs, Path(name))
        server = asyncio.run(over_runs(asked.runs, Path(name))) if asked.runs else {}
    for title, figures in (("one run's worker", training), ("one server", server)):
        print(f"{title:18} " + "  ".join(f"{key} {value}" for key, value in figures.items()))
    print(json.dumps({"worker": training, "server": server}))


if __name__ == "__main__":
    main()
