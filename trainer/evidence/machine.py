"""The machine of a run: its processor, memory, GPUs and their driver, as the worker finds them."""

from __future__ import annotations

import os
import platform
import subprocess
from pathlib import Path
from typing import Any

import psutil
import torch

from trainwright.trainer.supervision.gpus import driver_version

TF32_OVERRIDE = "NVIDIA_TF32_OVERRIDE"
"""NVIDIA's variable that switches TF32 in its libraries, whatever torch is told."""


def hardware() -> dict[str, Any]:
    """Return CPU model, cores, memory and GPUs; beside GPUs their driver, and TF32 where the environment switches it.

    Initialises CUDA where there is a device: a process that forks others which compute on it calls this afterwards.
    """
    gpus = []
    if torch.cuda.is_available():
        for number in range(torch.cuda.device_count()):
            properties = torch.cuda.get_device_properties(number)
            gpus.append(
                {
                    "name": properties.name,
                    "memory_bytes": properties.total_memory,
                    "compute_capability": f"{properties.major}.{properties.minor}",
                    "multiprocessors": properties.multi_processor_count,
                }
            )
    machine: dict[str, Any] = {
        **_cpu(),
        "cores": os.cpu_count(),
        "memory_bytes": psutil.virtual_memory().total,
        "gpus": gpus,
    }
    if gpus:
        machine |= {"driver": driver_version(), "tf32_override": os.environ.get(TF32_OVERRIDE, "not set")}
    return machine


def _cpu() -> dict[str, str | None]:
    """Return the processor's name and, where the kernel says it, its kind: a virtual machine's name may be any."""
    fields = _cpu_fields()
    name = fields.get("model name") or _apple_name() or platform.processor() or platform.machine()
    kind = [fields[key] for key in ("vendor_id", "cpu family", "model", "CPU implementer", "CPU part") if key in fields]
    return {"cpu": name, "cpu_kind": " ".join(kind) or None}


def _cpu_fields() -> dict[str, str]:
    """Return what Linux says of the first processor."""
    try:
        first = Path("/proc/cpuinfo").read_text(errors="replace").partition("\n\n")[0]
    except OSError:
        return {}
    pairs = (line.partition(":") for line in first.splitlines())
    return {key.strip(): value.strip() for key, _, value in pairs}


def _apple_name() -> str | None:
    if platform.system() != "Darwin":
        return None
    command = ["/usr/sbin/sysctl", "-n", "machdep.cpu.brand_string"]
    try:
        return subprocess.run(command, capture_output=True, text=True, timeout=10, check=True).stdout.strip()
    except (OSError, subprocess.SubprocessError):
        return None
