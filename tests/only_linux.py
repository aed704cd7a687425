"""What Python has on Linux and not on macOS, so that a test can go without it."""

from __future__ import annotations

import importlib

ONLY_LINUX = {
    "os": ("sched_getaffinity", "sched_setaffinity", "memfd_create", "pidfd_open", "posix_fadvise", "waitid", "eventfd",
           "splice", "O_TMPFILE", "POSIX_FADV_SEQUENTIAL"),
    "signal": ("pidfd_send_signal", "sigtimedwait"),
    "socket": ("SO_PASSCRED", "SCM_CREDENTIALS", "SO_PEERCRED"),
    "select": ("epoll",),
    "time": ("CLOCK_BOOTTIME",),
}  # fmt: skip
"""What Python has on Linux and not on macOS (3.11), as far as anything here might use it."""


def present() -> dict[str, list[str]]:
    """Return those that this Python has, by module."""
    found = {
        module: [name for name in names if hasattr(importlib.import_module(module), name)]
        for module, names in ONLY_LINUX.items()
    }
    assert "sched_getaffinity" in found["os"]
    return found
