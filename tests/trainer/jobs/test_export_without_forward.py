"""A model that only its task's step knows how to call leaves the house as weights, and its failure names that."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from trainwright.trainer.run import RunKind

TASK = """
import torch
from torch import nn


def build(config, context):
    x = torch.randn(60, 4, generator=torch.Generator().manual_seed(context.data_seed))
    model = nn.ModuleDict({"encoder": nn.Linear(4, 2), "decoder": nn.Linear(2, 4)})
    parts = {"train": x[:40], "validation": x[40:50], "test": x[50:]}
    return {"model": model, **{name: torch.utils.data.TensorDataset(rows) for name, rows in parts.items()},
            "step": step}


def step(model, batch, context):
    (x,) = batch
    return {"loss": nn.functional.mse_loss(model["decoder"](model["encoder"](x)), x)}
"""


@pytest.mark.long
@pytest.mark.requirement("CKPT-5", "PHASE-10")
def test_a_model_without_forward_is_exported_as_weights(tmp_path: Path, make_run: Any, work: Any) -> None:
    (tmp_path / "own.py").write_text(TASK)
    values = {"task": {"use": "own.py:build"}, "training": {"epochs": 2}, "logging": {"tensorboard": False}}
    source = make_run(tmp_path / "source", values)
    assert work(source) == 0, source.log.read_text()
    refused = make_run(tmp_path / "refused", values, kind=RunKind.EXPORT, source_run=str(source.path))
    assert work(refused) == 1
    mended = refused.status().failure.details["changes"]
    assert mended == {"deployment.formats": ["safetensors"]}

    plain = {**values, "deployment": {"formats": ["safetensors"]}}
    source = make_run(tmp_path / "plain", plain)
    assert work(source) == 0, source.log.read_text()
    run = make_run(tmp_path / "export", plain, kind=RunKind.EXPORT, source_run=str(source.path))
    assert work(run) == 0, run.log.read_text()
    evidence = run.evidence("export")
    assert evidence["safetensors"]["reloaded_identical"] is True
    assert evidence["onnx"] is None
    assert "has no forward" in run.evidence("program")["problem"]
    assert evidence["test"]["metrics"]["loss"] > 0
