"""Checkpoints of runs with frozen weights: they hold what changes, name the rest by digest, and refuse another base."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from tests.trainer.saving import checkpoint_of
from tests.variants import variants

from trainwright.trainer.base.errors import IntegrityError
from trainwright.trainer.checkpoints.index import list_checkpoints, verify_checkpoint
from trainwright.trainer.checkpoints.store import DirectoryStore
from trainwright.trainer.data.fingerprint import weights_digest
from trainwright.trainer.run import RunKind

pytestmark = pytest.mark.slow

SHORT: dict[str, Any] = {"training": {"epochs": 1, "max_steps": 3}, "logging": {"tensorboard": False}}
WAYS: dict[str, dict[str, Any]] = {
    "adapters": {"adapter": {"rank": 2}},
    "freezing": {"freezing": {"patterns": ["bert"]}},
    "unfreezing": {
        "freezing": {"patterns": ["bert"], "unfreeze": [{"after_epochs": 2, "patterns": ["bert.encoder"]}]},
        "weight_averaging": {"name": "ema", "decay": 0.9},
    },
}


@pytest.mark.requirement("CKPT-1", "CKPT-5", "REPRO-6")
@pytest.mark.parametrize("way", variants(WAYS, quick=["freezing"]))
def test_a_checkpoint_holds_what_changes_and_resumes_to_the_bit(
    way: str, saved: dict[str, Any], assert_resumes_exactly: Any
) -> None:
    session = assert_resumes_exactly({**saved, **WAYS[way]})
    checkpoint = checkpoint_of(session)
    trained = {name for name, each in session.model.named_parameters() if each.requires_grad}
    base = checkpoint.state["frozen_base"]["tensors"]
    assert trained <= checkpoint.model.keys()
    assert not base.keys() & checkpoint.model.keys()
    assert base.keys() | checkpoint.model.keys() == session.model.state_dict().keys()
    assert any(name.startswith("bert.embeddings.word") for name in base)
    assert any(name.startswith("bert.encoder") for name in checkpoint.model) == (way != "freezing")


@pytest.mark.requirement("CKPT-2")
def test_another_base_is_refused_and_a_written_to_weight_is_kept(
    saved: dict[str, Any], open_session: Any, project: Path
) -> None:
    from safetensors.torch import load_file, save_file

    values = {**saved, **WAYS["adapters"]}
    session = open_session(values, "first")
    name = "bert.embeddings.LayerNorm.weight"
    with torch.no_grad():
        session.model.get_parameter(name)[0] += 1  # by some code that should not
    checkpoint = checkpoint_of(session)
    assert name in checkpoint.model
    again = open_session(values, "again")
    again.load(checkpoint)
    assert torch.equal(again.model.get_parameter(name), session.model.get_parameter(name))
    assert again.state()[0].keys() == checkpoint.model.keys()
    weights = load_file(project / "bert" / "model.safetensors")
    weights["bert.embeddings.word_embeddings.weight"][5, 5] += 1e-3
    save_file(weights, project / "bert" / "model.safetensors", metadata={"format": "pt"})
    other = open_session(values, "other")
    with pytest.raises(IntegrityError, match=r"1 of \d+ frozen tensors are others: bert.embeddings.word") as caught:
        other.load(checkpoint)
    assert "Put the model's files back" in caught.value.remedy


@pytest.mark.long
@pytest.mark.requirement("CKPT-4", "CKPT-5", "REPRO-5")
def test_a_run_is_replayed_verified_and_exported_from_small_checkpoints(
    project: Path, classify: dict[str, Any], make_run: Any, work: Any
) -> None:
    from safetensors.torch import load_file

    values = {**classify, **SHORT, "adapter": {"rank": 1}, "deployment": {"formats": ["safetensors"]}}
    source = make_run(project / "runs" / "source", values, code_root=str(project))
    assert work(source) == 0, source.log.read_text()
    (record,) = list_checkpoints(source)
    assert verify_checkpoint(record.path) == []
    manifest = json.loads((record.path / "manifest.json").read_text())
    weights = manifest["files"]["model.safetensors"]["bytes"]
    assert weights < manifest["frozen_base"]["bytes"] / 4
    options = {"code_root": str(project), "source_run": str(source.path)}
    replay = make_run(project / "runs" / "replay", values, kind=RunKind.REPLAY, **options)
    assert work(replay) == 0, replay.log.read_text()
    found = replay.evidence("comparison")
    assert found["identical"]
    assert found["source_weights_digest"] == found["weights_digest"] == source.evidence("summary")["weights_digest"]
    export = make_run(project / "runs" / "export", values, kind=RunKind.EXPORT, **options)
    assert work(export) == 0, export.log.read_text()
    assert export.evidence("export")["safetensors"]["reloaded_identical"]
    shipped = load_file(export.artifacts / "final_model" / "model.safetensors")
    assert weights_digest(shipped) == found["source_weights_digest"]
    assert DirectoryStore(source).open(record.name).model.keys() < shipped.keys()
