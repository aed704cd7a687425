"""Several targets of one model: learned weights, where outputs and targets are found, exact resume of the weights."""

from __future__ import annotations

import operator
from pathlib import Path
from typing import Any

import pytest
import torch

from trainwright.trainer.base.errors import ConfigurationError
from trainwright.trainer.config import parse_config
from trainwright.trainer.objectives.multi_task import MultiTask, Uncertainty, build_parts
from trainwright.trainer.objectives.sections import MultiTaskSection

pytestmark = pytest.mark.slow

TASKS: dict[str, Any] = {
    "digit": {"outputs": 10, "metrics": ["accuracy"]},
    "rest": {"loss": "mse", "outputs": 32, "metrics": ["mae"]},
}
"""Of the upper half of a digit: which it is, and what its lower half looks like, in units that make the loss large."""
DIGITS: dict[str, Any] = {
    "model": {"use": "mlp", "args": {"hidden": [64]}},
    "data": {"use": "halves:halves"},
    "loader": {"batch_size": 32},
    "optimizer": {"learning_rate": 3e-3},
    "training": {"epochs": 10},
    "objective": {"name": "multi_task", "tasks": TASKS},
}
HALVES = """
import torch
from own import digits
def halves():
    def divided(found):
        x, y = found.tensors
        rest = 100.0 * (x[:, 0, 4:].flatten(1) - 0.3)
        return torch.utils.data.TensorDataset(x[:, :, :4], torch.cat([y[:, None].float(), rest], 1))
    return {name: divided(found) for name, found in digits().items()}
def as_mappings():
    return {name: [{"x": x, "digit": int(t[0]), "rest": t[1:]} for x, t in zip(*found.tensors)]
            for name, found in halves().items()}
class Narrow(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.only = torch.nn.Linear(32, 41)
    def forward(self, x):
        return self.only(x.flatten(1))
class TwoHeads(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.trunk = torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(32, 16), torch.nn.ReLU())
        self.digit, self.rest = torch.nn.Linear(16, 10), torch.nn.Linear(16, 32)
    def forward(self, x):
        found = self.trunk(x)
        return {"rest": self.rest(found), "digit": self.digit(found)}
"""


@pytest.fixture(autouse=True)
def halves(root: Path) -> None:
    (root / "halves.py").write_text(HALVES)


def weighted(digit: float, rest: float) -> dict[str, Any]:
    tasks = {"digit": {**TASKS["digit"], "weight": digit}, "rest": {**TASKS["rest"], "weight": rest}}
    return {"name": "multi_task", "tasks": tasks, "weighting": "fixed"}


@pytest.mark.long
@pytest.mark.requirement("TRAIN-5")
def test_learned_weights_beat_equal_ones_and_are_no_worse_than_each_task_alone(
    open_session: Any, trained: Any, judge: Any
) -> None:
    """Measured over 3 seeds, learned against equal weights: accuracy 0.80 to 0.82 against 0.65 to 0.66, mae 20.8
    against 20.9, better on every seed. Alone, with the same network and steps: accuracy 0.81, mae 20.9.
    """
    objectives = {
        "learned": DIGITS["objective"],
        "equal": weighted(1.0, 1.0),
        "digit alone": weighted(1.0, 1e-9),
        "rest alone": weighted(1e-9, 1.0),
    }
    accuracy: dict[str, list[float]] = {name: [] for name in objectives}
    error: dict[str, list[float]] = {name: [] for name in objectives}
    for seed in (0, 1, 2):
        for name, objective in objectives.items():
            values = judge(trained(open_session({**DIGITS, "seed": seed, "objective": objective})))
            accuracy[name].append(values["digit_accuracy"])
            error[name].append(values["rest_mae"])
    assert all(map(operator.gt, accuracy["learned"], accuracy["equal"])), accuracy
    assert all(map(operator.lt, error["learned"], error["equal"])), error
    assert sum(accuracy["learned"]) > sum(accuracy["equal"]) + 3 * 0.05, accuracy
    assert sum(accuracy["learned"]) > sum(accuracy["digit alone"]) - 3 * 0.02, accuracy
    assert sum(error["learned"]) < 1.01 * sum(error["rest alone"]), error


@pytest.mark.requirement("TRAIN-5")
def test_the_weights_are_the_papers() -> None:
    section = MultiTaskSection.model_validate({"tasks": TASKS})
    learned = Uncertainty(build_parts(section), torch.ones(2))
    with torch.no_grad():
        learned.log_variances.copy_(torch.tensor([0.4, 2.0]))
    losses = torch.tensor([1.5, 80.0])
    variances = torch.tensor([0.4, 2.0]).exp()
    expected = 1.5 / variances[0] + 80.0 / (2 * variances[1]) + variances.sqrt().log().sum()
    assert learned(losses).item() == pytest.approx(expected.item(), rel=1e-6)
    at_rest = Uncertainty(build_parts(section), losses)
    at_rest(losses).backward()
    assert at_rest.log_variances.grad is not None
    assert at_rest.log_variances.grad.abs().max() < 1e-6, "it begins where it would come to rest"


@pytest.mark.requirement("TRAIN-5")
def test_the_learned_weights_have_a_rate_of_their_own_and_no_decay(open_session: Any) -> None:
    session = open_session(DIGITS)
    groups = [group for optimizer in session.optimizers.values() for group in optimizer.param_groups]
    (weights,) = session.auxiliary.modules.parameters()
    (own,) = [group for group in groups if any(parameter is weights for parameter in group["params"])]
    assert own["weight_decay"] == 0.0
    assert session.base_rates["optimizer"][groups.index(own)] == pytest.approx(0.03)


@pytest.mark.requirement("TRAIN-5")
def test_validation_is_plain_and_tells_each_task(open_session: Any, take_steps: Any, judge: Any) -> None:
    session = open_session(DIGITS)
    take_steps(session, 3)
    values = judge(session)
    assert values.keys() == {"loss", "digit_loss", "digit_accuracy", "rest_loss", "rest_mae"}
    assert values["loss"] == pytest.approx(values["digit_loss"] + values["rest_loss"], rel=1e-4)
    open_session({**DIGITS, "selection": {"metric": "digit_accuracy", "direction": "maximize"}})


@pytest.mark.requirement("TRAIN-5")
def test_mappings_give_the_same_as_columns(open_session: Any, root: Path) -> None:
    values = {**DIGITS, "model": {"use": "halves:TwoHeads"}}
    columns, mappings = open_session(values), open_session({**values, "data": {"use": "halves:as_mappings"}})
    losses = []
    for session in (columns, mappings):
        batch = next(session.validation_loader.batches(0))
        losses.append(session.validation_objective(session.model, batch).loss.item())
    assert losses[0] == losses[1]


@pytest.mark.requirement("TRAIN-5")
def test_targets_are_found_by_column_in_any_order() -> None:
    swapped = {"rest": {"loss": "mse", "outputs": 1, "target": 1}, "digit": {**TASKS["digit"], "target": 0}}
    parts = build_parts(MultiTaskSection.model_validate({"tasks": swapped}))
    model = torch.nn.Linear(4, 11)
    x, targets = torch.rand(6, 4), torch.stack([torch.arange(6.0), torch.rand(6)], 1).double()
    outcome = MultiTask(parts, None)(model, (x, targets))
    output = model(x)
    expected = torch.nn.functional.mse_loss(output[:, 0], targets[:, 1].float())
    expected = expected + torch.nn.functional.cross_entropy(output[:, 1:], targets[:, 0].long())
    assert torch.allclose(outcome.loss, expected)


UNFIT: dict[str, dict[str, Any]] = {
    r"need outputs \(batch, 42\) side by side": {"model": {"use": "halves:Narrow"}},
    "or one tensor for each; the model gives a list": {
        "model": {"use": "halves:TwoHeads"},
        "digit": {"outputs": 9},
        "rest": {"outputs": 33},
    },
    "needs 40 target values per sample, and finds 32": {"rest": {"outputs": 40}},
    r"need targets \(batch, columns\) or a mapping": {"data": {"use": "digits"}},
    "accuracy does not fit loss mse": {"rest": {"metrics": ["accuracy"]}},
}


@pytest.mark.requirement("TRAIN-5")
@pytest.mark.parametrize("told", UNFIT)
def test_what_does_not_fit_model_or_data_is_told_before_training(told: str, open_session: Any) -> None:
    changes = UNFIT[told]
    tasks = {name: {**task, **changes.get(name, {})} for name, task in TASKS.items()}
    parts = {name: value for name, value in changes.items() if name not in TASKS}
    with pytest.raises(ConfigurationError, match=told):
        open_session({**DIGITS, **parts, "objective": {"name": "multi_task", "tasks": tasks}})


REFUSED: dict[str, dict[str, Any]] = {
    "at least 2 items": {"digit": {"outputs": 2}},
    "did you mean `mean_iou`": {"a": {"outputs": 1, "metrics": ["mean_iuo"]}, "b": {"outputs": 1}},
    "a task takes one of cross_entropy": {"a": {"outputs": 1, "loss": "dice"}, "b": {"outputs": 1}},
    "uncertainty learns the weights": {"a": {"outputs": 1, "weight": 2.0}, "b": {"outputs": 1}},
    "rename the task": {"robust": {"outputs": 1}, "b": {"outputs": 1}},
    "one kind": {"a": {"outputs": 1, "target": 0}, "b": {"outputs": 1}},
}


@pytest.mark.requirement("CONF-1")
@pytest.mark.parametrize("told", REFUSED)
def test_impossible_tasks_are_refused_at_once(told: str) -> None:
    with pytest.raises(ConfigurationError, match=told):
        parse_config({**DIGITS, "objective": {"name": "multi_task", "tasks": REFUSED[told]}})


@pytest.mark.requirement("CONF-1")
def test_metrics_belong_to_a_task() -> None:
    with pytest.raises(ConfigurationError, match="write them under the task they belong to"):
        parse_config({**DIGITS, "metrics": ["accuracy"]})
