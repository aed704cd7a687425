"""Targets of the user's step follow from the data: those that follow from the model fail the run they would flatter."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch

from trainwright.trainer.evidence.step_check import other_weights, require_evaluated_model
from trainwright.trainer.run import RunState

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
    return {"loss": loss, "output": OUTPUT, "target": TARGET}


def build(config, context):
    rows = torch.randn(160, 4, generator=torch.Generator().manual_seed(0))
    data = torch.utils.data.TensorDataset(rows, (rows[:, 0] > 0).long())
    train, validation = torch.utils.data.Subset(data, range(120)), torch.utils.data.Subset(data, range(120, 160))
    return {"model": Net(), "train": train, "validation": validation, "step": step}
"""
VALUES: dict[str, Any] = {
    "task": {"use": "own_task.py:build"},
    "metrics": ["accuracy"],
    "loader": {"batch_size": 40},
    "training": {"epochs": 1},
    "logging": {"tensorboard": False},
}


@pytest.fixture
def begin(tmp_path: Path, make_run: Any, work: Any) -> Any:
    """`begin()` lets a worker train the task; returns the run and the worker's exit code."""

    def worked() -> Any:
        run = make_run(tmp_path / "run-1", VALUES, code_root=str(tmp_path))
        return run, work(run)

    return worked


def write(folder: Path, target: str = "batch[1]", check: str = "pass", output: str = "scores") -> None:
    text = TASK.replace("TARGET", target).replace("CHECK", check).replace("OUTPUT", output)
    (folder / "own_task.py").write_text(text)


@pytest.mark.requirement("GATE-1", "GATE-5")
@pytest.mark.parametrize(
    ("parts", "told", "remedy"),
    [
        ({"target": "scores.argmax(1)"}, "targets that `step` returns change with", "batch's own labels"),
        ({"output": "torch.eye(3)[batch[1]]"}, "outputs that `step` returns do not change with", "the model computed"),
    ],
)
def test_predictions_as_targets_and_targets_as_predictions_fail_the_run(
    parts: dict[str, str], told: str, remedy: str, tmp_path: Path, begin: Any
) -> None:
    write(tmp_path, **parts)
    run, code = begin()
    assert code == 1
    status = run.status()
    assert status.state is RunState.FAILED
    assert told in status.failure.message
    assert remedy in status.failure.remedy
    assert run.evidence("summary") is None


@pytest.mark.requirement("GATE-1", "TRAIN-1")
@pytest.mark.parametrize(
    "parts",
    [
        {},
        {"output": "scores * 0"},  # a head that has learned nothing yet says the same of all
        {"output": "(torch.arange(len(scores)) < 2).float()"},  # and one that says it of almost all
        {"target": "model.teacher(batch[0]).argmax(1)"},  # a frozen one learns nothing
        {"target": "torch.randint(3, batch[1].shape)"},  # drawn, from keyed generators
        {"target": "torch.where(batch[1] > 0, float('nan'), 1.0)"},
        {"check": "assert loss < 50 or context.training"},  # does not like other weights
    ],
)
def test_what_a_step_may_return_passes_and_the_weights_stay_bit_for_bit(
    parts: dict[str, str], tmp_path: Path, open_session: Any, take_steps: Any
) -> None:
    write(tmp_path, **parts)
    session = open_session(VALUES)
    take_steps(session, 3)
    before = {name: value.clone() for name, value in session.model.state_dict().items()}
    drawn = torch.random.get_rng_state()
    require_evaluated_model(session)
    assert all(torch.equal(before[name], value) for name, value in session.model.state_dict().items())
    assert torch.equal(drawn, torch.random.get_rng_state())
    assert session.model.training


@pytest.mark.requirement("GATE-1")
def test_every_trained_weight_is_another_inside_and_frozen_ones_are_not(tmp_path: Path, open_session: Any) -> None:
    write(tmp_path)
    session = open_session(VALUES)
    model = session.model
    before = {name: value.clone() for name, value in model.state_dict().items()}
    with other_weights(model):
        same = {name for name, value in model.state_dict().items() if torch.equal(before[name], value)}
    assert same == {"teacher.weight", "teacher.bias"}
