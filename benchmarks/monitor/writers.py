"""Many workers that record at once: whether each keeps its pace on this machine, and nothing is lost."""

from __future__ import annotations

import multiprocessing
import time
from pathlib import Path

from trainwright.trainer.run import MetricStore
from trainwright.trainer.run.status import EventWriter, read_log

KEYS = ("train/loss", "train/gradient_norm", "train/learning_rate")
STEPS_A_SECOND = 100
"""Of each worker; a flush a second, as the recorder makes it."""


def writer_figures(folder: Path, writers: int, seconds: int) -> dict[str, float]:
    """Return how long after its second the slowest flush ended, and how many points and events were lost."""
    folder.mkdir(parents=True)
    begin = time.time() + 1.0 + writers / 50
    with multiprocessing.get_context("fork").Pool(writers) as pool:
        late = pool.starmap(_write, [(folder / str(number), begin, seconds) for number in range(writers)], chunksize=1)
    lost = sum(_lost(folder / str(number), seconds) for number in range(writers))
    every = sorted(delay for one in late for delay in one)
    return {
        "writers": writers,
        "writers_points_a_second": writers * STEPS_A_SECOND * len(KEYS),
        "writers_late_p99_seconds": round(every[len(every) * 99 // 100], 3),
        "writers_late_seconds": round(every[-1], 3),
        "writers_lost": lost,
    }


def _write(folder: Path, begin: float, seconds: int) -> list[float]:
    """Record for so many seconds; return by how much the end of each flush was late."""
    folder.mkdir()
    events, late = EventWriter(folder / "events.jsonl"), []
    with MetricStore(folder / "metrics.sqlite", writer=True) as store:
        for second in range(seconds):
            time.sleep(max(0.0, begin + second - time.time()))
            steps = range(second * STEPS_A_SECOND, (second + 1) * STEPS_A_SECOND)
            store.write((key, step, step / 7, time.time()) for key in KEYS for step in steps)
            events.append("epoch", {"epoch": second, "step": steps[-1]})
            late.append(time.time() - begin - second)
    return late


def _lost(folder: Path, seconds: int) -> int:
    store = MetricStore(folder / "metrics.sqlite")
    points = sum(store.count(key) for key in KEYS)
    events, damaged = read_log(folder / "events.jsonl")
    return len(KEYS) * STEPS_A_SECOND * seconds - points + seconds - len(events) + len(damaged)
