"""Which of a run's processes this one is, by the standard variables. Light: read before torch is imported."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from trainwright.trainer.config import TrainingConfig
from trainwright.trainer.errors import ConfigurationError
from trainwright.trainer.launch_environment import launch_environment
from trainwright.trainer.run import RunDirectory, RunKind, RunSpecification

OWN_STORE = "TRAINWRIGHT_GROUP_STORE"
"""File through which the processes of a group that we launched find each other."""


@dataclass(frozen=True)
class Placement:
    """One process among those of a run.

    Attributes:
        store: file that the group meets at; None under an outer launcher, whose MASTER_ADDR and MASTER_PORT hold.
    """

    rank: int
    world_size: int
    local_rank: int
    local_world_size: int
    store: str | None = None

    @classmethod
    def of_environment(cls, environment: Mapping[str, str] | None = None) -> Self | None:
        """Return the placement that a launcher (ours, torchrun, accelerate launch) set, or None for a lone process.

        Raises:
            ConfigurationError: a variable is missing or no number.
        """
        given = os.environ if environment is None else environment
        if "RANK" not in given or "WORLD_SIZE" not in given:
            return None
        try:
            rank, world_size = int(given["RANK"]), int(given["WORLD_SIZE"])
            local_rank = int(given.get("LOCAL_RANK", rank))
            local_world_size = int(given.get("LOCAL_WORLD_SIZE", world_size))
        except ValueError as error:
            raise ConfigurationError(
                f"RANK, WORLD_SIZE or LOCAL_RANK is no whole number ({error}).",
                remedy="Start the workers with torchrun or accelerate launch, which set them.",
            ) from error
        if not 0 <= rank < world_size:
            raise ConfigurationError(
                f"RANK {rank} does not lie below WORLD_SIZE {world_size}.",
                remedy="Start the workers with torchrun or accelerate launch, which set both.",
            )
        return cls(rank, world_size, local_rank, local_world_size, given.get(OWN_STORE))

    def as_environment(self) -> dict[str, str]:
        """Return the standard variables."""
        values = {
            "RANK": str(self.rank),
            "WORLD_SIZE": str(self.world_size),
            "LOCAL_RANK": str(self.local_rank),
            "LOCAL_WORLD_SIZE": str(self.local_world_size),
        }
        return values | ({OWN_STORE: self.store} if self.store is not None else {})

    @property
    def is_first(self) -> bool:
        """Whether this process writes for all."""
        return self.rank == 0


def configuration_of(specification: RunSpecification) -> TrainingConfig:
    """Return what will be trained: a replay's is its source's."""
    if specification.kind is RunKind.REPLAY and specification.source_run is not None:
        return RunDirectory(Path(specification.source_run)).specification().config
    return specification.config


def processes_of(specification: RunSpecification) -> int:
    """Return how many processes work on a run: an export is made by one."""
    return 1 if specification.kind is RunKind.EXPORT else configuration_of(specification).distributed.processes


def take_launch_environment(module: str, run: RunDirectory) -> None:
    """Start this process anew as `python -P -m module RUN_DIR`, if another launcher left out what Python reads first.

    Hash order and thread counts cannot be set later; torchrun and accelerate launch know nothing of them.
    """
    if Placement.of_environment() is None:
        return
    wanted = launch_environment(run.specification().config)
    if any(os.environ.get(name) != value for name, value in wanted.items()):
        command = [sys.executable, "-P", "-m", module, str(run.path)]
        os.execve(sys.executable, command, os.environ | wanted)  # noqa: S606 - this very program
