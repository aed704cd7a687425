"""Waiters: runs that wait for a GPU, each a file whose lock is held while it waits.

So a start sees who waits, in other processes too, and leaves a place to one that has fewer; one whose process was
killed waits no more.
"""

from __future__ import annotations

import fcntl
import json
import secrets
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

    from trainwright.tools.workspace import Workspace


@dataclass(frozen=True)
class Waiter:
    """One run that waits, or is to start now."""

    project: str
    count: int = 1
    """GPUs that it needs."""
    kind: str | None = None
    """Of GPU; None: any."""
    study: str | None = None
    since: float = 0.0
    """Unix seconds."""
    runs_per_gpu: int = 1
    needed_bytes: int | None = None
    """Memory of each GPU that it is going to use; None: not known."""


@contextmanager
def waiting(workspace: Workspace, waiter: Waiter) -> Iterator[Waiter]:
    """Let others see that this run waits, until the block ends."""
    folder = _folder(workspace)
    folder.mkdir(parents=True, exist_ok=True)
    name = secrets.token_hex(8)
    path, draft = folder / f"{name}.json", folder / f".{name}"
    with draft.open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        json.dump(asdict(waiter), file)
        file.flush()
        draft.rename(path)  # seen only once it is locked
        try:
            yield waiter
        finally:
            path.unlink(missing_ok=True)


def waiters(workspace: Workspace) -> list[Waiter]:
    """Return those that wait now, the longest first; files of processes that are gone are removed."""
    found = []
    for path in _folder(workspace).glob("*.json"):
        with suppress(OSError, ValueError, TypeError), path.open() as file:
            if _is_left_behind(file.fileno()):
                path.unlink(missing_ok=True)
            else:
                found.append(Waiter(**json.load(file)))
    return sorted(found, key=lambda waiter: waiter.since)


def _is_left_behind(file: int) -> bool:
    try:
        fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _folder(workspace: Workspace) -> Path:
    return workspace.path / "cache" / "gpus"
