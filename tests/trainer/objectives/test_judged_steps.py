"""A step that reports a loss alone: its model's own outputs are judged, in training as apart."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from trainwright.trainer.base.errors import ConfigurationError
from trainwright.trainer.engine.evaluation import evaluate_split

pytestmark = pytest.mark.requirement("GATE-6", "TRACK-1")

TASK = """\
import torch
from torch import nn


class Memory(nn.Module):
    def __init__(self):
        super().__init__()
        self.lstm, self.head = nn.LSTM(1, 4, batch_first=True), nn.Linear(4, 1)

    def forward(self, x, kept=None):
        out, kept = self.lstm(x, kept)
        return self.head(out), kept


def build(config, context):
    wave = torch.sin(torch.arange(201) / 5)
    rows = [(wave[t : t + 10].reshape(10, 1), wave[t + 1 : t + 11].reshape(10, 1)) for t in range(0, 190, 10)]
    return {"model": Memory(), "train": rows[:9], "validation": rows[9:14], "test": rows[14:], "step": step}


def step(model, batch, context):
    x, y = batch
    return {"loss": nn.functional.l1_loss(model(x)[0], y)}
"""
VALUES = {
    "task": {"use": "judged.py:build"}, "metrics": ["mse"], "selection": {"metric": "mse", "direction": "minimize"},
    "loader": {"batch_size": 2}, "logging": {"tensorboard": False},
}  # fmt: skip


def test_the_models_answers_are_judged_where_a_step_reports_none(
    tmp_path: Path, open_session: Callable[..., Any]
) -> None:
    (tmp_path / "judged.py").write_text(TASK)
    session = open_session(VALUES)
    x, y = (torch.stack(part) for part in zip(*session.work.splits.samples["validation"], strict=True))
    with torch.no_grad():
        expected = float((session.model.eval()(x)[0] - y).square().mean())
    assert evaluate_split(session, session.validation_loader)["mse"] == pytest.approx(expected, rel=1e-5)


def test_a_model_that_only_its_step_can_call_is_judged_by_nothing(
    tmp_path: Path, open_session: Callable[..., Any]
) -> None:
    code = TASK.replace("forward(self, x, kept=None)", "forward(self, x, kept)").replace("model(x)", "model(x, None)")
    (tmp_path / "judged.py").write_text(code)
    with pytest.raises(ConfigurationError, match="need outputs and targets, and the model gives only a loss"):
        open_session(VALUES)
