"""GPUs of a run, as NVML sees them: use, memory, power, temperature and what slows them down."""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import suppress
from typing import Any

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
