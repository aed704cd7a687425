"""Targets of the user's step follow from the data: those that follow from the model fail the run they would flatter."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch

from trainwright.trainer.run import RunState
from trainwright.trainer.user_code.targets import require_independent_targets, rolled_weights

TASK = """
import copy, torch


class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.student = torch.nn.Linear(4, 3)
        self.teacher = copy.deepcopy(self.student).requires_grad_(False)

    def forward(self, rows):
        return self.student(rows)


def step(model, batch, context):
    scores = model(batch[0])
    loss = torch.nn.functional.cross_entropy(scores, batch[1])
    CHECK
    return {"loss": loss, "output": scores, "target": TARGET}


def build(config, context):
    rows = torch.randn(60, 4, generator=torch.Generator().manual_seed(0))
    data = torch.utils.data.TensorDataset(rows, (rows[:, 0] > 0).long())
    train, validation = torch.utils.data.Subset(data, range(40)), torch.utils.data.Subset(data, range(40, 60))
    return {"model": Net(), "train": train, "validation": validation, "step": step}
"""
VALUES: dict[str, Any] = {
    "task": {"use": "own_task.py:build"},
    "metrics": ["accuracy"],
    "loader": {"batch_size": 8},
    "training": {"epochs": 1},
    "logging": {"tensorboard": False},
}


def write(folder: Path, target: str, check: str = "pass") -> None:
    (folder / "own_task.py").write_text(TASK.replace("TARGET", target).replace("CHECK", check))


@pytest.mark.requirement("GATE-1", "GATE-5")
def test_predictions_as_targets_fail_the_run(tmp_path: Path, make_run: Any, work: Any) -> None:
    write(tmp_path, "scores.argmax(1)")
    run = make_run(tmp_path / "run-1", VALUES, code_root=str(tmp_path))
    assert work(run) == 1
    status = run.status()
    assert status.state is RunState.FAILED
    assert "targets that `step` returns change with the model's weights" in status.failure.message
    assert "batch's own labels" in status.failure.remedy
    assert run.evidence("summary") is None


@pytest.mark.requirement("GATE-1", "TRAIN-1")
@pytest.mark.parametrize(
    ("target", "check"),
    [
        ("batch[1]", "pass"),
        ("model.teacher(batch[0]).argmax(1)", "pass"),  # a frozen one learns nothing
        ("torch.randint(3, batch[1].shape)", "pass"),  # drawn, from keyed generators
        ("torch.where(batch[1] > 0, float('nan'), 1.0)", "pass"),
        ("batch[1]", "assert loss < 50 or context.training"),  # does not like other weights
    ],
)
def test_targets_that_follow_from_the_batch_pass_and_the_weights_stay_bit_for_bit(
    target: str, check: str, tmp_path: Path, open_session: Any, take_steps: Any
) -> None:
    write(tmp_path, target, check)
    session = open_session(VALUES)
    take_steps(session, 5)
    before = {name: value.clone() for name, value in session.model.state_dict().items()}
    drawn = torch.random.get_rng_state()
    require_independent_targets(session)
    assert all(torch.equal(before[name], value) for name, value in session.model.state_dict().items())
    assert torch.equal(drawn, torch.random.get_rng_state())
    assert session.model.training


@pytest.mark.requirement("GATE-1")
def test_every_trained_weight_is_another_inside_and_frozen_ones_are_not(tmp_path: Path, open_session: Any) -> None:
    write(tmp_path, "batch[1]")
    session = open_session(VALUES)
    model = session.model
    before = {name: value.clone() for name, value in model.state_dict().items()}
    with rolled_weights(model):
        same = {name for name, value in model.state_dict().items() if torch.equal(before[name], value)}
        assert sorted(model.student.weight.flatten().tolist()) == sorted(before["student.weight"].flatten().tolist())
    assert same == {"teacher.weight", "teacher.bias"}
