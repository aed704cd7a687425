"""Record of a worker process's end (`exit.json` in the run's folder), which its parent writes; light.

The run's own records say nothing of a process that a signal ended. Its parent knows the signal, and whether the kernel
took memory back meanwhile. A parent that is gone too leaves no record: then nothing tells that the run ended itself.
"""

from __future__ import annotations

import json
import os
import time
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

EXIT = "exit.json"
COUNTERS = ("/sys/fs/cgroup/memory.events", "/sys/fs/cgroup/memory/memory.oom_control", "/proc/vmstat")
"""Files in which the kernel counts the processes that it killed for want of memory; the first that does so counts."""


class Exit(NamedTuple):
    """The end of one process."""

    pid: int
    """Of the process that the launcher knows."""
    code: int
    """Exit code; of one that a signal ended, the signal's number below 0."""
    took_memory: bool
    """Whether the kernel killed a process for want of memory while it ran."""
    at: float
    """Unix seconds."""


def memory_kills() -> int:
    """Return how many processes the kernel has killed here for want of memory; 0 where it does not count them."""
    for name in COUNTERS:
        with suppress(OSError, ValueError):
            for line in Path(name).read_text().splitlines():
                kind, _, number = line.partition(" ")
                if kind == "oom_kill":
                    return int(number)
    return 0


def record_exit(folder: Path, pid: int, code: int, *, kills_before: int) -> None:
    """Write how a process ended, unless it ended in order; a folder that cannot be written goes without.

    Args:
        folder: the run's.
        code: as `os.waitstatus_to_exitcode` gives it.
        kills_before: what `memory_kills` returned when it began.
    """
    if code == 0:
        return
    found = Exit(pid, code, memory_kills() > kills_before, time.time())
    draft = folder / f".{EXIT}.{os.getpid()}.tmp"
    with suppress(OSError):
        draft.write_text(json.dumps(found._asdict()))
        draft.replace(folder / EXIT)


def read_exit(folder: Path) -> Exit | None:
    """Return the latest record; None where there is none that can be read."""
    try:
        found = json.loads((folder / EXIT).read_text())
        return Exit(int(found["pid"]), int(found["code"]), bool(found["took_memory"]), float(found["at"]))
    except (OSError, ValueError, KeyError, TypeError):
        return None
