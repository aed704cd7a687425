"""Clock of the user's code: processor time for computing, wall-clock time for waiting.

A machine that is busy with other things makes honest code slow and no hang, so computing is limited by the processor
time of the main thread. Code that sleeps, or waits for a network, uses none: it has WAITING times as long. The engine's
work between calls (digests, splits, files of built-in sources) is on no clock.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import NamedTuple

WAITING = 5
"""Multiple of its limit that code may take in wall-clock time, waiting."""


class Spent(NamedTuple):
    """Seconds that user code took."""

    processor: float
    wall: float

    def __add__(self, other: object) -> Spent:
        assert isinstance(other, Spent)  # noqa: S101 - nothing else is added
        return Spent(self.processor + other.processor, self.wall + other.wall)

    def since(self, start: Spent) -> Spent:
        """Return the time spent since `start`."""
        return Spent(self.processor - start.processor, self.wall - start.wall)


NOTHING = Spent(0.0, 0.0)


class Clock:
    """Runs while the main thread is inside the user's code; another thread may read it at any moment."""

    def __init__(self) -> None:
        self.running: list[str] = []
        """Names of running calls, the innermost last: `model net.py:Net`."""
        self._sum = NOTHING
        self._since: Spent | None = None

    def restart(self) -> None:
        """Reset the time spent."""
        self._sum = NOTHING

    def spent(self) -> Spent:
        """Return user code's time since the restart, the running call included."""
        since, total = self._since, self._sum
        return total if since is None else total + _now().since(since)

    @contextmanager
    def of(self, what: str) -> Iterator[None]:
        """Count the time inside."""
        if threading.current_thread() is not threading.main_thread():
            yield
            return
        self.running.append(what)
        outermost = self._since is None
        self._since = self._since or _now()
        try:
            yield
        finally:
            self.running.pop()
            if outermost:
                self._stop()

    @contextmanager
    def paused(self) -> Iterator[None]:
        """Exclude the time inside: our work between two calls of the user's code."""
        was_running = self._since is not None
        self._stop()
        try:
            yield
        finally:
            if was_running:
                self._since = _now()

    @contextmanager
    def each_call_alone(self) -> Iterator[None]:
        """Apply the limit to single calls, not their sum: `next_call` comes before each. Many samples are no hang."""
        before = self.spent()
        try:
            yield
        finally:
            self._sum = before
            if self._since is not None:
                self._since = _now()

    def next_call(self) -> None:
        """Begin another call, inside `each_call_alone`."""
        self._sum = NOTHING
        if self._since is not None:
            self._since = _now()

    def overrun(self, limit_seconds: float) -> str | None:
        """Return the call that took too long, and how; None where none did."""
        running, spent = self.running[-1:], self.spent()
        if not running:
            return None
        if spent.processor > limit_seconds:
            return f"{running[0]} took longer than {limit_seconds:g} s of processor time"
        if spent.wall > WAITING * limit_seconds:
            return (
                f"{running[0]} has not returned for longer than {WAITING * limit_seconds:g} s (it "
                f"took {spent.processor:.1f} s of processor time: it waits)"
            )
        return None

    def _stop(self) -> None:
        since, self._since = self._since, None  # in this order: a reader in between counts too little, never twice
        if since is not None:
            self._sum += _now().since(since)


def _now() -> Spent:
    return Spent(_processor_seconds(), time.monotonic())


def _processor_seconds() -> float:
    """Return the main thread's processor time; the process's where the system cannot measure threads separately."""
    main = threading.main_thread().ident
    if not hasattr(time, "pthread_getcpuclockid") or main is None:
        return time.process_time()
    return time.clock_gettime(time.pthread_getcpuclockid(main))


clock = Clock()
"""The one of this process: the guard starts and stops it, the heartbeat reads it."""
