"""A run of a million points per series that goes on: last values, a diagnosis, and a curve, each after new steps."""

from __future__ import annotations

import shutil
import statistics
import time
from collections.abc import Callable
from pathlib import Path

from trainwright.tools.training_monitor import assess, diagnose
from trainwright.trainer.run import MetricStore, RunDirectory, RunState

SERIES = ("train/loss", "train/gradient_norm", "train/learning_rate")
CURVE_POINTS = 2_000
NEW_STEPS = 500
"""Steps that a small model makes between two readings."""
REPETITIONS = 9


def figures_of_a_long_run(source: Path, copy: Path) -> dict[str, float]:
    """Return medians in milliseconds, each reading after new steps; and those of the first reading in this process."""
    shutil.copytree(source, copy)
    run = RunDirectory(copy)
    run.write_status(run.last_status().model_copy(update={"state": RunState.RUNNING}))
    with run.lock(), run.metrics(writer=True) as writer:
        reader = run.metrics()
        return {
            "points_of_a_series": reader.count("train/loss"),
            **_timed("last", writer, lambda: [reader.last(key) for key in SERIES]),
            **_timed("latest_of_all", writer, reader.latest),
            **_timed("curve", writer, lambda: reader.buckets("train/loss", CURVE_POINTS)),
            **_timed("diagnose", writer, lambda: diagnose(run)),
            **_timed("assess", writer, lambda: assess(run)),
        }


def _timed(name: str, writer: MetricStore, read: Callable[[], object]) -> dict[str, float]:
    times = []
    for _ in range(REPETITIONS):
        _go_on(writer)
        began = time.perf_counter()
        read()
        times.append(1000 * (time.perf_counter() - began))
    return {f"{name}_ms": round(statistics.median(times[1:]), 2), f"{name}_first_ms": round(times[0], 1)}


def _go_on(writer: MetricStore) -> None:
    for key in SERIES:
        last = writer.last(key)
        if last is None:
            raise SystemExit(f"the long run recorded no {key}")
        now = time.time()
        writer.write((key, last.step + n, last.value * (1 + n % 7 / 100), now) for n in range(1, NEW_STEPS + 1))
