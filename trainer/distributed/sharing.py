"""How one batch of the run is divided among its processes."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Share:
    """The part of every batch that one of `processes` takes: neighbouring rows, at most one more than any other."""

    rank: int
    processes: int

    def rows(self, size: int) -> slice:
        """Return this process's rows of a batch of `size`.

        A batch with fewer rows than processes leaves some without any. They take the whole batch, so that every
        process goes through the same exchanges, and count it for nothing (`is_spare`).
        """
        if self.is_spare(size):
            return slice(0, size)
        return slice(self._start(self.rank, size), self._start(self.rank + 1, size))

    def is_spare(self, size: int) -> bool:
        """Return whether no row of a batch of `size` is this process's own; rank 0 always has one."""
        return self._start(self.rank, size) == self._start(self.rank + 1, size)

    def _start(self, rank: int, size: int) -> int:
        return -(-rank * size // self.processes)
