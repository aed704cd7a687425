"""Followers' processes: one for each workspace and tracker, started with the runs that ask for it."""

from __future__ import annotations

import json
import os
import sys
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

from filelock import FileLock, Timeout

from trainwright.tools.launchers import Launch
from trainwright.tools.launchers.environment import inherited_environment
from trainwright.tools.launchers.local import spawn
from trainwright.tools.tracking.registry import TRACKERS
from trainwright.tools.tracking.tracker import folder_of, mlflow_uri
from trainwright.trainer.base.errors import TrainwrightError

if TYPE_CHECKING:
    from trainwright.tools.workspace import Workspace
    from trainwright.trainer.config import TrainingConfig

FOLLOWER = "trainwright.tools.tracking.follower"
LOG = "follower.log"
LOCK, STATE = "follower.lock", "state.json"
MOST_LOG_BYTES = 2**20


def follow_asked(workspace: Workspace, config: TrainingConfig) -> list[str]:
    """Start what follows for the trackers that a configuration asks for; return why one cannot be, in sentences.

    It never raises: a tracker must not keep a run from starting.
    """
    asked = [name for name in TRACKERS if getattr(config.logging, name)]
    return [problem for name in asked if (problem := ensure_follower(workspace, name))]


def catch_up(workspace: Workspace) -> None:
    """Start what follows for the trackers that were left behind by an outage, or by the end of the machine."""
    for name in TRACKERS:
        if left_behind(workspace, name).get("left"):
            ensure_follower(workspace, name)


def left_behind(workspace: Workspace, name: str) -> dict[str, Any]:
    """Return the runs that a tracker has not been given whole (`left`), and its last `error`; empty if never used."""
    try:
        found = json.loads((folder_of(workspace, name) / STATE).read_bytes())
    except (OSError, ValueError):
        return {}
    return found if isinstance(found, dict) else {}


def ensure_follower(workspace: Workspace, name: str) -> str | None:
    """Start a tracker's follower unless one lives; return why it cannot be started. Any number may ask at once."""
    known, folder = TRACKERS[name], folder_of(workspace, name)
    if find_spec(known.library) is None:
        return f"logging.{name} shows nothing: pip install 'trainwright[{known.extra}]', then `trainwright track`."
    try:
        if name == "mlflow":
            mlflow_uri(workspace, dict(os.environ))
        folder.mkdir(parents=True, exist_ok=True)
        if is_followed(workspace, name):
            return None
        _shorten(workspace, name)
        command = [sys.executable, "-P", "-m", FOLLOWER, str(workspace.path), name]
        launch = spawn(folder, Launch(), command, cwd=workspace.path, env=_environment(known.variables), log=LOG)
    except TrainwrightError as error:
        return f"logging.{name} shows nothing: {error.message} {error.remedy}"
    except OSError as error:
        return f"logging.{name} shows nothing: {folder.name} cannot be written ({error.strerror})."
    return launch.error


def is_followed(workspace: Workspace, name: str) -> bool:
    """Return whether a follower holds the tracker's folder."""
    lock = folder_of(workspace, name) / LOCK
    if not lock.exists():
        return False
    try:
        with FileLock(lock).acquire(timeout=0):
            return False
    except Timeout:
        return True


def _environment(variables: tuple[str, ...]) -> dict[str, str]:
    own = {name: os.environ[name] for name in variables if name in os.environ}
    return inherited_environment() | own | {"OMP_NUM_THREADS": "1", "PYTHONUNBUFFERED": "1"}


def _shorten(workspace: Workspace, name: str) -> None:
    log = folder_of(workspace, name) / LOG
    if log.exists() and log.stat().st_size > MOST_LOG_BYTES:
        log.unlink()
