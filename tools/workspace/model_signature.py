"""Signature of the final model in the form of OpenSSF Model Signing, which its own verifier checks without Trainwright.

The verifier takes keys on NIST's curves and no Ed25519, which signs the ledger. So the key on P-256 is derived from the
owner's key: one secret to keep, two public halves. Without an owner's key, a key is made for this one model and
forgotten after signing: it shows that no file was changed since, not who signed. The ledger names its public half.
"""

from __future__ import annotations

import os
import re
import tempfile
from pathlib import Path

from trainwright.tools.workspace.signing import Signer, public_pem
from trainwright.trainer.base.errors import IntegrityError
from trainwright.trainer.run import write_atomically

SIGNATURE, PUBLIC_KEY = "model.sig", "model_signing.pub"
COMMAND = (
    "python -m model_signing verify key final_model"
    f" --signature final_model/{SIGNATURE} --public_key final_model/{PUBLIC_KEY}"
)
"""From the project's folder."""


class ModelKey:
    """The key that signs one final model."""

    def __init__(self, signer: Signer | None) -> None:
        from cryptography.hazmat.primitives.asymmetric import ec

        self.is_owners = signer is not None
        self._key = signer.model_key() if signer is not None else ec.generate_private_key(ec.SECP256R1())

    def write_public(self, folder: Path) -> None:
        """Write the public half into the model's folder, as PEM: it is signed with the other files."""
        write_atomically(folder / PUBLIC_KEY, public_pem(self._key))

    def sign(self, folder: Path) -> None:
        """Write `model.sig` over every file of the folder. Raises OSError."""
        from cryptography.hazmat.primitives import serialization
        from model_signing import hashing, signing

        secret = self._key.private_bytes(
            serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
        )
        with tempfile.TemporaryDirectory() as private:  # mode 0700; the library reads keys from files only
            path = Path(private) / "key.pem"
            with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
                file.write(secret)
            hashed = hashing.Config().set_ignored_paths(paths=[folder / SIGNATURE])
            signer = signing.Config().use_elliptic_key_signer(private_key=path).set_hashing_config(hashed)
            signer.sign(folder, folder / SIGNATURE)


DIFFERING = re.compile(r"Hash mismatch for '([^']+)'|files(?: found)? in model '[^']*': ([^\"\]]+)")
"""Names in what the verifier says of a folder."""


def require_signed(folder: Path) -> None:
    """Compare every file of a model's folder with its signature, by the public half that lies in the folder.

    Raises:
        IntegrityError: a file was changed, added or removed, or the signature is none.
    """
    from model_signing import hashing, verifying

    compiled = folder.rglob("__pycache__")  # left by whoever imported load.py; no service takes it along
    hashed = hashing.Config().set_ignored_paths(paths=[folder / SIGNATURE, *compiled])
    verifier = verifying.Config().use_elliptic_key_verifier(public_key=folder / PUBLIC_KEY).set_hashing_config(hashed)
    try:
        verifier.verify(folder, folder / SIGNATURE)
    except Exception as error:  # of several libraries
        said = str(error).replace("\\", "")  # a list's repr escapes names
        names = ", ".join(one or other for one, other in DIFFERING.findall(said))
        raise IntegrityError(
            f"{folder.name} is not the released one: {SIGNATURE} has another {names}."
            if names
            else f"{folder.name}: {SIGNATURE} does not fit it ({' '.join(said.split())[:200]}).",
            remedy="Take the folder from a backup; `trainwright verify` names what was changed.",
        ) from error
