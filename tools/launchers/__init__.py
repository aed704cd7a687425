"""Launchers by name: the ways to start a run's worker, one file each."""

from __future__ import annotations

from typing import TYPE_CHECKING

from trainwright.tools.launchers.launcher import LAUNCH, Launch, Launcher, read_launch, write_launch
from trainwright.tools.launchers.local import Local
from trainwright.tools.launchers.outer import Outer
from trainwright.trainer.run import RunKind

if TYPE_CHECKING:
    from trainwright.trainer.config import TrainingConfig

LAUNCHERS: dict[str, Launcher] = {launcher.name: launcher for launcher in (Local(), Outer())}
"""Those that `distributed.launcher` can name."""


def launcher_of(kind: RunKind, config: TrainingConfig) -> Launcher:
    """Return the launcher of such a run. An export is one short process, and is made where the server is."""
    return LAUNCHERS["own" if kind is RunKind.EXPORT else config.distributed.launcher]


def may_begin(launch: Launch) -> bool:
    """Return whether a process that has not taken its lock yet may still do so."""
    return launch.error is None and recorded_launcher(launch).may_begin(launch)


def recorded_launcher(launch: Launch) -> Launcher:
    """Return the launcher that has a launch in hand."""
    return LAUNCHERS.get(launch.launcher, LAUNCHERS["own"])


__all__ = [
    "LAUNCH",
    "LAUNCHERS",
    "Launch",
    "Launcher",
    "launcher_of",
    "may_begin",
    "read_launch",
    "recorded_launcher",
    "write_launch",
]
