"""A few kilobytes held back, so that a run on a full disk can still write why it failed."""

from __future__ import annotations

from pathlib import Path

from trainwright.trainer.failures import known_failure

BYTES = 64 * 1024


class Ballast:
    """A file of real bytes in the run directory, removed before the last record is written."""

    def __init__(self, folder: Path) -> None:
        self.path = folder / ".ballast"

    def hold(self) -> None:
        """Take the space. Raises StorageError when there is none: better now than after an hour of training."""
        try:
            self.path.write_bytes(bytes(BYTES))
        except OSError as error:
            raise known_failure(error) or error from error

    def drop(self) -> None:
        """Give the space back."""
        self.path.unlink(missing_ok=True)
