"""This machine's processor as a record of hardware, from a quarter of a second of measuring."""

from __future__ import annotations

import datetime as dt
import time
from collections.abc import Callable

import psutil
import torch

from trainwright.trainer.estimation.hardware import Accelerator

SIDE = 768
"""Of the matrices that are multiplied: they fit into a core's cache with room for oneDNN's blocks."""
COPIED_BYTES = 2**26
"""More than the caches of most processors, so that memory's speed is seen."""
SECONDS = 0.12
"""For each figure."""


def this_machine() -> Accelerator:
    """Return arithmetic of fp32 products and bandwidth of copies with one thread, each the best of some tries.

    Other work on the machine makes both smaller than they are.
    """
    before = torch.get_num_threads()
    torch.set_num_threads(1)
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
        source="measured with one thread",
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
