"""Write guard: code that runs in a worker writes nothing into the workspace but its own run's folder.

An audit hook sees every file that this process and its forks open, move or remove by way of Python. It stops a slip,
or a simple forgery: the owner's settings, the ledger, other runs. Whatever gets past it, and what is written into the
run's own folder, is found by the seal, by the ledger's chain and by the clean room.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any

from trainwright.trainer.base.errors import UserCodeError
from trainwright.trainer.base.paths import workspace_of

_WRITING = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND
_PATHS = {
    "os.remove": 1, "os.rmdir": 1, "os.truncate": 1, "os.mkdir": 1, "os.chmod": 1, "os.utime": 1,
    "os.rename": 2, "os.link": 2, "os.symlink": 2, "sqlite3.connect": 1,
}  # fmt: skip
"""How many of an event's arguments name files."""
_READING = ("mode=ro", "immutable=1")
_guarded: tuple[str, tuple[str, ...]] | None = None
"""The workspace's folder, and the folders in it that may be written; None: nothing is guarded."""
_hooked = False


def install(run: Path, code_root: Path) -> None:
    """Guard the workspace that the run's folder is in, from now on."""
    global _guarded, _hooked  # noqa: PLW0603 - one run per process
    found = workspace_of(run)
    workspace = None if found is None else found.resolve()
    free = () if workspace is None else (run.resolve(), workspace / "cache", code_root.resolve())
    _guarded = None if workspace is None else (f"{workspace}{os.sep}", tuple(f"{folder}{os.sep}" for folder in free))
    if not _hooked:
        sys.addaudithook(_hook)
        _hooked = True


def _hook(event: str, arguments: tuple[Any, ...]) -> None:
    if _guarded is None or (event != "open" and event not in _PATHS):
        return
    if event == "open" and not (isinstance(arguments[2], int) and arguments[2] & _WRITING):
        return
    for path in arguments[: _PATHS.get(event, 1)]:
        if isinstance(path, str | bytes | os.PathLike):
            _require_free(os.fsdecode(path))


def _require_free(path: str) -> None:
    assert _guarded is not None  # noqa: S101 - asked by the hook
    if path.startswith("file:") and path.endswith(_READING):
        return
    text = os.path.realpath(path.removeprefix("file:"))
    workspace, free = _guarded
    # a code root above the workspace frees nothing in it
    if f"{text}{os.sep}".startswith(workspace) and not any(
        (text.startswith(folder) and folder.startswith(workspace)) or text == f"{workspace}cache" for folder in free
    ):
        place = text.removeprefix(workspace)
        raise UserCodeError(
            f"The user's code tried to write to {place} in the workspace: its records are the server's alone.",
            remedy="Write your code's files under code_root; state between steps belongs into context.state.",
            details={"path": place},
        )
