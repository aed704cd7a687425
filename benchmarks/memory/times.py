"""Seconds: the interval before anything ran, and the figure after a probe of 20 steps, against steps that follow.

One process traces a configuration and counts its work; this processor's speeds are measured before it. Another runs the
engine: the probe's own measurement of 20 steps, then some hundred plain ones, whose mean is the truth. All with one
thread. On a machine with other work the processor's seconds say what the method errs, and the clock's what a user sees.
"""

from __future__ import annotations

import statistics
import tempfile
import time
from pathlib import Path
from typing import Any

from pairs import Pair, write_data
from runs import in_forks

from trainwright.trainer.assembly.assemble import assemble
from trainwright.trainer.config import parse_config
from trainwright.trainer.engine.loop import take_step
from trainwright.trainer.engine.observers.recorder import Recorder
from trainwright.trainer.estimation.duration import after_probe, estimate_time
from trainwright.trainer.estimation.memory import estimate
from trainwright.trainer.estimation.processor import this_machine
from trainwright.trainer.jobs.probe.rates import WARMUP_STEPS, endless, profile
from trainwright.trainer.jobs.probe.run import Trackers
from trainwright.trainer.reproducibility import determinism
from trainwright.trainer.run import RunDirectory, RunKind, RunSpecification
from trainwright.trainer.supervision.sampling import SystemSampler
from trainwright.trainer.supervision.stop import StopRequest

PROBE_STEPS = 20
MIN_STEPS, MAX_STEPS, SECONDS = 60, 200, 10.0
"""Of the steps after the probe."""
GOAL_PERCENT = 5.0
TIMED = (
    "gpt2 3 M / full fp32, AdamW", "gpt2 3 M / LoRA", "llama 3 M / full fp32, AdamW", "llama 3 M / recomputed",
    "llama 3 M, 1024 tokens / full fp32, AdamW", "gpt built in / full fp32, AdamW", "bert 4 M / full fp32, AdamW",
    "bert 4 M / SGD, momentum", "distilbert 7 M / full fp32, AdamW", "bert 3 M, words / full fp32, AdamW",
    "t5 2 M, sentences / full fp32, AdamW", "resnet-20 w64 / SGD, momentum", "cnn / full fp32, AdamW",
    "mlp 9 M / full fp32, AdamW", "ft-transformer / full fp32, AdamW",
)  # fmt: skip


def compare_times(pairs: list[Pair]) -> dict[str, Any]:
    """Print a row for each pair; return how many intervals held the truth, and the probes' errors."""
    print("| model / strategy | interval ms | measured ms | after the probe ms | error %, clock | error %, processor |")
    print("|---|---|---|---|---|---|")
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        write_data(folder)
        rows = [row for pair in pairs if pair.name in TIMED and (row := _row(pair, folder)) is not None]
    clock, processor = ([abs(row[name]) for row in rows] for name in ("clock", "processor"))
    return {
        "runs": len(rows),
        "interval_held": sum(row["held"] for row in rows),
        "interval_times": round(statistics.median([row["width"] for row in rows]), 1) if rows else None,
        "probe_within_5_percent": sum(error <= GOAL_PERCENT for error in clock),
        "probe_within_5_percent_processor": sum(error <= GOAL_PERCENT for error in processor),
        "probe_worst_percent": round(max(clock, default=0.0), 1),
        "probe_worst_percent_processor": round(max(processor, default=0.0), 1),
    }


def _row(pair: Pair, folder: Path) -> dict[str, float] | None:
    counted = in_forks(lambda _: _counted(pair.config, folder))
    true = in_forks(lambda _: _run(pair.config, folder))
    if counted is None or true is None:
        print(f"| {pair.name} | failed | | | | |", flush=True)
        return None
    low, high = counted["low"], counted["high"]
    errors = {name: 100 * (true[f"{name}_probe"] / true[f"{name}_mean"] - 1) for name in ("clock", "processor")}
    print(
        f"| {pair.name} | {1e3 * low:.1f} to {1e3 * high:.1f} | {1e3 * true['clock_mean']:.1f} | "
        f"{1e3 * true['clock_probe']:.1f} | {errors['clock']:+.1f} | {errors['processor']:+.1f} |",
        flush=True,
    )
    return {**errors, "held": low <= true["clock_mean"] <= high, "width": high / low}


def _counted(config: dict[str, Any], folder: Path) -> dict[str, Any]:
    machine = this_machine()
    with tempfile.TemporaryDirectory() as own:
        parsed = parse_config(config)
        work = estimate(parsed, folder, Path(own)).work
    found = estimate_time(work, machine, precision=parsed.training.precision)
    return {"low": found.step_seconds_low, "high": found.step_seconds_high}


def _run(config: dict[str, Any], folder: Path) -> dict[str, Any]:
    parsed = parse_config(config)
    determinism.apply_settings(parsed.reproducibility)
    specification = RunSpecification(
        run_id="timed", project="bench", kind=RunKind.PROBE, config=parsed, config_digest="", code_root=str(folder)
    )
    own = Path(tempfile.mkdtemp())
    session = assemble(specification, RunDirectory(own), StopRequest(own / "stop"))
    session.model.train()
    recorder = Recorder(
        session.run.metrics(writer=True), Trackers(session.run, session.config, {}), SystemSampler(gpus=0)
    )
    recorder.start(session)
    probed = profile(session, recorder, PROBE_STEPS)
    processor: list[float] = []
    for group in endless(session, WARMUP_STEPS + PROBE_STEPS):
        began = time.process_time()
        take_step(session, group)
        processor.append(time.process_time() - began)
    clock, used, steps = time.perf_counter(), time.process_time(), 0
    for group in endless(session, MAX_STEPS):
        take_step(session, group)
        steps += 1
        if steps >= MIN_STEPS and time.perf_counter() - clock > SECONDS:
            break
    predicted = after_probe((probed.step_ms or 0.0) / 1e3, steps).seconds or 0.0
    return {
        "clock_probe": predicted / steps,
        "clock_mean": (time.perf_counter() - clock) / steps,
        "processor_probe": statistics.median(processor[WARMUP_STEPS:]),
        "processor_mean": (time.process_time() - used) / steps,
    }
