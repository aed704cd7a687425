"""Accumulation against the large batch, and reduced precision."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch

from trainwright.trainer.evidence.run_evidence import resolved_evidence

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
def test_accumulation_makes_the_update_of_the_large_batch(tmp_path: Path, open_session: Any, take_steps: Any) -> None:
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
        session = open_session(values, f"run-{batch}")
        losses = take_steps(session, 100)
        weights[batch] = {**session.model.state_dict(), "losses": torch.stack(losses)}
    for name, value in weights[8].items():
        torch.testing.assert_close(weights[2][name], value, rtol=1e-5, atol=1e-6)
    assert not torch.allclose(weights[3]["weight"], weights[8]["weight"], atol=1e-5)  # another batch is another update
    assert len(weights[8]["losses"]) == 3, "22 samples, of which the last 6 are a smaller batch"


@pytest.mark.requirement("TRAIN-2")
def test_bf16_trains_and_is_repeatable(open_session: Any, take_steps: Any, digits: dict[str, Any]) -> None:
    sgd = {**digits, "optimizer": {"name": "sgd", "learning_rate": 0.1}}
    losses = []
    for precision in ("bf16", "bf16", "fp32"):
        session = open_session({**sgd, "training": {"epochs": 1, "precision": precision}}, f"run-{len(losses)}")
        losses.append(torch.stack(take_steps(session, 10)))
        assert resolved_evidence(session).precision == precision
    assert torch.equal(losses[0], losses[1])
    assert not torch.equal(losses[0], losses[2])
