"""Accumulation against the large batch, and reduced precision."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch

TOKENS = """
import torch
from torch import nn
class Samples(torch.utils.data.Dataset):
    def __len__(self): return 22
    def __getitem__(self, i):
        g = torch.Generator().manual_seed(i)
        y = torch.randint(0, 3, (5,), generator=g)
        y[: i % 5] = -100  # of these the loss's mean takes no notice
        return torch.randn(5, 4, generator=g), y
def build(config, context):
    return {"model": nn.Linear(4, 3), "train": Samples(), "validation": Samples(), "loss": "cross_entropy"}
"""


@pytest.mark.requirement("TRAIN-2")
def test_accumulation_makes_the_update_of_the_large_batch(tmp_path: Path, make_run: Any, work: Any) -> None:
    (tmp_path / "tokens.py").write_text(TOKENS)
    weights = {}
    for batch, accumulation in ((8, 1), (2, 4), (3, 3)):
        values = {
            "task": {"use": "tokens:build"},
            "loader": {"batch_size": batch},
            "training": {"epochs": 2, "accumulation_steps": accumulation, "clip_norm": 0.3},
            "optimizer": {"name": "sgd", "learning_rate": 0.1},
            "schedule": {"name": "constant"},
            "logging": {"tensorboard": False},
        }
        run = make_run(tmp_path / f"run-{batch}", values)
        assert work(run) == 0, run.log.read_text()
        from safetensors.torch import load_file

        weights[batch] = load_file(max(run.checkpoints.glob("step-*")) / "model.safetensors")
        weights[batch]["losses"] = torch.tensor([p.value for p in run.metrics().series("train/loss")])
    for name, value in weights[8].items():
        torch.testing.assert_close(weights[2][name], value, rtol=1e-5, atol=1e-6)
    assert not torch.allclose(weights[3]["weight"], weights[8]["weight"], atol=1e-5)  # another batch is another update


@pytest.mark.requirement("TRAIN-2")
def test_bf16_trains_and_is_repeatable(
    tmp_path: Path, make_run: Any, work: Any, digits: dict[str, Any], recorded: Any
) -> None:
    values = {
        **digits,
        "training": {"epochs": 1, "precision": "bf16"},
        "optimizer": {"name": "sgd", "learning_rate": 0.1},
    }
    first, second = (make_run(tmp_path / name, values) for name in ("first", "second"))
    assert work(first) == work(second) == 0, first.log.read_text()
    assert recorded(first, "train/loss") == recorded(second, "train/loss")
    assert first.evidence("resolved")["precision"] == "bf16"
    exact = make_run(tmp_path / "exact", {**values, "training": {"epochs": 1}})
    assert work(exact) == 0
    assert recorded(exact, "train/loss") != recorded(first, "train/loss")
