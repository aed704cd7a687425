"""The last record of a run that ended in order, signed with the run's key: `end.json`.

Written before the last status, so that a crash between the two leaves an interrupted run, never an unsigned end.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from trainwright.trainer.canonical import canonical_json, digest_bytes
from trainwright.trainer.run.digests import run_digests
from trainwright.trainer.run.key import has_signed
from trainwright.trainer.run.status import RunState

if TYPE_CHECKING:
    from trainwright.trainer.run.directory import RunDirectory
    from trainwright.trainer.run.key import RunKey

END = "end.json"
SIGNED = frozenset({RunState.COMPLETED, RunState.STOPPED})
"""States that a worker reaches in order. One that fails, or is killed, may have no time left to sign."""


def end_record(run: RunDirectory, status: bytes, key: RunKey) -> bytes:
    """Return what `end.json` is to hold: the digests of the run as it will stand with that last status, signed.

    Evidence counts as this process has written it, whatever stands in its place by now.
    """
    digests = run_digests(run) | run.written | {"status.json": digest_bytes(status)}
    signature = key.sign(_statement(run, digests))
    return json.dumps({"digests": digests, "signature": signature}, indent=2, sort_keys=True).encode()


def signed_digests(run: RunDirectory, public: str) -> dict[str, str] | None:
    """Return the digests that the run's worker has signed at its end; None without its signature."""
    try:
        value = json.loads((run.path / END).read_bytes())
        digests, signature = dict(value["digests"]), value["signature"]
        signed = has_signed(public, _statement(run, digests), signature)
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
        return None
    return digests if signed else None


def _statement(run: RunDirectory, digests: dict[str, str]) -> str:
    return canonical_json({"purpose": "end of a run", "run_id": run.run_id, "digests": digests})
