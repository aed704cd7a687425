"""Which code initialises CUDA or counts its devices: written down, call by call, on machines without a card too.

Either in a process makes CUDA unusable in every process that it forks afterwards ("Cannot re-initialize CUDA in forked
subprocess"). `watch` stands for torch's own hooks from then on, where other modules took them by name as well. A build
for the CPU lacks the innermost; those around them it has, and nothing reaches the device but through them.
"""

from __future__ import annotations

import os
import sys
import traceback
from pathlib import Path
from typing import Any

HOOKS = (
    ("torch.cuda", "_lazy_init"), ("torch.cuda", "init"), ("torch.cuda", "is_available"),
    ("torch.cuda", "device_count"), ("torch.accelerator", "is_available"), ("torch.accelerator", "device_count"),
    ("torch._C", "_cuda_init"), ("torch._C", "_cuda_getDeviceCount"),
)  # fmt: skip
"""What initialises CUDA or counts devices, from the outside in."""


def watch(log: Path) -> None:
    """Import torch, and append a line for each such call of this process and its forks: process id, hook, callers."""
    import torch.accelerator

    assert torch.cuda
    for module, name in HOOKS:
        if hasattr(sys.modules[module], name):
            _replace(module, name, log)


def calls(log: Path, of: int | None = None) -> list[str]:
    """Return the lines, of one process where its id is given."""
    lines = log.read_text().splitlines() if log.exists() else []
    return [line for line in lines if of is None or line.split()[0] == str(of)]


def _replace(module: str, name: str, log: Path) -> None:
    own = getattr(sys.modules[module], name)

    def noted(*args: Any, **kwargs: Any) -> Any:
        where = [f"{frame.filename}:{frame.lineno}" for frame in traceback.extract_stack()[:-1]]
        with log.open("a") as file:
            file.write(f"{os.getpid()} {module}.{name} {' < '.join(reversed(where[-12:]))}\n")
        return own(*args, **kwargs)

    for each in list(sys.modules.values()):  # its own module, and those that hold it by name
        for held, value in list(getattr(each, "__dict__", {}).items()):
            if value is own:
                setattr(each, held, noted)


if __name__ == "__main__":  # `cuda_watch.py LOG -P -m MODULE ARGUMENT ...` is python -P -m MODULE ARGUMENT ..., watched
    import runpy

    watch(Path(sys.argv[1]))
    _, _, started, *rest = sys.argv[2:]
    sys.argv[:] = [started, *rest]
    runpy.run_module(started, run_name="__main__", alter_sys=True)
