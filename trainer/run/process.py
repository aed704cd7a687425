"""Identity of the process of a record. A bare process id misleads: ids are reused and zombies keep theirs."""

from __future__ import annotations

import os
import select
import signal
import time
from contextlib import suppress
from pathlib import Path
from typing import Self

import psutil
from pydantic import BaseModel, ConfigDict


class ProcessIdentity(BaseModel):
    """A process id with its start time and the machine's boot, enough to signal the right process or none."""

    model_config = ConfigDict(frozen=True)

    pid: int
    started_at: float
    """Unix seconds, from the kernel."""
    boot_id: str

    @classmethod
    def of(cls, pid: int) -> Self:
        """Describe a living process. Raises psutil.NoSuchProcess."""
        return cls(pid=pid, started_at=psutil.Process(pid).create_time(), boot_id=boot_id())

    @classmethod
    def current(cls) -> Self:
        """Describe this process."""
        return cls.of(os.getpid())

    def is_alive(self) -> bool:
        """Return whether this very process still runs (zombies do not count). For signalling, not for liveness."""
        try:
            process = psutil.Process(self.pid)
            same = abs(process.create_time() - self.started_at) < 2.0 and self.boot_id == boot_id()
            return same and process.status() != psutil.STATUS_ZOMBIE
        except psutil.Error:
            return False

    def send_signal(self, number: signal.Signals) -> bool:
        """Signal the process if it is still the same one; return whether a signal was sent."""
        if not self.is_alive():
            return False
        try:
            os.kill(self.pid, number)
        except (ProcessLookupError, PermissionError):
            return False
        return True

    def wait(self, seconds: float) -> None:
        """Wait so long, or until the process has ended where the kernel tells that."""
        deadline = time.monotonic() + seconds
        if hasattr(os, "pidfd_open"):
            with suppress(OSError):
                process = os.pidfd_open(self.pid)
                try:
                    if self.is_alive():  # opened by its id, which another may have by now
                        select.select([process], [], [], seconds)
                        return
                finally:
                    os.close(process)
        time.sleep(max(0.0, deadline - time.monotonic()))

    def kill_tree(self) -> None:
        """Kill the process, all that descend from it, and the group that it leads: ranks, loader workers, and theirs.

        Called by one of them, it does not return.
        """
        if not self.is_alive():
            return
        with suppress(psutil.Error):
            for child in psutil.Process(self.pid).children(recursive=True):
                if child.pid != os.getpid():
                    with suppress(psutil.Error):
                        child.kill()
        with suppress(ProcessLookupError, PermissionError):
            if os.getpgid(self.pid) == self.pid:
                os.killpg(self.pid, signal.SIGKILL)
            os.kill(self.pid, signal.SIGKILL)


def boot_id() -> str:
    """Return a text that changes with every boot (the kernel's where there is one)."""
    path = Path("/proc/sys/kernel/random/boot_id")
    return path.read_text().strip() if path.exists() else f"boot-{psutil.boot_time():.0f}"
