"""Inventory of the GPUs that runs may use: what NVML shows, within CUDA_VISIBLE_DEVICES and the owner's list.

Written by NVML's documentation, and not run on a GPU so far.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from trainwright.tools.launchers.environment import VISIBLE, Gpu
from trainwright.tools.workspace.settings import ListedGpu, Settings
from trainwright.trainer.base.errors import LimitReachedError


@dataclass(frozen=True)
class Device:
    """One GPU, and what of its memory nobody has allocated at present."""

    gpu: Gpu
    free_bytes: int | None = None
    """None: not known."""
    parent: Gpu | None = None
    """The GPU that MIG divides, of which this is an instance."""


def gpus_of(settings: Settings) -> list[Device]:
    """Return the GPUs that this workspace's runs may use, in the machine's order; none where it shows none.

    Raises:
        LimitReachedError: the owner's list names a GPU that the driver does not know.
    """
    return chosen(machine_gpus(), os.environ.get(VISIBLE), settings.gpus)


def has_gpu(devices: Path = Path("/dev")) -> bool:
    """Return whether this machine shows a GPU to its processes."""
    if os.environ.get(VISIBLE, "all").strip() in {"", "-1"}:
        return False
    return any(devices.glob("nvidia[0-9]*")) or (devices / "kfd").exists()


def chosen(found: Sequence[Device], named: str | None, listed: Sequence[ListedGpu] | None) -> list[Device]:
    """Return the GPUs of a machine that are left by the variable and by the owner's list.

    Where the driver shows none (another maker's, or no library of NVML's), the owner's list is taken as it stands.

    Args:
        found: what the driver shows.
        named: value of CUDA_VISIBLE_DEVICES; None: not set.
        listed: the owner's list; None: no restriction.

    Raises:
        LimitReachedError: the list names a GPU that the driver does not know.
    """
    seen = list(found) if named is None else _named(found, named)
    if listed is None:
        return seen
    if not found:
        return [Device(Gpu(id=one.id, name=one.name, memory_bytes=one.memory_bytes)) for one in listed]
    unknown = [one.id for one in listed if _find(found, one.id) is None]
    if unknown:
        here = ", ".join(str(device.gpu) for device in found)
        raise LimitReachedError(
            f"The owner's list `gpus` names {unknown[0]!r}, and the driver knows no such GPU; it has {here}.",
            remedy="The workspace's owner must correct `gpus` in settings.yaml, or leave it out to allow all of them.",
            details={"limit": "gpus", "waits": False},
        )
    wanted = [_find(found, one.id) for one in listed]
    return [device for device in seen if device in wanted]


def _named(found: Sequence[Device], names: str) -> list[Device]:
    """Return the GPUs that CUDA shows a process with this value: none from the first on that is no device.

    Of a GPU that MIG divides CUDA takes the first instance.
    """
    left: list[Device] = []
    for name in names.split(","):
        device = _find(found, name.strip()) or _first_instance(found, name.strip())
        if device is None:
            break
        left.append(device)
    return left


def _first_instance(found: Sequence[Device], name: str) -> Device | None:
    parents = [Device(device.parent) for device in found if device.parent is not None]
    parent = _find(parents, name)
    return next((device for device in found if parent is not None and device.parent == parent.gpu), None)


def _find(found: Sequence[Device], name: str) -> Device | None:
    """Return a GPU by its number, its UUID or the beginning of its UUID, as CUDA takes all three."""
    if name.isdigit():
        return next((device for device in found if device.gpu.index == int(name)), None)
    return next((device for device in found if name and device.gpu.id.startswith(name)), None)


def machine_gpus() -> list[Device]:
    """Return the GPUs that NVML shows; of one that MIG divides, its instances. Empty without a driver."""
    try:
        import pynvml

        pynvml.nvmlInit()
        count = int(pynvml.nvmlDeviceGetCount())
    except Exception:  # noqa: BLE001 - no driver, no library, no GPU: all the same here
        return []
    found: list[Device] = []
    for index in range(count):
        with suppress(pynvml.NVMLError):  # one that is lost hides no other
            found += _devices(pynvml, index)
    return found


def _devices(nvml: Any, index: int) -> Iterator[Device]:
    handle = nvml.nvmlDeviceGetHandleByIndex(index)
    instances = list(_instances(nvml, handle))
    parent = Gpu(id=_text(nvml.nvmlDeviceGetUUID(handle)), index=index) if instances else None
    for one in instances or [handle]:
        memory = nvml.nvmlDeviceGetMemoryInfo(one)
        gpu = Gpu(
            id=_text(nvml.nvmlDeviceGetUUID(one)), index=None if instances else index,
            name=_text(nvml.nvmlDeviceGetName(one)), memory_bytes=int(memory.total),
        )  # fmt: skip
        yield Device(gpu, free_bytes=int(memory.free), parent=parent)


def _instances(nvml: Any, handle: Any) -> Iterator[Any]:
    """Give the handles of a GPU's MIG instances; none of one that is whole, or that knows no MIG."""
    with suppress(nvml.NVMLError):
        if nvml.nvmlDeviceGetMigMode(handle)[0] != nvml.NVML_DEVICE_MIG_ENABLE:
            return
        for place in range(nvml.nvmlDeviceGetMaxMigDeviceCount(handle)):
            with suppress(nvml.NVMLError):  # a place without an instance
                yield nvml.nvmlDeviceGetMigDeviceHandleByIndex(handle, place)


def _text(value: str | bytes) -> str:
    return value.decode() if isinstance(value, bytes) else value
