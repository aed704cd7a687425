"""What a process meets when another of its group is gone, and what a process says that fails itself. Light."""

from __future__ import annotations

import re
import time
from pathlib import Path

from pydantic import ValidationError

from trainwright.trainer.run import Failure, write_atomically

LOST_PEER = 75
"""Exit code of a process that could not go on without another one: the cause lies there."""
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
    """Failures of the processes that do not write the run's record, in files of their own (`ranks/failure-N.json`)."""

    def __init__(self, run_path: Path) -> None:
        self.folder = run_path / "ranks"

    def clear(self, rank: int) -> None:
        """Forget what this process said in an earlier attempt."""
        self._path(rank).unlink(missing_ok=True)

    def tell(self, rank: int, failure: Failure) -> None:
        """Leave word of a failure. Raises StorageError."""
        self.folder.mkdir(exist_ok=True)
        write_atomically(self._path(rank), failure.model_dump_json(indent=2).encode())

    def first(self) -> tuple[int, Failure] | None:
        """Return the failure of the lowest rank that told one."""
        for path in sorted(self.folder.glob("failure-*.json"), key=lambda path: int(path.stem.rpartition("-")[2])):
            try:
                return int(path.stem.rpartition("-")[2]), Failure.model_validate_json(path.read_bytes())
            except (OSError, ValidationError):
                continue
        return None

    def wait(self, seconds: float = WORD_SECONDS) -> tuple[int, Failure] | None:
        """Return `first`, given some time: a process that was lost may be about to say why."""
        deadline = time.monotonic() + seconds
        while (told := self.first()) is None and time.monotonic() < deadline:
            time.sleep(0.05)
        return told

    def _path(self, rank: int) -> Path:
        return self.folder / f"failure-{rank}.json"
