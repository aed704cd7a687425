"""DSSE envelopes: the statement's exact bytes with signatures over them (Dead Simple Signing Envelope, version 1)."""

from __future__ import annotations

import base64
import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from trainwright.trainer.base.errors import IntegrityError

if TYPE_CHECKING:
    from trainwright.tools.workspace.signing import PublicKey, Signer

PAYLOAD_TYPE = "application/vnd.in-toto+json"


@dataclass(frozen=True)
class Opened:
    """A statement as stored in a file."""

    statement: dict[str, Any]
    payload: bytes
    signatures: list[dict[str, str]]
    """{keyid, sig}; empty for a bare statement."""

    def is_signed_by(self, key: PublicKey) -> bool:
        """Return whether one of the signatures is this key's."""
        return any(
            key.has_signed(pre_authentication(self.payload), base64.b64decode(one["sig"])) for one in self.signatures
        )


def sealed(statement: dict[str, Any], signer: Signer | None) -> bytes:
    """Return the statement as JSON: bare, or in an envelope with the signer's signature."""
    payload = as_json(statement)
    if signer is None:
        return payload
    signature = base64.b64encode(signer.sign_bytes(pre_authentication(payload))).decode()
    return as_json(
        {
            "payloadType": PAYLOAD_TYPE,
            "payload": base64.b64encode(payload).decode(),
            "signatures": [{"keyid": signer.public.id, "sig": signature}],
        }
    )


def open_envelope(data: bytes) -> Opened:
    """Read what `sealed` wrote. Raises IntegrityError."""
    try:
        value = json.loads(data)
        if "payload" not in value:
            return Opened(value, data, [])
        payload = base64.b64decode(value["payload"], validate=True)
        signatures = [{"keyid": str(one["keyid"]), "sig": str(one["sig"])} for one in value["signatures"]]
        return Opened(json.loads(payload), payload, signatures)
    except (ValueError, TypeError, KeyError) as error:
        raise IntegrityError(
            f"This is no in-toto statement and no envelope of one: {error}.",
            remedy="`trainwright attest PROJECT` writes it anew.",
        ) from error


def pre_authentication(payload: bytes) -> bytes:
    """Return the signed bytes: type and payload with their lengths, so that neither can be taken for the other."""
    return b"DSSEv1 %d %s %d %s" % (len(PAYLOAD_TYPE), PAYLOAD_TYPE.encode(), len(payload), payload)


def as_json(value: dict[str, Any]) -> bytes:
    """Return the value as people and programs read it: the same bytes for the same value."""
    return (json.dumps(value, indent=2, sort_keys=True, ensure_ascii=False) + "\n").encode()
