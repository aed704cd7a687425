"""Replacing checkpoints by better ones, or turning their tags."""

from __future__ import annotations

import json
import shutil
from functools import partial
from pathlib import Path
from typing import Any

from tests.worlds.flowers import NAME

from cheat_suite.case import cheat
from cheat_suite.scene import Scene, edit_json, flip_byte
from trainwright.trainer.base.canonical import digest_file
from trainwright.trainer.checkpoints.index import manifest_digest

forged = partial(cheat, by="files", expected="detected", shows=("GATE-3", "CKPT-2"))


def _best(run: Path) -> Path:
    return sorted((run / "checkpoints").glob("step-*"))[0]


@forged(at="based", rule="checkpoint step-.*model.safetensors")
def checkpoint_byte(scene: Scene) -> None:
    """Change one byte of a checkpoint's weights."""
    flip_byte(_best(scene.run("baseline")) / "model.safetensors")


@forged(at="based", rule="checkpoint step-.*state.json")
def checkpoint_state(scene: Scene) -> None:
    """Edit the state of a checkpoint."""
    flip_byte(_best(scene.run("baseline")) / "state.json", place=20)


@forged(at="based", rule="manifest.json was changed after it was sealed")
def checkpoint_manifest(scene: Scene) -> None:
    """Change weights and make the checkpoint's manifest fit them."""
    folder = _best(scene.run("baseline"))
    flip_byte(folder / "model.safetensors")
    fit_manifest(folder)


@forged(at="exported", rule="run baseline-.*manifest.json was changed after it was sealed")
def checkpoint_from_elsewhere(scene: Scene) -> None:
    """Replace the final run's best checkpoint by another one, manifest and all."""
    target, *_, other = sorted((scene.run("baseline") / "checkpoints").glob("step-*"))  # the baseline is the final run
    own = {key: value for key, value in _manifest(target).items() if key not in {"files", "digest"}}
    shutil.rmtree(target)
    shutil.copytree(other, target)
    fit_manifest(target, own)


@forged(at="exported", rule="index.json was changed after it was sealed")
def checkpoint_tags(scene: Scene) -> None:
    """Tag another checkpoint as the best."""
    path = scene.run("baseline") / "checkpoints" / "index.json"
    text = path.read_text()
    path.write_text(text.replace("best", "\u0000").replace("last", "best").replace("\u0000", "last"))


@forged(at="based", rule="manifest.json was removed after it was sealed")
def checkpoint_removed(scene: Scene) -> None:
    """Remove a checkpoint."""
    shutil.rmtree(_best(scene.run("baseline")))


@forged(at="based", rule="checkpoint step-")
def checkpoint_link(scene: Scene) -> None:
    """Replace a checkpoint's weights by a link to a better file."""
    path = _best(scene.run("baseline")) / "model.safetensors"
    path.unlink()
    path.symlink_to(sorted((scene.run("baseline") / "checkpoints").glob("step-*"))[-1] / "model.safetensors")


@cheat(
    by="files",
    at="exported",
    rule="(?i)changed after it was sealed|was changed|does not match",
    expected="refused",
    shows=("GATE-1", "PHASE-6"),
)
def export_of_a_forged_run(scene: Scene) -> None:
    """Have a final run exported whose checkpoint was replaced."""
    folder = _best(scene.run("baseline"))
    flip_byte(folder / "model.safetensors")
    fit_manifest(folder)
    scene.attempt("pass_gate", project=NAME, phase="finalization")


def _manifest(folder: Path) -> dict[str, Any]:
    value: dict[str, Any] = json.loads((folder / "manifest.json").read_text())
    return value


def fit_manifest(folder: Path, own: dict[str, Any] | None = None) -> None:
    """Make the manifest fit the files, as one who has read our code would."""

    def fit(manifest: dict[str, Any]) -> None:
        manifest.update(own or {})
        for name, record in manifest["files"].items():
            record.update(digest=digest_file(folder / name), bytes=(folder / name).stat().st_size)
        manifest["digest"] = manifest_digest(manifest)

    edit_json(folder / "manifest.json", fit)
