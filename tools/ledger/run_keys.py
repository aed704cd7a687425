"""Run keys: workers' signatures, compared with the files found."""

from __future__ import annotations

from typing import TYPE_CHECKING

from trainwright.trainer.checkpoints.index import checkpoint_folders, read_manifest
from trainwright.trainer.run.artifacts import FixedRows
from trainwright.trainer.run.digests import run_digests
from trainwright.trainer.run.key import END, SIGNED, has_signed, rows_statement, signed_digests

if TYPE_CHECKING:
    from collections.abc import Sequence

    from trainwright.trainer.run import RunDirectory, RunState


def digests_to_seal(run: RunDirectory, key: str | None, state: RunState) -> tuple[dict[str, str], str | None]:
    """Return the digests to seal an ended run with, and why they are none.

    They are those that the worker signed at its end, so that an edit made since is found like any later one. A run
    without a key (another launcher started its worker), or one that failed or was killed, is sealed as it is found.

    Args:
        key: the public key of the run's newest attempt, as the ledger recorded it.

    Raises:
        TrainwrightError, OSError: the run's files cannot be read.
    """
    if key is None or state not in SIGNED:
        return run_digests(run), None
    signed = signed_digests(run, key)
    if signed is None:
        return {}, f"its worker has not signed that it was {state.value} ({END})"
    return signed, None


def end_differences(run: RunDirectory, key: str | None, state: str, sealed: dict[str, str]) -> list[str]:
    """Return one sentence if the run's signed end is not what was sealed."""
    if key is None or state not in SIGNED or not sealed:
        return []
    signed = signed_digests(run, key)
    if signed is None:
        return [f"run {run.run_id}: {END} does not bear its worker's signature any more"]
    same = {name: digest for name, digest in signed.items() if name != "run.json"}
    was = {name: digest for name, digest in sealed.items() if name != "run.json"}
    return [] if same == was else [f"run {run.run_id}: it was sealed otherwise than its worker signed"]


def rows_problem(run: RunDirectory, key: str | None) -> str | None:
    """Return what is wrong with the record of the rows that a run fixed; None where it is signed, or there is none.

    Args:
        key: the public rows key, as the ledger recorded it at the run's start.

    Raises:
        IntegrityError: the record cannot be read.
    """
    record = None if key is None else run.evidence(FixedRows.file)
    if key is None or record is None or has_signed(key, rows_statement(run.run_id, record), record.get("signature")):
        return None
    return f"the rows that it fixed (artifacts/{FixedRows.file}.json) do not bear its rows key's signature"


def unsigned_checkpoints(run: RunDirectory, keys: Sequence[str | None]) -> list[tuple[str, str]]:
    """Return (checkpoint, problem) for each checkpoint that none of the run's attempts has signed.

    Args:
        keys: public keys of all attempts; with one unknown, or none, nothing can be said.
    """
    if not keys or None in keys:
        return []
    found = []
    for folder in checkpoint_folders(run.checkpoints):
        manifest = read_manifest(folder)
        if manifest is None:
            continue  # not intact: it is passed over, and `verify_checkpoint` says so
        signature = manifest.get("signature")
        if not any(key is not None and has_signed(key, manifest["digest"], signature) for key in keys):
            found.append((folder.name, "the run's worker has not signed it"))
    return found
