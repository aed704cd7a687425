"""The digests of an ended run, recorded in the ledger so that a later edit of any of its files is found."""

from __future__ import annotations

from typing import TYPE_CHECKING

from trainwright.tools.ledger.run_keys import unsigned_checkpoints
from trainwright.trainer.canonical import digest_file
from trainwright.trainer.checkpoints.index import list_checkpoints, verify_checkpoint
from trainwright.trainer.run.digests import run_digests

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from pathlib import Path

    from trainwright.tools.ledger.facts import Tombstone
    from trainwright.trainer.checkpoints.index import CheckpointRecord
    from trainwright.trainer.run import RunDirectory


class Inspection:
    """What is read of runs' files, each file once however many decisions rest on it.

    Args:
        digest: reads a large file: anew, or (`remembered_digest`) only when it may have changed since this server did.
    """

    def __init__(self, digest: Callable[[Path], str] = digest_file) -> None:
        self.digest = digest
        self._digests: dict[Path, dict[str, str] | str] = {}
        self._checkpoints: dict[Path, list[str]] = {}

    def digests(self, run: RunDirectory) -> dict[str, str] | str:
        """Return the run's digests as they are now, or why its files cannot be read."""
        if run.path not in self._digests:
            try:
                self._digests[run.path] = run_digests(run)
            except Exception as error:  # noqa: BLE001 - a file damaged in any way is a difference, not a crash
                self._digests[run.path] = str(error)
        return self._digests[run.path]

    def checkpoint_problems(
        self, run: RunDirectory, keys: Sequence[str | None], pruned: Mapping[str, Tombstone] | None = None
    ) -> list[str]:
        """Return what is wrong with the run's checkpoints, every file compared. Raises TrainwrightError.

        Args:
            keys: public keys of the run's attempts.
            pruned: tombstones of its checkpoints by name.
        """
        if run.path not in self._checkpoints:
            stones = pruned or {}
            problems = [
                (record.name, what)
                for record in list_checkpoints(run)
                for what in verify_checkpoint(
                    record.path, self.digest, is_pruned=is_tombstone_of(stones.get(record.name), record)
                )
            ]
            problems += unsigned_checkpoints(run, keys)
            self._checkpoints[run.path] = [f"run {run.run_id}: checkpoint {name}: {what}" for name, what in problems]
        return self._checkpoints[run.path]


def is_tombstone_of(stone: Tombstone | None, record: CheckpointRecord) -> bool:
    """Return whether a tombstone is this checkpoint's: a later one of the same name has another digest."""
    return stone is not None and stone.digest == record.digest


def seal_differences(run: RunDirectory, sealed: dict[str, str], inspection: Inspection | None = None) -> list[str]:
    """Return one sentence for every file that was changed, removed or added since the run was sealed."""
    return [f"run {run.run_id}: {what}" for _, what in changed_files(run, sealed, inspection or Inspection())]


def changed_files(run: RunDirectory, sealed: dict[str, str], inspection: Inspection) -> list[tuple[str, str]]:
    """Return (name, what happened to it) of every file that is not as it was sealed; name is empty if unknown."""
    found = inspection.digests(run)
    if isinstance(found, str):
        return [("", f"its files can no longer be read ({found})")]
    if not sealed:
        return [("", "it was sealed with no record that could be trusted")]
    changed = [name for name in sorted(sealed) if found.get(name) != sealed[name]]
    return [
        *((name, f"{name} was {'changed' if name in found else 'removed'} after it was sealed") for name in changed),
        *((name, f"{name} was added after it was sealed") for name in sorted(found.keys() - sealed)),
    ]
