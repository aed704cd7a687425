"""Process that follows where the owner is to be notified: it outlives the servers. Its start, and the lead's lock."""

from __future__ import annotations

import os
import sys
import time
from typing import TYPE_CHECKING

from filelock import FileLock, Timeout

from trainwright.tools.launchers import Launch, may_begin, read_launch, write_launch
from trainwright.tools.launchers.environment import inherited_environment
from trainwright.tools.launchers.local import spawn

if TYPE_CHECKING:
    from collections.abc import Mapping

    from trainwright.tools.workspace import Workspace

FOLLOWER = "trainwright.tools.alerts.unattended"
FOLDER, LOCK, LOG = "follower", "follower.lock", "follower.log"
AGAIN_SECONDS = 10.0
"""So long after a start no other is made: one that ends at once must not become a storm."""


def leading_lock(workspace: Workspace) -> FileLock:
    """Return the lock that the leading follower of a workspace holds while it lives."""
    folder = workspace.path / FOLDER
    folder.mkdir(exist_ok=True)
    return FileLock(folder / LOCK, thread_local=False)


def is_led(workspace: Workspace) -> bool:
    """Return whether a follower leads."""
    try:
        with leading_lock(workspace).acquire(timeout=0):
            return False
    except Timeout:
        return True


def ensure_process(workspace: Workspace) -> None:
    """Start a following process if none leads; any number of servers may ask at once."""
    if is_led(workspace):
        return
    folder = workspace.path / FOLDER
    with workspace.session():  # one caller at a time, so that one process is started
        last = read_launch(folder)
        if last is not None and (may_begin(last) or time.time() - last.launched_at < AGAIN_SECONDS):
            return
        launch = write_launch(folder, Launch())
    command = [sys.executable, "-P", "-m", FOLLOWER, str(workspace.path)]
    spawn(folder, launch, command, cwd=workspace.path, env=_environment(workspace, os.environ), log=LOG)


def _environment(workspace: Workspace, environment: Mapping[str, str]) -> dict[str, str]:
    """Return a worker's environment, and the variables that the owner's notification names."""
    notify = workspace.settings.notify
    named = [notify.webhook_env or "", notify.secret_env or ""] if notify is not None else []
    return inherited_environment(environment) | {name: environment[name] for name in named if name in environment}
