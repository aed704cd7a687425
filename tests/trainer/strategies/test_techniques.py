"""Techniques by two processes: what one process trains, to the bit, although one of the two is killed on the way.

Without random draws, two processes train what one accumulates from the same two halves of each batch. So one run,
killed and restarted in its second epoch, shows both the division and the resume. That a killed group which draws ends
the same is shown in test_exactness.py.
"""

from __future__ import annotations

import os
import signal
from pathlib import Path
from typing import Any

import pytest
from tests.releases import needs

from trainwright.trainer.base import releases
from trainwright.trainer.run import RunDirectory

pytestmark = pytest.mark.slow

OWN = """
import torch
from torch import nn
def points(rows=72):
    x = torch.randn(rows, 6, generator=torch.Generator().manual_seed(0))
    y = (x[:, 0] + 0.5 * x[:, 1] > 0).long()
    return {"train": torch.utils.data.TensorDataset(x[:48], y[:48]),
            "validation": torch.utils.data.TensorDataset(x[48:], y[48:])}
def two_targets():
    def both(found):
        x, y = found.tensors
        return torch.utils.data.TensorDataset(x, torch.stack([y.float(), x[:, 2] * 3], 1))
    return {name: both(found) for name, found in points().items()}
class Net(nn.Module):
    def __init__(self, width=8, outputs=2, dropout=0.0, norm=False):
        super().__init__()
        self.first = nn.Linear(6, width)
        self.norm = nn.BatchNorm1d(width) if norm else nn.Identity()
        self.blocks = nn.ModuleList([
            nn.Sequential(nn.Linear(width, width), nn.Tanh(), nn.Dropout(dropout)) for _ in range(2)])
        self.out = nn.Linear(width, outputs)
    def forward(self, x):
        x = torch.relu(self.norm(self.first(x)))
        for block in self.blocks:
            x = x + block(x)
        return self.out(x)
"""
EMA = {"name": "ema", "decay": 0.9}
SWA = {"name": "swa", "after_epochs": 1, "learning_rate_factor": 1.0}
BASE: dict[str, Any] = {
    "model": {"use": "own:Net"},
    "data": {"use": "own:points"},
    "loader": {"batch_size": 8},
    "optimizer": {"learning_rate": 0.01},
    "training": {"epochs": 3, "clip_norm": 0.5},
    "checkpoints": {"checkpoint_every_n_steps": 4},
    "logging": {"every_n_steps": 3, "tensorboard": False},
}
CURRICULUM = {"use": "centroid", "initial_fraction": 0.5}
STEPS = ("train/loss", "train/gradient_norm", "train/learning_rate")
DISTILLATION = {
    "name": "distillation",
    "teacher": {"use": "own:Net", "args": {"width": 12}},
    "features": [{"student": "blocks.0", "teacher": "blocks.1"}],
}
TASKS = {"side": {"outputs": 2, "metrics": ["accuracy"]}, "height": {"loss": "mse", "outputs": 1}}
ATTACKED = {"name": "adversarial", "attack": "fgsm", "epsilon": 0.1, "clean_weight": 0.3, "evaluation_steps": 2}
ALONE: dict[str, dict[str, Any]] = {
    "adversarial, curriculum, EMA": {
        "objective": ATTACKED,
        "curriculum": CURRICULUM,
        "weight_averaging": EMA,
    },
    "multi-task with learned weights, SWA": {
        "model": {"use": "own:Net", "args": {"outputs": 3}},
        "data": {"use": "own:two_targets"},
        "objective": {"name": "multi_task", "tasks": TASKS},
        "weight_averaging": SWA,
    },
    "distillation with learned maps, EMA": {"objective": DISTILLATION, "weight_averaging": EMA},
}


@pytest.fixture
def killed_group(tmp_path: Path, make_run: Any, group_work: Any, at_step: Any) -> Any:
    """`killed_group(values)` trains by two processes, the second of which is killed once at step 11."""
    (tmp_path / "own.py").write_text(OWN)

    def train(values: dict[str, Any], **distributed: Any) -> RunDirectory:
        group = {"processes": 2, "restarts": 1, **distributed}
        run: RunDirectory = make_run(tmp_path / "two", {**values, "distributed": group}, code_root=str(tmp_path))
        kill = at_step(11, lambda: os.kill(os.getpid(), signal.SIGKILL), 1, tmp_path / "done")
        assert group_work(run, before=kill) == 0, run.log.read_text()
        assert [event.data["step"] for event in run.events("resumed")] == [8]
        return run

    return train


@pytest.mark.long
@pytest.mark.requirement("TRAIN-5", "TRAIN-6", "REPRO-6")
@pytest.mark.parametrize("case", ALONE)
def test_two_processes_train_and_resume_what_one_accumulates_bit_for_bit(  # noqa: PLR0917 - fixtures
    case: str, tmp_path: Path, killed_group: Any, make_run: Any, work: Any, recorded: Any
) -> None:
    values = {**BASE, **ALONE[case]}
    two = killed_group(values)
    halves = {"loader": {"batch_size": 4}, "training": {**BASE["training"], "accumulation_steps": 2}}
    one = make_run(tmp_path / "one", {**values, **halves}, code_root=str(tmp_path))
    assert work(one) == 0, one.log.read_text()
    assert recorded(two, *STEPS) == recorded(one, *STEPS)
    ours, theirs = (run.evidence("summary") for run in (two, one))
    assert ours["weights_digest"] == theirs["weights_digest"]
    for name, value in theirs["final"].items():
        assert ours["final"][name] == pytest.approx(value, rel=1e-5), name


@pytest.mark.long  # alone: the contract of strategies divides, acceleration/ recomputes
@needs(releases.FSDP2)
@pytest.mark.requirement("TRAIN-2", "TRAIN-6", "REPRO-6")
def test_a_divided_model_that_forgets_its_activations_trains_and_resumes_as_one_that_keeps_them(
    tmp_path: Path, killed_group: Any, make_run: Any, group_work: Any, recorded: Any
) -> None:
    """Under attack besides: the parts are put together for several passes, one of them in evaluation mode."""
    values = {**BASE, "model": {"use": "own:Net", "args": {"dropout": 0.2}}, "objective": ATTACKED}
    training = {**BASE["training"], "gradient_checkpointing": {"modules": ["blocks.*"]}}
    forgetful = killed_group({**values, "training": training}, strategy="fsdp2")
    group = {"processes": 2, "strategy": "fsdp2"}
    whole = make_run(tmp_path / "whole", {**values, "distributed": group}, code_root=str(tmp_path))
    assert group_work(whole) == 0, whole.log.read_text()
    assert_same(forgetful, whole, recorded)


def assert_same(run: RunDirectory, other: RunDirectory, recorded: Any) -> None:
    keys = (*STEPS, "validation/loss")
    assert recorded(run, *keys) == recorded(other, *keys)
    newest = max(other.checkpoints.glob("step-*"))
    for file in ("model.safetensors", "optimizer.safetensors"):  # every process's generators among them
        assert (run.checkpoints / newest.name / file).read_bytes() == (newest / file).read_bytes()
