"""Sampling of the machine for a run: CPU of the process tree, memory, disk, and GPUs where there are any."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import psutil

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


# GPUs of a run, as NVML sees them: use, memory, power, temperature and what slows them down.

HARMFUL = 0x8 | 0x20 | 0x40 | 0x80
"""NVML's reasons for a lower clock that are no choice: slowdown by hardware, heat (software, hardware), power brake."""
POWER_CAP = 0x4
"""NVML's reason that the power limit is reached, which is usual under load."""


def open_gpus(wanted: int) -> list[Any]:
    """Return NVML's handles of the first GPUs that this process may use; fewer, or none, where there are no more."""
    if not wanted:
        return []
    try:
        import pynvml

        pynvml.nvmlInit()
        return [_handle(name) for name in visible_gpus(pynvml.nvmlDeviceGetCount())[:wanted]]
    except Exception:  # noqa: BLE001 - no driver, no library, no GPU: all the same here
        return []


def driver_version() -> str | None:
    """Return the version of NVIDIA's driver; None where there is none, or nothing that says it."""
    try:
        import pynvml

        pynvml.nvmlInit()
        return str(pynvml.nvmlSystemGetDriverVersion())
    except Exception:  # noqa: BLE001 - no driver, no library, no GPU: all the same here
        return None


def visible_gpus(count: int) -> list[str]:
    """Return the names (places or UUIDs) of the GPUs that CUDA shows this process, in its order.

    Args:
        count: GPUs of the machine.
    """
    named = os.environ.get("CUDA_VISIBLE_DEVICES")
    if named is None:
        return [str(place) for place in range(count)]
    names = [name.strip() for name in named.split(",")]
    hidden = next((place for place, name in enumerate(names) if name in {"", "-1"}), len(names))
    return names[:hidden]  # as CUDA reads it, nothing counts after the first that is no device


def of_gpus(readings: list[dict[str, float]]) -> dict[str, float]:
    """Return one sample of all devices: mean and lowest use, memory of all together; empty without a reading."""
    percents = [reading["gpu_percent"] for reading in readings if "gpu_percent" in reading]
    memory = [reading["gpu_memory_bytes"] for reading in readings if "gpu_memory_bytes" in reading]
    used = {"gpu_percent": sum(percents) / len(percents), "gpu_percent_lowest": min(percents)} if percents else {}
    return used | ({"gpu_memory_bytes": sum(memory)} if memory else {})


def _handle(name: str) -> Any:
    import pynvml

    by_name = name.startswith(("GPU-", "MIG-"))
    return pynvml.nvmlDeviceGetHandleByUUID(name) if by_name else pynvml.nvmlDeviceGetHandleByIndex(int(name))


def reading_of(handle: Any) -> dict[str, float]:
    """Return what a device says of itself, as far as it says anything: not every one knows its power, say."""
    import pynvml

    values: dict[str, float] = {}
    for name, read in _READINGS.items():
        with suppress(pynvml.NVMLError):
            values[name] = float(read(pynvml, handle))
    return values


def _why_slow(nvml: Any, handle: Any) -> int:
    return int(nvml.nvmlDeviceGetCurrentClocksThrottleReasons(handle))


_READINGS: dict[str, Callable[[Any, Any], float]] = {
    "gpu_memory_bytes": lambda nvml, handle: nvml.nvmlDeviceGetMemoryInfo(handle).used,
    "gpu_percent": lambda nvml, handle: nvml.nvmlDeviceGetUtilizationRates(handle).gpu,
    "power_watts": lambda nvml, handle: nvml.nvmlDeviceGetPowerUsage(handle) / 1000,
    "temperature_celsius": lambda nvml, handle: nvml.nvmlDeviceGetTemperature(handle, nvml.NVML_TEMPERATURE_GPU),
    "throttled": lambda nvml, handle: bool(_why_slow(nvml, handle) & HARMFUL),
    "power_capped": lambda nvml, handle: bool(_why_slow(nvml, handle) & POWER_CAP),
}


def by_gpu(readings: list[dict[str, float]]) -> dict[str, float]:
    """Return the readings of each device by name, `gpu0_percent` and so on."""
    return {
        f"gpu{number}_{name.removeprefix('gpu_')}": value
        for number, reading in enumerate(readings)
        for name, value in reading.items()
    }
