"""Canonical JSON and digests: equal values give equal bytes, on every machine."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from blake3 import blake3

from trainwright.trainer.base.paths import files_in

CHUNK_BYTES = 1 << 20


def canonical_json(value: Any) -> str:
    """Return `value` as JSON with sorted keys and no white space. NaN and infinity raise ValueError."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False)


def digest_bytes(data: bytes) -> str:
    """Return `blake3:<64 hex digits>` of the bytes."""
    return f"blake3:{blake3(data).hexdigest()}"


def number_of(text: str) -> int:
    """Return the number of a text, the same on every machine: of 56 bits."""
    return int.from_bytes(blake3(text.encode()).digest(length=7), "big")


def digest_json(value: Any) -> str:
    """Return the digest of the value's canonical JSON."""
    return digest_bytes(canonical_json(value).encode())


def digest_file(path: Path) -> str:
    """Return the digest of the file's content, read in pieces. Raises OSError when it cannot be read."""
    hasher = blake3()
    with path.open("rb") as file:
        while chunk := file.read(CHUNK_BYTES):
            hasher.update(chunk)
    return f"blake3:{hasher.hexdigest()}"


def sha256_of_file(path: Path) -> str:
    """Return the SHA-256 of a file's content in hex digits, read in pieces. Raises OSError."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def digest_path(path: Path, digest: Callable[[Path], str] = digest_file) -> str:
    """Return the digest of a file, or of a folder: names and contents of `files_in` it. Raises OSError."""
    if not path.is_dir():
        return digest(path)
    return digest_json([[name, digest(path / name)] for name in files_in(path)])
