"""Reading a checkpoint back, the newest whole one first."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from safetensors import SafetensorError
from safetensors.torch import load_file
from torch import Tensor

from trainwright.trainer.checkpoints.index import checkpoint_folders, read_manifest, verify_checkpoint
from trainwright.trainer.errors import IntegrityError


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
