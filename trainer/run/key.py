"""Key pair of a run (Ed25519), and the signed record of its orderly end.

The public half is in the ledger's entry of the start; the secret half goes to the worker alone (`handover`), into no
file, argument or variable. The worker signs its checkpoints and, at an orderly end, the digests of its last records,
so that an edit made before a server had read the ended run is found.

Written before the last status, so that a crash between the two leaves an interrupted run, never an unsigned end.
"""

from __future__ import annotations

import base64
import binascii
import json
import os
from typing import TYPE_CHECKING

from trainwright.trainer.base.canonical import canonical_json, digest_bytes
from trainwright.trainer.run.digests import run_digests
from trainwright.trainer.run.status import RunState

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

    from trainwright.trainer.run.directory import RunDirectory


SEED_BYTES = 32


class RunKey:
    """The secret half."""

    def __init__(self, key: Ed25519PrivateKey) -> None:
        self._key = key

    @classmethod
    def new(cls) -> RunKey:
        """Make a new key pair."""
        return cls.of_seed(os.urandom(SEED_BYTES))

    @classmethod
    def of_seed(cls, seed: bytes) -> RunKey:
        """Return the key pair of 32 bytes. Raises ValueError."""
        from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

        return cls(Ed25519PrivateKey.from_private_bytes(seed))

    @property
    def seed(self) -> bytes:
        """The 32 bytes that the pair is derived from."""
        return self._key.private_bytes_raw()

    @property
    def public(self) -> str:
        """The public half, 64 hex digits."""
        return self._key.public_key().public_bytes_raw().hex()

    def sign(self, text: str) -> str:
        """Return the signature over a text, in base64."""
        return base64.b64encode(self._key.sign(text.encode())).decode()


def has_signed(public: str, text: str, signature: object) -> bool:
    """Return whether the signature is that of the public key (64 hex digits) over exactly this text."""
    from cryptography.exceptions import InvalidSignature
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

    if not isinstance(signature, str):
        return False
    try:
        key = Ed25519PublicKey.from_public_bytes(bytes.fromhex(public))
        key.verify(base64.b64decode(signature, validate=True), text.encode())
    except (ValueError, binascii.Error, InvalidSignature):
        return False
    return True


END = "end.json"
SIGNED = frozenset({RunState.COMPLETED, RunState.STOPPED})
"""States that a worker reaches in order. One that fails, or is killed, may have no time left to sign."""


def end_record(run: RunDirectory, status: bytes, key: RunKey) -> bytes:
    """Return the content of `end.json`: the digests of the run as it will be with that last status, signed.

    Evidence counts as this process has written it, whatever its file holds by now.
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
