"""Launchers by name: the ways to start a run's worker, one file each."""

from __future__ import annotations

from pathlib import Path

from trainwright.tools.launchers.environment import Gpu
from trainwright.tools.launchers.launcher import LAUNCH, Launch, Launcher, read_launch, write_launch
from trainwright.tools.launchers.local import Local
from trainwright.tools.launchers.outer import Outer
from trainwright.tools.launchers.warm import WarmLimits
from trainwright.trainer.base.errors import TrainwrightError
from trainwright.trainer.config import TrainingConfig
from trainwright.trainer.run import RunDirectory, RunKind, RunStatus

_OWN = Local()
LAUNCHERS: dict[str, Launcher] = {launcher.name: launcher for launcher in (_OWN, Outer())}
"""Those that `distributed.launcher` can name."""


def launcher_of(kind: RunKind, config: TrainingConfig) -> Launcher:
    """Return the launcher of such a run. An export is one short process, and is made where the server is."""
    return LAUNCHERS["own" if kind is RunKind.EXPORT else config.distributed.launcher]


def may_begin(launch: Launch) -> bool:
    """Return whether a process that has not taken its lock yet may still do so."""
    return launch.error is None and recorded_launcher(launch).may_begin(launch)


def is_living(directory: RunDirectory, status: RunStatus | None = None) -> bool:
    """Return whether a worker holds the run, or may still start it, by its status where that has been read already."""
    if directory.is_locked():
        return True
    launch = read_launch(directory.path)
    try:
        return launch is not None and (status or directory.status()).attempt < launch.attempt and may_begin(launch)
    except TrainwrightError:
        return False


def recorded_launcher(launch: Launch) -> Launcher:
    """Return the launcher that has a launch in hand."""
    return LAUNCHERS.get(launch.launcher, LAUNCHERS["own"])


def keep_warm(folder: Path, *, most: int, idle_seconds: float) -> None:
    """Let the runs that this process starts leave warm processes behind for the next; files in the folder count them.

    Args:
        folder: the workspace's.
        most: warm processes of the workspace; 0: none, and those of this process end.
        idle_seconds: how long one waits for a run.
    """
    _OWN.warm.limits = WarmLimits(folder, most, idle_seconds)
    if not most:
        _OWN.warm.close()


def await_warm() -> None:
    """Let each run that this process starts wait for its warm process: many of a kind follow."""
    _OWN.warm.are_awaited = True


__all__ = [
    "LAUNCH",
    "LAUNCHERS",
    "Gpu",
    "Launch",
    "Launcher",
    "await_warm",
    "is_living",
    "keep_warm",
    "launcher_of",
    "may_begin",
    "read_launch",
    "recorded_launcher",
    "write_launch",
]
