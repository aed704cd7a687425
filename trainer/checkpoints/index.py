"""Index of a run's checkpoints, and whether they are intact. Light: free of torch.

checkpoints/index.json                  {"best": name, "last": name, "periodic": [names]}
checkpoints/step-00000123/
    model.safetensors                   the model's state, but for a frozen base
    optimizer.safetensors               all other tensors: optimizer, generators, user state, gathered outputs
    state.json                          everything that is not a tensor, with references to those that are; digests of
                                        the frozen base by name, where there is one
    manifest.json                       {files: {name: {bytes, digest}}, step, epoch, run_id, config_digest, digest,
                                        frozen_base: {digest, tensors, bytes} where weights are left out,
                                        signature of the digest by the run's key, where it has one}
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from trainwright.trainer.base.canonical import digest_bytes, digest_file, digest_json
from trainwright.trainer.base.records import Frozen
from trainwright.trainer.run import RunDirectory, write_atomically

INDEX = "index.json"
PREFIX = "step-"
REPLACED = ".replaced-"
"""Begins the name of a checkpoint that was moved away for a newer one of the same step."""
FILES = ("model.safetensors", "optimizer.safetensors", "state.json")
WEIGHTS = ("model.safetensors", "optimizer.safetensors")
"""Large files of a checkpoint, deleted when it is pruned; manifest and state stay as its record."""


class CheckpointRecord(Frozen):
    """One checkpoint of a run."""

    name: str
    step: int
    epoch: int
    tags: list[str]
    """Of best, last and periodic."""
    bytes: int
    digest: str
    path: Path


def checkpoint_name(step: int) -> str:
    """Return the folder name of the checkpoint at an optimizer step."""
    return f"{PREFIX}{step:08d}"


def list_checkpoints(run: RunDirectory) -> list[CheckpointRecord]:
    """Return the checkpoints that have a readable manifest, by step; verify_checkpoint reads their files."""
    index = read_index(run.checkpoints)
    records = []
    for path in checkpoint_folders(run.checkpoints):
        manifest = read_manifest(path)
        if manifest is None:
            continue
        tags = [tag for tag in ("best", "last") if index.get(tag) == path.name]
        if path.name in index.get("periodic", []):
            tags.append("periodic")
        size = sum(int(file["bytes"]) for file in manifest["files"].values())
        records.append(
            CheckpointRecord(
                name=path.name,
                step=manifest["step"],
                epoch=manifest["epoch"],
                tags=tags,
                bytes=size,
                digest=manifest["digest"],
                path=path,
            )
        )
    return records


def has_weights(path: Path) -> bool:
    """Return whether the weights of a checkpoint folder are there; those of a pruned one are not."""
    return all((path / name).is_file() for name in WEIGHTS)


def verify_checkpoint(path: Path, digest: Callable[[Path], str] = digest_file, *, is_pruned: bool = False) -> list[str]:
    """Return the defects of a checkpoint folder; an empty list means that it is intact.

    Args:
        path: the checkpoint's folder.
        digest: reads a file's digest.
        is_pruned: whether its weights were deleted on purpose: then they may be missing, and nothing else.
    """
    manifest = read_manifest(path)
    if manifest is None:
        return ["manifest.json is missing or damaged"]
    problems = []
    if manifest["digest"] != manifest_digest(manifest):
        problems.append("manifest.json does not match its own digest")
    problems += [f"{name} is not in the manifest" for name in FILES if name not in manifest["files"]]
    for name, recorded in sorted(manifest["files"].items()):
        file = path / name
        if is_pruned and name in WEIGHTS and not file.exists():
            continue
        try:
            size = file.stat().st_size
            if size != recorded["bytes"]:
                problems.append(f"{name} has {size} bytes instead of {recorded['bytes']}")
            elif digest(file) != recorded["digest"]:
                problems.append(f"{name} does not match its digest")
        except OSError as error:
            problems.append(f"{name} cannot be read: {error.strerror}")
    return problems


def checkpoint_folders(checkpoints: Path) -> list[Path]:
    """Return the folders that are named as checkpoints, by step."""
    if not checkpoints.is_dir():
        return []
    return sorted(path for path in checkpoints.iterdir() if path.name.startswith(PREFIX) and path.is_dir())


def put_back_replaced(checkpoints: Path) -> None:
    """Put a checkpoint back that a killed writer moved away before the newer one of its step was in its place."""
    for path in sorted(checkpoints.glob(f"{REPLACED}*")):
        place = checkpoints / path.name.removeprefix(REPLACED).rpartition("-")[0]
        if not place.exists():
            path.rename(place)


def read_manifest(path: Path) -> dict[str, Any] | None:
    """Return a checkpoint's manifest, or None when it is missing or has not the right form."""
    try:
        value = json.loads((path / "manifest.json").read_bytes())
        files = value["files"].values()
        complete = all(isinstance(file["bytes"], int) and isinstance(file["digest"], str) for file in files)
        typed = isinstance(value["step"], int) and isinstance(value["epoch"], int) and isinstance(value["digest"], str)
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return None
    return value if complete and typed else None


def manifest_digest(manifest: dict[str, Any]) -> str:
    """Return the digest of everything in a manifest but the digest itself, and its signature."""
    return digest_json({key: value for key, value in manifest.items() if key not in {"digest", "signature"}})


def read_index(checkpoints: Path) -> dict[str, Any]:
    """Return the tags; an absent or damaged index reads as empty (it is derived, and the worker writes it anew)."""
    try:
        value = json.loads((checkpoints / INDEX).read_bytes())
    except (OSError, ValueError, RecursionError):
        return {}
    return value if isinstance(value, dict) else {}


def write_index(checkpoints: Path, *, best: str | None, last: str | None, periodic: list[str]) -> str:
    """Replace the tags atomically, and return the file's digest. Raises StorageError."""
    data = json.dumps({"best": best, "last": last, "periodic": periodic}, indent=2).encode()
    write_atomically(checkpoints / INDEX, data)
    return digest_bytes(data)
