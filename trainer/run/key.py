"""Key pair of a run (Ed25519), and the signed record of its orderly end.

The public half is in the ledger's entry of the start; the secret half goes to the worker alone (`handover`), into no
file, argument or variable. The worker signs its checkpoints and, at an orderly end, the digests of its last records,
so that an edit made before a server had read the ended run is found.

Written before the last status, so that a crash between the two leaves an interrupted run, never an unsigned end.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import json
import os
from typing import TYPE_CHECKING, Any

from trainwright.trainer.base.canonical import canonical_json, digest_bytes
from trainwright.trainer.run.digests import run_digests
from trainwright.trainer.run.status import RunState

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

    from trainwright.trainer.run.directory import RunDirectory


SEED_BYTES = 32


class RunKey:
    """The secret half, and until the worker forgets them the secrets of the rows that planning fixes.

    All come from one seed: the run's key, the one-time key that signs fixed rows, and what draws a sample of them. A
    worker forgets the seed before it imports user code, so that no code in it can sign other rows. What Python itself
    loads first could (a sitecustomize on the server's path): whoever can put it there owns the server.
    """

    def __init__(self, seed: bytes | bytearray) -> None:
        """Take the 32 bytes that all is derived from. Raises ValueError for another number.

        Args:
            seed: a bytearray is kept itself and overwritten with the rest: user code can walk the frames that hold it.
        """
        self._seed = seed if isinstance(seed, bytearray) else bytearray(seed)
        self._key = _pair(self._secret(b"run"))

    @classmethod
    def new(cls) -> RunKey:
        """Make a new key pair."""
        return cls(os.urandom(SEED_BYTES))

    @property
    def seed(self) -> bytes:
        """The 32 bytes that all is derived from; for the launcher, before anything is forgotten. Raises ValueError."""
        return bytes(self._known())

    @property
    def rows_public(self) -> str:
        """The public half of the key for fixed rows, 64 hex digits. Raises ValueError once it is forgotten."""
        return _pair(self._secret(b"rows")).public_key().public_bytes_raw().hex()

    @property
    def rows_draw(self) -> int:
        """The seed by which a sample of rows is drawn. Raises ValueError once it is forgotten."""
        return int.from_bytes(self._secret(b"sample")[:8], "little")

    def sign_rows(self, text: str) -> str:
        """Return the rows key's signature over a text, in base64. Raises ValueError once the key is forgotten."""
        return base64.b64encode(_pair(self._secret(b"rows")).sign(text.encode())).decode()

    def forget_rows(self) -> None:
        """Overwrite what the rows' secrets come from; the run's key stays."""
        self._seed[:] = bytes(len(self._seed))
        del self._seed[:]

    def _secret(self, purpose: bytes) -> bytes:
        return hashlib.blake2b(self._known(), digest_size=SEED_BYTES, person=purpose).digest()

    def _known(self) -> bytearray:
        if len(self._seed) != SEED_BYTES:
            raise ValueError(f"a run's keys come from {SEED_BYTES} bytes, and there are {len(self._seed)}")
        return self._seed

    @property
    def public(self) -> str:
        """The public half, 64 hex digits."""
        return self._key.public_key().public_bytes_raw().hex()

    def sign(self, text: str) -> str:
        """Return the signature over a text, in base64."""
        return base64.b64encode(self._key.sign(text.encode())).decode()


def _pair(secret: bytes) -> Ed25519PrivateKey:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

    return Ed25519PrivateKey.from_private_bytes(secret)


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


def rows_statement(run_id: str, record: dict[str, Any]) -> str:
    """Return what the rows key signs: the record of fixed rows, without its signature."""
    rows = {name: value for name, value in record.items() if name != "signature"}
    return canonical_json({"purpose": "fixed rows", "run_id": run_id, "rows": rows})


def _statement(run: RunDirectory, digests: dict[str, str]) -> str:
    return canonical_json({"purpose": "end of a run", "run_id": run.run_id, "digests": digests})
