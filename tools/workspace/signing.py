"""Signatures of ledger entries (Ed25519), with a key that the workspace's owner keeps outside of the workspace.

An entry's digest covers the entry and, through the digest before it, everything earlier; its signature says that the
holder of the key wrote it. Worker processes inherit neither the key nor the variable that names it.
"""

from __future__ import annotations

import base64
import binascii
import os
import stat
from pathlib import Path

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.asymmetric.ec import EllipticCurvePrivateKey
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF
from cryptography.hazmat.primitives.serialization import load_pem_private_key, load_pem_public_key

from trainwright.trainer.base.canonical import digest_bytes
from trainwright.trainer.base.errors import ConfigurationError, ConflictError, NotFoundError, StorageError

VARIABLE = "TRAINWRIGHT_SIGNING_KEY"
SCHEME = "ed25519"
PURPOSE = b"trainwright ledger entry\n"
"""Goes before the digest, so that a signature of an entry can be passed off for nothing else."""
MODEL_PURPOSE = b"trainwright model signing"
P256_ORDER = 0xFFFFFFFF00000000FFFFFFFFFFFFFFFFBCE6FAADA7179E84F3B9CAC2FC632551
"""Of the curve's group (FIPS 186-5). 48 derived bytes are 16 more than it has: the bias is below 2^-128."""
KEY_ID_CHARACTERS = 16


class PublicKey:
    """The verifier's half of a key pair: checks whether the key's holder made a signature."""

    def __init__(self, key: Ed25519PublicKey) -> None:
        self._key = key
        self.id = digest_bytes(key.public_bytes_raw()).removeprefix("blake3:")[:KEY_ID_CHARACTERS]

    @classmethod
    def load(cls, path: Path) -> PublicKey:
        """Read a PEM file. Raises NotFoundError, ConfigurationError."""
        try:
            key = load_pem_public_key(_read(path))
        except ValueError:
            key = None
        if not isinstance(key, Ed25519PublicKey):
            raise ConfigurationError(
                f"{path.name} is not an Ed25519 public key in PEM.",
                remedy="Give the .pub file that `trainwright keys new` wrote beside the secret key.",
            )
        return cls(key)

    def has_signed(self, message: bytes, signature: bytes) -> bool:
        """Return whether the signature is this key's, over exactly these bytes."""
        try:
            self._key.verify(signature, message)
        except InvalidSignature:
            return False
        return True

    def fits(self, signature: str, digest: str) -> bool:
        """Return whether an entry's signature is this key's over the digest."""
        try:
            value = base64.b64decode(signature.rpartition(":")[2], validate=True)
        except binascii.Error:
            return False
        return self.has_signed(PURPOSE + digest.encode(), value)


class Signer:
    """The secret key in memory."""

    def __init__(self, key: Ed25519PrivateKey) -> None:
        self._key = key
        self.public = PublicKey(key.public_key())

    def sign(self, digest: str) -> str:
        """Return `ed25519:<key id>:<base64>` over an entry's digest."""
        value = base64.b64encode(self.sign_bytes(PURPOSE + digest.encode())).decode()
        return f"{SCHEME}:{self.public.id}:{value}"

    def sign_bytes(self, message: bytes) -> bytes:
        """Return the signature of these bytes, 64 bytes."""
        return self._key.sign(message)

    def model_key(self) -> EllipticCurvePrivateKey:
        """Return the key on P-256 that signs models, derived from the secret (HKDF-SHA256): the same every time."""
        derived = HKDF(SHA256(), 48, salt=None, info=MODEL_PURPOSE).derive(self._key.private_bytes_raw())
        return ec.derive_private_key(int.from_bytes(derived) % (P256_ORDER - 1) + 1, ec.SECP256R1())


def key_id_of(signature: str) -> str:
    """Return the id of the key that a signature says it was made by."""
    return signature.split(":")[1] if signature.count(":") == 2 else "unknown"


def key_path() -> Path:
    """Return where the owner's secret key is or would be: by the variable, else in the owner's configuration folder."""
    named = os.environ.get(VARIABLE)
    if named:
        return Path(named).expanduser()
    base = os.environ.get("XDG_CONFIG_HOME") or "~/.config"
    return Path(base).expanduser() / "trainwright" / "signing.key"


def public_path(path: Path) -> Path:
    """Return the path of a secret key's public key."""
    return path.with_name(f"{path.name}.pub")


def model_public_path(path: Path) -> Path:
    """Return the path of the public key that checks the signatures of models."""
    return path.with_name(f"{path.name}.model.pub")


def public_pem(key: Ed25519PrivateKey | EllipticCurvePrivateKey) -> bytes:
    """Return a key's public half as PEM."""
    form = serialization.PublicFormat.SubjectPublicKeyInfo
    return key.public_key().public_bytes(serialization.Encoding.PEM, form)


def new_key(path: Path) -> Signer:
    """Make a key: the secret one for its owner's eyes only (mode 0600), its public halves beside it.

    Raises:
        ConflictError: there is a key already.
        StorageError: the folder cannot be written.
    """
    key = Ed25519PrivateKey.generate()
    secret = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    signer = Signer(key)
    public, of_models = public_pem(key), public_pem(signer.model_key())
    try:
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        written = (
            (path, secret, 0o600),
            (public_path(path), public, 0o644),
            (model_public_path(path), of_models, 0o644),
        )
        for target, content, mode in written:
            with os.fdopen(os.open(target, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode), "wb") as file:
                file.write(content)
    except FileExistsError as error:
        raise ConflictError(
            f"There is a key at {error.filename} already.", remedy="Use it, or name another place with --key FILE."
        ) from error
    except OSError as error:
        raise StorageError(
            f"The key cannot be written to {path.parent}: {error.strerror}.", remedy="Name another place: --key FILE."
        ) from error
    return signer


def load_signer(workspace: Path) -> Signer | None:
    """Return the owner's key, or None when there is none and none was asked for.

    Raises:
        NotFoundError: the variable names a file that is not there.
        ConfigurationError: not an Ed25519 key, readable by others, or inside the workspace.
    """
    from_variable = bool(os.environ.get(VARIABLE))
    path = key_path()
    if not from_variable and not path.is_file():
        return None
    _check_place(path, workspace)
    try:
        key = load_pem_private_key(_read(path), password=None)
    except (ValueError, TypeError):
        key = None
    if not isinstance(key, Ed25519PrivateKey):
        raise ConfigurationError(
            f"{path.name} is not an Ed25519 secret key in PEM without a password.",
            remedy="`trainwright keys new --key FILE` makes one.",
        )
    return Signer(key)


def _check_place(path: Path, workspace: Path) -> None:
    if path.resolve().is_relative_to(workspace.resolve()):
        raise ConfigurationError(
            "The signing key lies in the workspace, where everything is read and written for agents.",
            remedy="Move it out of the workspace, to a place that only you can read.",
        )
    if path.is_file() and (mode := stat.S_IMODE(path.stat().st_mode)) & 0o077:
        raise ConfigurationError(
            f"The signing key {path.name} may be read by others (mode {mode:04o}).", remedy=f"chmod 600 {path}"
        )


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise NotFoundError(
            f"The key {path} cannot be read: {error.strerror}.",
            remedy="Name another with --key FILE or --public-key FILE; `trainwright keys new` makes a pair.",
        ) from error
