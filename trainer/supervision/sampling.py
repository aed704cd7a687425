"""Sampling of the machine for a run: CPU of the process tree, memory, disk, and GPUs where there are any."""

from __future__ import annotations

import os
import threading
from contextlib import suppress
from pathlib import Path

import psutil

from trainwright.trainer.supervision.gpus import by_gpu, of_gpus, open_gpus, reading_of

INTERVAL_SECONDS = 1.0


class SystemSampler:
    """A thread that samples once a second; `take` gives the means since it was last asked."""

    def __init__(self, root: int | None = None, *, gpus: int = 0, folder: Path | None = None) -> None:
        """Prepare to sample the tree of processes under `root` (by default this process) and its GPUs.

        Args:
            gpus: devices that the run works on: the first that this process may use. None are sampled of a CPU run.
            folder: where the run writes, whose disk is sampled.
        """
        self._values: dict[str, list[float]] = {}
        self._sums: dict[str, tuple[float, int]] = {}
        self._lock, self._measuring = threading.Lock(), threading.Lock()
        self._done = threading.Event()
        self._root = psutil.Process(root)
        self._cores = allowed_cores()
        self._gpus = open_gpus(gpus)
        self._folder = folder
        self._last = self._cpu_seconds(), _now()
        """Seconds that the processors had worked at the last sample, and its moment."""
        self._thread = threading.Thread(target=self._run, name="system-sampler", daemon=True)

    @property
    def gpus(self) -> int:
        """Devices that are sampled."""
        return len(self._gpus)

    def start(self) -> None:
        """Begin to sample."""
        self._last = self._cpu_seconds(), _now()
        self._thread.start()

    def close(self) -> None:
        """Stop sampling."""
        self._done.set()
        if self._thread.is_alive():
            self._thread.join()

    def take(self) -> dict[str, float]:
        """Return the means by name, as far as known: cpu_percent (of all allowed cores), memory_bytes (of the tree),
        process_memory_bytes (of its root), disk_free_bytes, and what `gpus` measures."""
        with self._lock:
            values, self._values = self._values, {}
        return {name: sum(numbers) / len(numbers) for name, numbers in values.items()}

    def mean(self, name: str) -> float | None:
        """Return the mean over the attempt, or None when it was never measured."""
        with self._lock:
            total, count = self._sums.get(name, (0.0, 0))
        return total / count if count else None

    def measure(self) -> None:
        """Take a sample: the thread does so once a second, the recorder at the end of a run too short for that."""
        with self._measuring:
            (used_before, clock_before), (used, clock) = self._last, (self._cpu_seconds(), _now())
            self._last = used, clock
        share = max(used - used_before, 0.0) / max(clock - clock_before, 1e-9) / self._cores
        sample = {"cpu_percent": min(100.0 * share, 100.0), "memory_bytes": self._memory_bytes()}
        sample |= self._own_memory_and_disk()
        readings = [reading_of(gpu) for gpu in self._gpus]
        sample |= of_gpus(readings) | by_gpu(readings)
        with self._lock:
            for name, value in sample.items():
                self._values.setdefault(name, []).append(value)
                total, count = self._sums.get(name, (0.0, 0))
                self._sums[name] = (total + value, count + 1)

    def _run(self) -> None:
        while not self._done.wait(INTERVAL_SECONDS):
            self.measure()

    def _tree(self) -> list[psutil.Process]:
        with suppress(psutil.Error):
            return [self._root, *self._root.children(recursive=True)]
        return [self._root]

    def _cpu_seconds(self) -> float:
        total = 0.0
        for process in self._tree():
            with suppress(psutil.Error):
                times = process.cpu_times()
                total += times.user + times.system
        return total

    def _own_memory_and_disk(self) -> dict[str, float]:
        found = {}
        with suppress(psutil.Error):
            found["process_memory_bytes"] = float(self._root.memory_info().rss)
        if self._folder is not None:
            with suppress(OSError):
                found["disk_free_bytes"] = float(psutil.disk_usage(str(self._folder)).free)
        return found

    def _memory_bytes(self) -> float:
        total = 0.0
        for process in self._tree():
            with suppress(psutil.Error):
                total += process.memory_info().rss
        return total


def allowed_cores() -> float:
    """Return the cores that this process may use: its affinity, or a control group's smaller quota."""
    cores = float(len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1)
    quota = Path("/sys/fs/cgroup/cpu.max")
    with suppress(OSError, ValueError):
        limit, period = quota.read_text().split()
        if limit != "max":
            cores = min(cores, int(limit) / int(period))
    return cores


def _now() -> float:
    import time

    return time.monotonic()
