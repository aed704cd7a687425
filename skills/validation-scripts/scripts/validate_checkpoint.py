#!/usr/bin/env python3
"""Validate weights without loading them: safetensors files, sharded folders, Trainwright's checkpoints.

    python validate_checkpoint.py model.safetensors [--sha256 DIGEST]
    python validate_checkpoint.py folder/

Checked are header, offsets and length (a truncated file), values that are not finite, shards against their index, and
digests: the one given, SHA256SUMS, and `manifest.json` of a Trainwright checkpoint (that needs the package blake3).
Files that would run code when they are loaded (pickle) are named, and never opened. The standard library is enough;
with numpy it is faster. Exit code 0: good; 1: found something; 2: cannot be read. The last line is one JSON object.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import struct
import sys
from array import array
from collections.abc import Iterable
from itertools import pairwise
from math import prod
from pathlib import Path
from typing import Any, BinaryIO

sys.path.insert(0, str(Path(__file__).resolve().parent))
from findings import Outcome, UncheckableError, is_there, run

SUFFIX, INDEX, SUMS, MANIFEST = ".safetensors", "*.safetensors.index.json", "SHA256SUMS", "manifest.json"
PICKLES = (".pt", ".pth", ".bin", ".pkl", ".pickle", ".ckpt", ".joblib")
MAX_HEADER_BYTES = 100 * 2**20
CHUNK_BYTES = 2**22
BYTES = {"BOOL": 1, "U8": 1, "I8": 1, "F8_E4M3": 1, "F8_E5M2": 1, "F8_E8M0": 1, "I16": 2, "U16": 2, "F16": 2, "BF16": 2,
         "I32": 4, "U32": 4, "F32": 4, "F64": 8, "I64": 8, "U64": 8, "C64": 8}  # fmt: skip
EXPONENTS = {"F16": ("H", 0x7C00), "BF16": ("H", 0x7F80), "F32": ("I", 0x7F800000), "F64": ("Q", 0x7FF << 52)}
"""Unsigned type and mask of the exponent: all ones mean that a value is infinite or no number."""


def main() -> int:
    """Validate, print, and return the exit code."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("path", type=Path, help="a .safetensors file, or a folder with weights")
    parser.add_argument("--sha256", help="the file's digest, in hex")
    options = parser.parse_args()
    return run(options.path.name, lambda outcome: check(outcome, options.path, options.sha256))


def check(outcome: Outcome, path: Path, sha256: str | None) -> None:
    """Check a file, or every weights file of a folder. Raises UncheckableError."""
    if path.is_file():
        files = [path]
    elif path.is_dir():
        files = sorted(one for one in path.rglob("*") if one.is_file())
    else:
        raise UncheckableError(f"There is nothing at {path}.", "Name a .safetensors file or a folder with weights.")
    weights = [one for one in files if one.suffix == SUFFIX]
    pickled = [one for one in files if one.suffix in PICKLES]
    indexes = sorted(path.rglob(INDEX)) if path.is_dir() else []
    if not weights and not pickled and not indexes:
        raise UncheckableError(f"{path} holds no weights file.", f"Weights end in {SUFFIX}.")
    for one in pickled:
        outcome.found(
            "pickle", f"{one.name} may run code when it is loaded", f"Ask for it as {SUFFIX}; do not load it."
        )
    headers = {one: _header(outcome, one) for one in weights}
    tensors = {one: header for one, header in headers.items() if header is not None}
    for one, header in tensors.items():
        _check_values(outcome, one, header)
    for index in indexes:
        _check_shards(outcome, index, tensors)
    _check_digests(outcome, path, sha256)
    outcome.facts = {"files": len(weights), "tensors": sum(map(len, tensors.values()))}


def _header(outcome: Outcome, path: Path) -> dict[str, Any] | None:
    """Return {name: {dtype, shape, data_offsets}} of an intact file, with offsets from its beginning; else None."""
    size = path.stat().st_size
    with path.open("rb") as file:
        length = int.from_bytes(file.read(8), "little")
        if size < 8 or length > min(MAX_HEADER_BYTES, size - 8):
            outcome.found("truncated", f"{path.name} ends within its header ({size} bytes)", "Fetch the file again.")
            return None
        try:
            header = _tensors(json.loads(file.read(length)))
        except (ValueError, RecursionError) as error:
            what = f"{path.name} has a header that cannot be read ({type(error).__name__}: {str(error)[:80]})"
            outcome.found("header", what, "Fetch the file again, or write it again with the safetensors library.")
            return None
    places = sorted((*one["data_offsets"], name) for name, one in header.items())
    known = {name: one for name, one in header.items() if one["dtype"] in BYTES}
    sizes = {name: BYTES[one["dtype"]] * prod(one["shape"]) for name, one in known.items()}
    ends = max((end for _, end, _ in places), default=0)
    if 8 + length + ends != size:
        word = "truncated" if 8 + length + ends > size else "trailing"
        text = f"{path.name} has {size} bytes where its header says {8 + length + ends}"
        outcome.found(word, text, "Fetch the file again; compare its length with the source's.")
        return None
    if unknown := sorted({one["dtype"] for one in header.values()} - BYTES.keys()):
        outcome.not_checked.append(f"{path.name}: sizes and values of {', '.join(unknown)}")
    torn = [name for begin, end, name in places if end - begin != sizes.get(name, end - begin)]
    torn += [name for begin, _, name in places[:1] if begin != 0]
    torn += [two[2] for one, two in pairwise(places) if one[1] != two[0]]
    if torn:
        outcome.found("offsets", f"{path.name}: {torn[0]} does not lie where its shape says", "Write the file again.")
        return None
    return {name: {**one, "begin": 8 + length + one["data_offsets"][0]} for name, one in header.items()}


def _tensors(header: Any) -> dict[str, Any]:
    """Return the tensors of a header whose every value is of the type that the format has. Raises ValueError."""
    if not isinstance(header, dict):
        raise ValueError(f"it is a {type(header).__name__}, and must be an object")
    tensors = {name: one for name, one in header.items() if name != "__metadata__"}
    for name, one in tensors.items():
        if not isinstance(one, dict) or not isinstance(one.get("dtype"), str):
            raise ValueError(f"{name!r} has no dtype")
        if not _is_sizes(one.get("shape")):
            raise ValueError(f"the shape of {name!r} must be a list of sizes")
        offsets: Any = one.get("data_offsets")
        if not _is_sizes(offsets) or len(offsets) != 2 or offsets[0] > offsets[1]:
            raise ValueError(f"data_offsets of {name!r} must be where it begins and where it ends")
    return tensors


def _is_sizes(given: Any) -> bool:
    return isinstance(given, list) and all(type(one) is int and one >= 0 for one in given)


def _check_values(outcome: Outcome, path: Path, header: dict[str, Any]) -> None:
    unknown = set()
    with path.open("rb") as file:
        for name, one in header.items():
            if one["dtype"] not in EXPONENTS:
                if one["dtype"].startswith("F") and one["dtype"] in BYTES:
                    unknown.add(one["dtype"])
                continue
            begin, end = one["data_offsets"]
            file.seek(one["begin"])
            count = _not_finite(file, end - begin, *EXPONENTS[one["dtype"]])
            if count:
                text = f"{path.name}: {name} {one['shape']} has {count} values that are infinite or no number"
                outcome.found("not_finite", text, "Take an earlier checkpoint, and find where the loss burst.")
    for dtype in sorted(unknown):
        outcome.not_checked.append(f"{path.name}: whether values of {dtype} are finite")


def _not_finite(file: BinaryIO, length: int, code: str, mask: int) -> int:
    """Return how many of the values in the next `length` bytes have an exponent of ones."""
    count = 0
    while length > 0:
        chunk = file.read(min(CHUNK_BYTES, length))
        length -= len(chunk) or length
        count += _in_chunk(chunk, code, mask)
    return count


def _in_chunk(chunk: bytes, code: str, mask: int) -> int:
    size = struct.calcsize(f"<{code}")
    try:
        import numpy as np
    except ImportError:
        values = array(code if array(code).itemsize == size else "L", chunk)
        if sys.byteorder == "big":
            values.byteswap()
        return sum(value & mask == mask for value in values)
    found = np.frombuffer(chunk, dtype=f"<u{size}")
    return int(np.count_nonzero((found & mask) == mask))


def _check_shards(outcome: Outcome, index: Path, tensors: dict[Path, dict[str, Any]]) -> None:
    """Compare an index of shards with the files beside it."""
    try:
        places = _names(json.loads(index.read_text(encoding="utf-8"))["weight_map"])
    except (ValueError, TypeError, KeyError, RecursionError) as error:
        outcome.found("index", f"{index.name} cannot be read ({type(error).__name__})", "Fetch the index again.")
        return
    for shard in sorted(set(places.values())):
        expected = {name for name, file in places.items() if file == shard}
        path = index.parent / shard
        if not is_there(path, is_file=True):
            text = f"{shard} is missing; {index.name} has {len(expected)} tensors in it"
            outcome.found("missing_shard", text, "Fetch the shard; without it the model cannot be loaded.")
        elif path in tensors and (differ := expected.symmetric_difference(tensors[path])):
            text = f"{shard} and {index.name} differ in {len(differ)} tensors: {', '.join(sorted(differ)[:3])}"
            outcome.found("shard_content", text, "Index and shards are of two versions: fetch all of them again.")


def _names(given: Any) -> dict[str, str]:
    """Return an object whose values are names. Raises TypeError."""
    if not isinstance(given, dict) or not all(isinstance(one, str) for one in given.values()):
        raise TypeError("not an object of names")
    return given


def _check_digests(outcome: Outcome, path: Path, sha256: str | None) -> None:
    if sha256 is not None:
        if not path.is_file():
            raise UncheckableError(
                "--sha256 is the digest of one file.", f"Name a file, or put {SUMS} into the folder."
            )
        _compare(outcome, path, sha256, _digest(path, hashlib.sha256()))
    folders = [path] if path.is_dir() else []
    for sums in (found for folder in folders for found in folder.rglob(SUMS)):
        _check_sums(outcome, sums)
    for manifest in (found for folder in folders for found in folder.rglob(MANIFEST)):
        _check_manifest(outcome, manifest)


def _check_sums(outcome: Outcome, sums: Path) -> None:
    """Compare the files that a list of digests names."""
    try:
        lines = sums.read_text(encoding="utf-8").splitlines()
    except UnicodeDecodeError:
        outcome.found("sums", f"{sums.name} is no text", "Write it again: sha256sum *.safetensors")
        return
    for number, line in enumerate(lines, start=1):
        expected, _, name = line.partition(" ")
        if name.lstrip(" *"):
            _compare_file(outcome, sums.parent / name.lstrip(" *"), expected)
        elif line.strip():
            text = f"line {number} of {sums.name} is {line[:80]!r}, and must be a digest, two blanks and a name"
            outcome.found("sums", text, "Write it again: sha256sum *.safetensors")


def _check_manifest(outcome: Outcome, manifest: Path) -> None:
    """Compare the files of a Trainwright checkpoint with the digests in its manifest."""
    try:
        files = json.loads(manifest.read_text(encoding="utf-8"))["files"]
        recorded = {name: str(one["digest"]).removeprefix("blake3:") for name, one in files.items()}
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError):
        outcome.not_checked.append(f"{manifest.name}: it is no manifest of a Trainwright checkpoint")
        return
    try:
        from blake3 import blake3
    except ImportError:
        outcome.not_checked.append(f"digests in {manifest.name}: they need the package blake3")
        return
    for name, digest in recorded.items():
        path = manifest.parent / name
        _compare(outcome, path, digest, _digest(path, blake3()) if is_there(path, is_file=True) else None)


def _compare_file(outcome: Outcome, path: Path, expected: str) -> None:
    _compare(outcome, path, expected, _digest(path, hashlib.sha256()) if is_there(path, is_file=True) else None)


def _compare(outcome: Outcome, path: Path, expected: str, measured: str | None) -> None:
    if measured is None:
        outcome.found("missing_file", f"{path.name} has a digest and is missing", "Fetch the file.")
    elif measured != expected.strip().lower():
        text = f"{path.name} has the digest {measured[:16]}… where {expected[:16]}… was recorded"
        outcome.found("digest", text, "It is another file, or was changed: fetch it again from the source.")


def _digest(path: Path, state: Any) -> str:
    with path.open("rb") as file:
        chunks: Iterable[bytes] = iter(lambda: file.read(CHUNK_BYTES), b"")
        for chunk in chunks:
            state.update(chunk)
    return str(state.hexdigest())


if __name__ == "__main__":
    sys.exit(main())
