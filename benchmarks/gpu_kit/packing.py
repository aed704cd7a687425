"""The archive: a manifest, then the files it lists, in the same bytes whenever they are the same."""

from __future__ import annotations

import hashlib
import io
import json
import lzma
import tarfile
from pathlib import Path
from typing import Any

MANIFEST = "kit.json"
FILTERS = [
    {"id": lzma.FILTER_X86},  # calls by absolute address repeat themselves: 3 % less
    {"id": lzma.FILTER_LZMA2, "preset": 9},
]


def pack(site: Path, facts: dict[str, Any], archive: Path) -> str:
    """Write the folder's files and the manifest as tar.xz, and return the archive's SHA-256.

    Args:
        site: the folder of packages.
        facts: the manifest but for its `files`: python, machine, glibc, packages, expects.
        archive: the file to write.
    """
    paths = sorted((path for path in site.rglob("*") if path.is_file()), key=lambda path: _place(path, site))
    digests = {path.relative_to(site).as_posix(): hashlib.sha256(path.read_bytes()).hexdigest() for path in paths}
    manifest = json.dumps({**facts, "files": digests}, indent=1, sort_keys=True).encode()
    archive.parent.mkdir(parents=True, exist_ok=True)
    partial = archive.with_name(f"{archive.name}.partial")  # packing takes minutes: half a kit must not look like one
    with (
        lzma.open(partial, "wb", format=lzma.FORMAT_XZ, check=lzma.CHECK_CRC64, filters=FILTERS) as compressed,
        tarfile.open(fileobj=compressed, mode="w", format=tarfile.PAX_FORMAT) as tar,
    ):
        _add(tar, MANIFEST, manifest, mode=0o644)
        for path in paths:
            mode = 0o755 if path.stat().st_mode & 0o100 else 0o644
            _add(tar, path.relative_to(site).as_posix(), path.read_bytes(), mode=mode)
    partial.replace(archive)
    return hashlib.sha256(archive.read_bytes()).hexdigest()


def _place(path: Path, site: Path) -> tuple[bool, str, str]:
    """Order compiled modules first, then by kind: what resembles each other compresses together."""
    return ".so" not in path.suffixes, path.suffix, path.relative_to(site).as_posix()


def _add(tar: tarfile.TarFile, name: str, content: bytes, *, mode: int) -> None:
    member = tarfile.TarInfo(name)  # owner, group and time are zero
    member.size, member.mode = len(content), mode
    tar.addfile(member, io.BytesIO(content))
