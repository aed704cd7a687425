"""Accelerators as an estimate needs them: memory, bandwidth, arithmetic per second. Light: free of torch."""

from __future__ import annotations

import datetime as dt
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

import psutil
import torch

Kind = Literal["cuda", "rocm", "cpu", "tpu"]
FALLBACK = {"tf32": ("tf32", "fp32"), "bf16": ("bf16", "fp16", "fp32"), "fp16": ("fp16", "bf16", "fp32")}
"""Precision to the rates that hold for it, the first that a record has."""
PCIE_BYTES_PER_SECOND = 25e9
"""Of a link that the record does not tell: PCIe 4.0 with 16 lanes, as measured by most."""


@dataclass(frozen=True)
class Accelerator:
    """A record of a data sheet, or of a short measurement."""

    name: str
    kind: Kind
    memory_bytes: int
    bandwidth_bytes_per_second: float
    """Of the device's memory."""
    flops_per_second: Mapping[str, float] = field(default_factory=dict)
    """Dense peak (no sparsity) by fp32, tf32, bf16, fp16, fp8, int8; what is missing is not supported."""
    link_bytes_per_second: float | None = None
    """To its neighbours, one direction; None: PCIE_BYTES_PER_SECOND."""
    date: str = ""
    """Of the record, ISO."""
    source: str = ""
    supported: bool = True
    """Whether this engine runs on it; a TPU is listed, and not supported."""

    def peak(self, precision: str) -> float:
        """Return the FLOP/s of a training precision (fp32, tf32, bf16, fp16), or of the next one that it has.

        Raises:
            ValueError: the record has no rate for it.
        """
        for name in FALLBACK.get(precision, ("fp32", "tf32", "bf16")):
            if name in self.flops_per_second:
                return self.flops_per_second[name]
        known = ", ".join(self.flops_per_second) or "none"
        raise ValueError(f"{self.name} has no rate for {precision}: its record has {known}; add flops_per_second")

    @property
    def link(self) -> float:
        """Bytes per second to a neighbour."""
        return self.link_bytes_per_second or PCIE_BYTES_PER_SECOND

    def as_dict(self) -> dict[str, Any]:
        """Return JSON types."""
        return {**vars(self), "flops_per_second": dict(self.flops_per_second)}


# This machine's processor as a record of hardware, from a quarter of a second of measuring.

SIDE = 768
"""Of the matrices that are multiplied: they fit into a core's cache with room for oneDNN's blocks."""
COPIED_BYTES = 2**26
"""More than the caches of most processors, so that memory's speed is seen."""
SECONDS = 0.12
"""For each figure."""


def this_machine(threads: int = 1) -> Accelerator:
    """Return arithmetic of fp32 products and bandwidth of copies with so many threads, each the best of some tries.

    Other work on the machine makes both smaller than they are.
    """
    before = torch.get_num_threads()
    torch.set_num_threads(threads)
    try:
        one, other = torch.rand(SIDE, SIDE), torch.rand(SIDE, SIDE)
        product = 2 * SIDE**3 / _fastest(lambda: torch.mm(one, other))
        source = torch.ones(COPIED_BYTES // 4)
        target = torch.empty_like(source)
        copied = 2 * COPIED_BYTES / _fastest(lambda: target.copy_(source))
    finally:
        torch.set_num_threads(before)
    return Accelerator(
        name="CPU",
        kind="cpu",
        memory_bytes=psutil.virtual_memory().total,
        bandwidth_bytes_per_second=copied,
        flops_per_second={"fp32": product},
        date=dt.datetime.now(tz=dt.UTC).date().isoformat(),
        source=f"measured on this machine with {threads} threads" if threads > 1 else "measured with one thread",
    )


def _fastest(call: Callable[[], object]) -> float:
    """Return the seconds of the fastest of the calls that the time allows, three at least."""
    call()
    found: list[float] = []
    until = time.perf_counter() + SECONDS
    while len(found) < 3 or time.perf_counter() < until:
        started = time.perf_counter()
        call()
        found.append(time.perf_counter() - started)
    return min(found)
