"""The two clocks."""

from __future__ import annotations

import time

Moment = tuple[float, float]
"""Seconds of the wall, and of the processor in this thread."""


def now() -> Moment:
    """Return the present moment."""
    return time.perf_counter(), time.thread_time()
