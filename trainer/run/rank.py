"""Rank of a process among a run's, and failures of its peers. Light: read before torch is imported."""

from __future__ import annotations

import os
import re
import sys
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from pydantic import ValidationError

from trainwright.trainer.base.errors import ConfigurationError
from trainwright.trainer.config import TrainingConfig
from trainwright.trainer.run import Failure, RunDirectory, RunKind, RunSpecification, write_atomically
from trainwright.trainer.run.environment import launch_environment

OWN_STORE = "TRAINWRIGHT_GROUP_STORE"
"""File through which the processes of a group that we launched find each other."""


@dataclass(frozen=True)
class Placement:
    """One process among those of a run.

    Attributes:
        store: file that the group meets at; None under an outer launcher, whose MASTER_ADDR and MASTER_PORT apply.
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
                f"RANK, WORLD_SIZE or LOCAL_RANK is no integer ({error}).",
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
    """Return the configuration to train: a replay's is its source's."""
    if specification.kind is RunKind.REPLAY and specification.source_run is not None:
        return RunDirectory(Path(specification.source_run)).specification().config
    return specification.config


def processes_of(specification: RunSpecification) -> int:
    """Return how many processes work on a run: an export is made by one."""
    return 1 if specification.kind is RunKind.EXPORT else configuration_of(specification).distributed.processes


def take_launch_environment(module: str, run: RunDirectory) -> None:
    """Start this process anew as `python -P -m module RUN_DIR`, if another launcher set the environment too late.

    Hash order and thread counts cannot be set later; torchrun and accelerate launch do not set them.
    """
    if Placement.of_environment() is None:
        return
    specification = run.specification()
    wanted, runtime = launch_environment(specification.config), specification.runtime
    if any(os.environ.get(name) != value for name, value in wanted.items()):
        here = [sys.executable, "-P", "-m", module, str(run.path)]
        command = here if runtime is None else [sys.executable, *runtime.command(module, str(run.path))[1:]]
        os.execve(sys.executable, command, os.environ | wanted)  # noqa: S606 - this very program


LOST_PEER = 75
"""Exit code of a process that could not continue without another one, where the cause is."""
WORD_SECONDS = 5.0
_TYPES = {"DistBackendError", "DistNetworkError", "DistStoreError"}
_WORDS = re.compile(r"gloo/transport|Connection (closed|reset) by peer|NCCL (error|communicator)|ncclRemoteError")


def is_lost_peer(error: BaseException | None) -> bool:
    """Return whether an exception says that another process of the group is gone or does not answer."""
    seen: set[int] = set()
    while error is not None and id(error) not in seen:
        seen.add(id(error))
        if type(error).__name__ in _TYPES or (isinstance(error, RuntimeError) and _WORDS.search(str(error))):
            return True
        error = error.__cause__ or error.__context__
    return False


class Failures:
    """Failures of the processes that do not write the run's record, each in a file (`ranks/failure-N.json`)."""

    def __init__(self, run_path: Path) -> None:
        self.folder = run_path / "ranks"

    def clear(self, rank: int) -> None:
        """Delete this process's failure of an earlier attempt."""
        self._path(rank).unlink(missing_ok=True)

    def report(self, rank: int, failure: Failure) -> None:
        """Record a failure. Raises StorageError."""
        self.folder.mkdir(exist_ok=True)
        write_atomically(self._path(rank), failure.model_dump_json(indent=2).encode())

    def first(self) -> tuple[int, Failure] | None:
        """Return the failure of the lowest rank that reported one."""
        for path in sorted(self.folder.glob("failure-*.json"), key=lambda path: int(path.stem.rpartition("-")[2])):
            try:
                return int(path.stem.rpartition("-")[2]), Failure.model_validate_json(path.read_bytes())
            except (OSError, ValidationError):
                continue
        return None

    def wait(self, seconds: float = WORD_SECONDS) -> tuple[int, Failure] | None:
        """Return `first`, given some time: a process that was lost may be about to say why."""
        deadline = time.monotonic() + seconds
        while (reported := self.first()) is None and time.monotonic() < deadline:
            time.sleep(0.05)
        return reported

    def _path(self, rank: int) -> Path:
        return self.folder / f"failure-{rank}.json"
