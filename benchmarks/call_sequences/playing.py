"""Preparing the stages that sequences begin at, and playing so many sequences."""

from __future__ import annotations

import importlib
import math
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import hypothesis
from hypothesis.stateful import run_state_machine_as_test
from machine import Calls
from world import Stages, create, in_place

CHUNK = 100
"""Sequences with one seed; the time is looked at in between."""
SEEDS_APART = 1_000_000
"""Between the first seeds of two processes: more than the sequences of any of them."""
WARM = ("torch", "torch._dynamo", "sklearn.datasets")
"""What workers import: once here, and not again in every fork."""


_found: Any = threading.Event()
"""Set when a sequence contradicts the model: then no further ones are played, in other processes neither."""


def watch(found: Any) -> None:
    """Share the event with other processes."""
    global _found  # noqa: PLW0603 - one per process
    _found = found


@contextmanager
def prepared(base: Path) -> Iterator[Stages]:
    """Give the stages of a project, with all launches in the understudy's hands until the end."""
    for module in WARM:
        importlib.import_module(module)
    stages = Stages(base)
    with in_place(stages.understudy, base / "pictures"):
        prepare(stages)
        yield stages


def play(stages: Stages, sequences: int, *, steps: int, seed: int, minutes: float = math.inf) -> Counter[str]:
    """Make so many sequences, or as many as the time allows, and return what they held.

    Raises AssertionError, with the sequence, at the first contradiction.
    """
    began = time.monotonic()
    Calls.stages, Calls.counts = stages, Counter()
    while Calls.counts["sequences"] < sequences and time.monotonic() - began < 60 * minutes and not _found.is_set():
        done = Calls.counts["sequences"]
        try:
            _play_chunk(min(CHUNK, sequences - done), steps, seed + done)
        except BaseException:
            _found.set()
            raise
        print(f"seed {seed}: {Calls.counts['sequences']} sequences, {time.monotonic() - began:.0f} s", flush=True)
    return Calls.counts


def play_share(seed: int, *, sequences: int, steps: int, minutes: float) -> Counter[str]:
    """Play one process's share of the sequences, on a workspace of its own."""
    memory = Path("/dev/shm")  # noqa: S108 - a fresh folder in it, where there is one: thousands of small files
    with tempfile.TemporaryDirectory(dir=memory if memory.is_dir() else None) as name, prepared(Path(name)) as stages:
        counts = play(stages, sequences, steps=steps, seed=seed, minutes=minutes)
        return counts + Counter({"real runs": stages.library.trained})


def _play_chunk(sequences: int, steps: int, seed: int) -> None:
    settings = hypothesis.settings(
        max_examples=sequences,
        stateful_step_count=steps,
        deadline=None,
        database=None,
        phases=[hypothesis.Phase.generate],
        suppress_health_check=list(hypothesis.HealthCheck),
    )
    run_state_machine_as_test(hypothesis.seed(seed)(Calls), settings=settings)


def prepare(stages: Stages) -> None:
    """Take a project through all phases by the server's own `next`, and keep a copy of the world at each stage."""
    Calls.stages, machine = stages, Calls()
    machine.world = stages.fresh()
    create(machine.here)
    stages.keep("created", machine.here)
    while machine.here.model.phase != "finished":
        before = machine.here.model.phase
        machine.go_where_next_points(0)
        for run in machine.here.model.living:
            machine.finish(0, run, "completed")
        machine.everything_agrees()
        if machine.here.model.phase != before:
            stages.keep(machine.here.model.phase, machine.here)
        elif before == "finalization":
            kinds = [run.kind for run in machine.here.model.runs.values()]
            if "export" in kinds and "exported" not in stages.names:
                stages.keep("exported", machine.here)
    machine.here.close()
