"""Store of a run's checkpoints: written completely or not at all, and the newest intact one read back."""

from __future__ import annotations

import json
import os
import secrets
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from torch import Tensor

from trainwright.trainer.base.canonical import digest_file
from trainwright.trainer.base.errors import IntegrityError, StorageError
from trainwright.trainer.base.tensor_files import save_tensors
from trainwright.trainer.checkpoints.index import (
    FILES,
    INDEX,
    REPLACED,
    checkpoint_folders,
    checkpoint_name,
    manifest_digest,
    put_back_replaced,
    read_manifest,
    verify_checkpoint,
    write_index,
)
from trainwright.trainer.run import RunDirectory

TEMPORARY = ".writing-"


@dataclass(frozen=True)
class LoadedCheckpoint:
    """The content of a verified checkpoint."""

    name: str
    manifest: dict[str, Any]
    model: dict[str, Tensor]
    tensors: dict[str, Tensor]
    state: dict[str, Any]


def newest_whole(store: DirectoryStore, *, config_digest: str) -> tuple[LoadedCheckpoint | None, list[dict[str, Any]]]:
    """Return the newest checkpoint that verifies and belongs to this configuration, and the ones passed over."""
    skipped: list[dict[str, Any]] = []
    for name in reversed(store.names()):
        try:
            loaded = store.open(name)
        except IntegrityError as error:
            skipped.append({"name": name, "problems": error.details.get("problems", [error.message])})
            continue
        if loaded.manifest.get("config_digest") != config_digest:
            skipped.append({"name": name, "problems": ["it was written under another configuration"]})
            continue
        return loaded, skipped
    return None, skipped


class DirectoryStore:
    """A folder for each checkpoint in the run directory, as `checkpoints.index` describes them; names sort by step.

    A process killed at any instant leaves each checkpoint as it was, or the new one of its step in its place.
    """

    def __init__(self, run: RunDirectory) -> None:
        self.run = run
        self.folder = run.checkpoints

    def recover(self) -> None:
        """Put a checkpoint back whose newer one is not in its place; before anything is read. Light: free of torch."""
        put_back_replaced(self.folder)

    def save(
        self, *, model: dict[str, Tensor], tensors: dict[str, Tensor], state: dict[str, Any], manifest: dict[str, Any]
    ) -> dict[str, Any]:
        """Write a checkpoint beside the others and move it into place, where it replaces one of the same step.

        Args:
            model: the model's tensors by name, on the CPU, none sharing memory.
            tensors: all other tensors, referred to from `state`.
            state: JSON types.
            manifest: step, epoch, run_id, config_digest.

        Returns:
            The manifest with `files`, their sizes and digests, `digest` over all of it, and the run's signature.

        Raises:
            OSError: the disk is full, for example. Earlier checkpoints are unchanged.
        """
        self._sweep()
        final = self.folder / checkpoint_name(manifest["step"])
        temporary = self.folder / f"{TEMPORARY}{final.name}-{secrets.token_hex(4)}"
        temporary.mkdir()
        try:
            save_tensors(model, temporary / "model.safetensors")
            save_tensors(tensors, temporary / "optimizer.safetensors")
            (temporary / "state.json").write_text(json.dumps(state, allow_nan=False))
            paths = {name: temporary / name for name in FILES}
            files = {name: {"bytes": path.stat().st_size, "digest": digest_file(path)} for name, path in paths.items()}
            signed = {**manifest, "files": files}
            signed["digest"] = manifest_digest(signed)
            if self.run.key is not None:
                signed["signature"] = self.run.key.sign(signed["digest"])
            (temporary / "manifest.json").write_text(json.dumps(signed, indent=2, sort_keys=True))
            for path in (*temporary.iterdir(), temporary):
                _fsync(path)
            if final.exists():  # one within the epoch, a damaged one, or one of an abandoned attempt
                final.rename(self.folder / f"{REPLACED}{final.name}-{secrets.token_hex(4)}")
            temporary.rename(final)
            _fsync(self.folder)
        except BaseException:
            shutil.rmtree(temporary, ignore_errors=True)
            raise
        return signed

    def names(self) -> list[str]:
        """Return the names of the folders."""
        return [path.name for path in checkpoint_folders(self.folder)]

    def verify(self, name: str) -> list[str]:
        """Compare every file with its digest in the manifest, and the manifest with its own."""
        return verify_checkpoint(self.folder / name)

    def open(self, name: str) -> LoadedCheckpoint:
        """Verify and read one checkpoint. Raises IntegrityError when it is not intact."""
        from safetensors import SafetensorError
        from safetensors.torch import load_file

        path = self.folder / name
        remedy = "list_checkpoints(run_id) shows those that are intact."
        if problems := self.verify(name):
            raise IntegrityError(
                f"Checkpoint {name} is damaged: {'; '.join(problems[:3])}.",
                remedy=remedy,
                details={"problems": problems},
            )
        try:
            manifest = read_manifest(path)
            assert manifest is not None  # noqa: S101 - verified above
            return LoadedCheckpoint(
                name,
                manifest,
                load_file(path / "model.safetensors"),
                load_file(path / "optimizer.safetensors"),
                json.loads((path / "state.json").read_bytes()),
            )
        except (OSError, ValueError, SafetensorError) as error:
            raise IntegrityError(f"Checkpoint {name} cannot be read: {error}.", remedy=remedy) from error

    def tag(self, *, best: str | None, last: str | None, periodic: list[str]) -> None:
        """Write the tags, then remove untagged checkpoints and a killed writer's leftovers. Raises StorageError."""
        digest = write_index(self.folder, best=best, last=last, periodic=periodic)
        self.run.written[f"{self.folder.name}/{INDEX}"] = digest
        for name in self.names():
            if name not in {best, last, *periodic}:
                self.delete(name)
        self._sweep()

    def delete(self, name: str) -> None:
        """Remove the folder, under another name first: half of a checkpoint would keep its run from being resumed."""
        place, gone = self.folder / name, self.folder / f"{TEMPORARY}{name}-{secrets.token_hex(4)}"
        try:
            place.unlink() if place.is_symlink() else place.rename(gone)
        except FileNotFoundError:
            return
        except OSError as error:
            raise StorageError(
                f"Checkpoint {name} could not be deleted: {place}: {error.strerror}.",
                remedy="Let the server's user write to that folder, then call again.",
            ) from error
        shutil.rmtree(gone, ignore_errors=True)

    def _sweep(self) -> None:
        """Remove a killed writer's leftovers, and folders that were replaced."""
        for path in self.folder.iterdir():
            if path.name.startswith((TEMPORARY, REPLACED)):
                shutil.rmtree(path, ignore_errors=True)


def _fsync(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
