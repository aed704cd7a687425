"""Store of checkpoints: written whole or not at all, and the newest whole one read back."""

from __future__ import annotations

import json
import os
import secrets
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from torch import Tensor

from trainwright.trainer.base.canonical import digest_file
from trainwright.trainer.base.errors import IntegrityError
from trainwright.trainer.checkpoints.index import (
    FILES,
    REPLACED,
    checkpoint_folders,
    checkpoint_name,
    manifest_digest,
    read_manifest,
    verify_checkpoint,
)
from trainwright.trainer.run import RunKey

TEMPORARY = ".writing-"


def write_checkpoint(
    checkpoints: Path,
    *,
    model: dict[str, Tensor],
    tensors: dict[str, Tensor],
    state: dict[str, Any],
    manifest: dict[str, Any],
    key: RunKey | None = None,
) -> Path:
    """Write one checkpoint and return its folder.

    Args:
        model: the model's tensors by name, on the CPU, none sharing memory.
        tensors: all other tensors, referred to from `state`.
        state: JSON types.
        manifest: step, epoch, run_id, config_digest; files and digest are added here.
        key: the run's, to sign the manifest's digest with.

    Raises:
        OSError: the disk is full, and the like. Whatever stood before stands still.
    """
    final = checkpoints / checkpoint_name(manifest["step"])
    temporary = checkpoints / f"{TEMPORARY}{final.name}-{secrets.token_hex(4)}"
    temporary.mkdir()
    try:
        save_file(model, temporary / "model.safetensors")
        save_file(tensors, temporary / "optimizer.safetensors")
        (temporary / "state.json").write_text(json.dumps(state, allow_nan=False))
        files = {
            name: {"bytes": (temporary / name).stat().st_size, "digest": digest_file(temporary / name)}
            for name in FILES
        }
        whole = {**manifest, "files": files}
        whole["digest"] = manifest_digest(whole)
        if key is not None:
            whole["signature"] = key.sign(whole["digest"])
        (temporary / "manifest.json").write_text(json.dumps(whole, indent=2, sort_keys=True))
        for path in (*temporary.iterdir(), temporary):
            _fsync(path)
        if final.exists():  # one within the epoch, a damaged one, or one of an abandoned attempt
            final.rename(checkpoints / f"{REPLACED}{final.name}-{secrets.token_hex(4)}")
        temporary.rename(final)
        _fsync(checkpoints)
    except BaseException:
        shutil.rmtree(temporary, ignore_errors=True)
        raise
    return final


def remove_leftovers(checkpoints: Path) -> None:
    """Remove what a killed writer left behind, and folders that were replaced."""
    for path in checkpoints.iterdir():
        if path.name.startswith((TEMPORARY, REPLACED)):
            shutil.rmtree(path, ignore_errors=True)


def remove_untagged(checkpoints: Path, keep: set[str]) -> list[str]:
    """Remove the checkpoints whose names are not in `keep`; return what was removed."""
    from trainwright.trainer.checkpoints.index import checkpoint_folders

    removed = [path for path in checkpoint_folders(checkpoints) if path.name not in keep]
    for path in removed:
        shutil.rmtree(path, ignore_errors=True)
    return [path.name for path in removed]


def _fsync(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


@dataclass(frozen=True)
class LoadedCheckpoint:
    """The content of a verified checkpoint."""

    name: str
    manifest: dict[str, Any]
    model: dict[str, Tensor]
    tensors: dict[str, Tensor]
    state: dict[str, Any]


def load_checkpoint(path: Path) -> LoadedCheckpoint:
    """Verify and read one checkpoint. Raises IntegrityError when it is not whole."""
    problems = verify_checkpoint(path)
    if problems:
        raise IntegrityError(
            f"Checkpoint {path.name} is damaged: {'; '.join(problems[:3])}.",
            remedy="list_checkpoints(run_id) shows those that are whole.",
            details={"problems": problems},
        )
    try:
        manifest = read_manifest(path)
        assert manifest is not None  # noqa: S101 - verified above
        return LoadedCheckpoint(
            path.name,
            manifest,
            load_file(path / "model.safetensors"),
            load_file(path / "optimizer.safetensors"),
            json.loads((path / "state.json").read_bytes()),
        )
    except (OSError, ValueError, SafetensorError) as error:
        raise IntegrityError(
            f"Checkpoint {path.name} cannot be read: {error}.",
            remedy="list_checkpoints(run_id) shows those that are whole.",
        ) from error


def newest_whole(checkpoints: Path, *, config_digest: str) -> tuple[LoadedCheckpoint | None, list[dict[str, Any]]]:
    """Return the newest checkpoint that verifies and belongs to this configuration, and the ones passed over."""
    skipped: list[dict[str, Any]] = []
    for path in reversed(checkpoint_folders(checkpoints)):
        try:
            loaded = load_checkpoint(path)
        except IntegrityError as error:
            skipped.append({"name": path.name, "problems": error.details.get("problems", [error.message])})
            continue
        if loaded.manifest.get("config_digest") != config_digest:
            skipped.append({"name": path.name, "problems": ["it was written under another configuration"]})
            continue
        return loaded, skipped
    return None, skipped
