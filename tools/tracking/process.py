"""Followers' processes: one for each workspace and tracker, started with the runs that ask for it."""

from __future__ import annotations

import os
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from filelock import FileLock

from trainwright.tools.launchers import jobs
from trainwright.tools.launchers.environment import inherited_environment
from trainwright.tools.tracking.registry import TRACKERS
from trainwright.tools.tracking.tracker import folder_of, mlflow_uri
from trainwright.tools.workspace import Workspace
from trainwright.trainer.base.errors import TrainwrightError
from trainwright.trainer.config import TrainingConfig

FOLLOWER = "trainwright.tools.tracking.follower"
LOG = "follower.log"
LOCK, STATE = "follower.lock", "state.json"
MAX_LOG_BYTES = 2**20


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
    found = jobs.read_json(folder_of(workspace, name) / STATE)
    return found if isinstance(found, dict) else {}


def ensure_follower(workspace: Workspace, name: str) -> str | None:
    """Start a tracker's follower unless one lives; return why it cannot be started. Any number may ask at once."""
    known, folder = TRACKERS[name], folder_of(workspace, name)
    if find_spec(name) is None:
        return f"logging.{name} shows nothing: pip install 'trainwright[{name}]', then `trainwright track`."
    try:
        if name == "mlflow":
            mlflow_uri(workspace, dict(os.environ))
        if not is_followed(workspace, name):
            _shorten(folder / LOG)
        lock, env = FileLock(folder / LOCK), _environment(known.variables)
        launch = jobs.ensure(lock, FOLLOWER, name, cwd=workspace.path, env=env)
    except TrainwrightError as error:
        return f"logging.{name} shows nothing: {error.message} {error.remedy}"
    except OSError as error:
        return f"logging.{name} shows nothing: {folder.name} cannot be written ({error.strerror})."
    return launch.error if launch is not None else None


def is_followed(workspace: Workspace, name: str) -> bool:
    """Return whether a follower holds the tracker's folder."""
    return jobs.is_held(FileLock(folder_of(workspace, name) / LOCK))


def _environment(variables: tuple[str, ...]) -> dict[str, str]:
    own = {name: os.environ[name] for name in variables if name in os.environ}
    return inherited_environment() | own | {"OMP_NUM_THREADS": "1", "PYTHONUNBUFFERED": "1"}


def _shorten(log: Path) -> None:
    if log.exists() and log.stat().st_size > MAX_LOG_BYTES:
        log.unlink()
