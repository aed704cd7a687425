"""Optimizers of the user's own: how they are called, what works with them, what is refused, and exact resume."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch

from trainwright.trainer.base.errors import ConfigurationError, TrainwrightError, UserCodeError
from trainwright.trainer.config import parse_config
from trainwright.trainer.engine.loop import take_step
from trainwright.trainer.evidence.environment import code_evidence

OWN = """
import torch

def sgd(parameters, lr=0.5, momentum=0.9):
    return torch.optim.SGD(parameters, lr=lr, momentum=momentum)

def fixed(parameters, scale=1.0):
    return torch.optim.Adam(parameters, lr=0.01 * scale)

def lbfgs(parameters, max_iter=3):
    return torch.optim.LBFGS(parameters, lr=0.5, max_iter=max_iter, line_search_fn="strong_wolfe")

def partly(parameters):
    return torch.optim.SGD([p for p in parameters if p.dim() > 1], lr=0.1)

def divided(parameters):
    return {
        "matrices": torch.optim.SGD([p for p in parameters if p.dim() > 1], lr=0.1),
        "rest": torch.optim.Adam([p for p in parameters if p.dim() < 2], lr=0.01),
    }

def nothing(parameters):
    return {"lr": 1.0}

class Sharp(torch.optim.SGD):
    # sharpness-aware: Foret et al. 2021, arXiv:2010.01412
    @torch.no_grad()
    def step(self, closure):
        loss = closure()
        moved = []
        for group in self.param_groups:
            for p in group["params"]:
                self.state[p]["kept"] = p.clone()
                p.add_(0.05 * p.grad / (p.grad.norm() + 1e-12))
                moved.append(p)
        closure()
        for p in moved:
            p.copy_(self.state[p]["kept"])
        super().step()
        return loss

def sharp(parameters, lr=0.1):
    return Sharp(parameters, lr=lr, momentum=0.9)

class Counting(torch.optim.SGD):
    calls = 0
    def step(self, closure=None):
        self.calls += 1
        return super().step(closure)

def counting(parameters):
    made = Counting(parameters, lr=0.1)
    made.calls = 0
    return made
"""


@pytest.fixture
def own(tmp_path: Path, iris: dict[str, Any]) -> dict[str, Any]:
    """A configuration whose code root (tmp_path) holds the optimizers above."""
    (tmp_path / "own.py").write_text(OWN)
    return iris


def by(name: str, **section: Any) -> dict[str, Any]:
    return {"optimizer": {"use": f"own.py:{name}", **section}}


@pytest.mark.requirement("TRAIN-12", "REPRO-6")
@pytest.mark.parametrize("name", ["lbfgs", "sharp"])
def test_a_run_halted_under_an_own_optimizer_ends_with_the_same_bits(
    name: str, own: dict[str, Any], assert_halted_ends_the_same: Any
) -> None:
    dropout = {"use": "mlp", "args": {"hidden": [12], "dropout": 0.3}}
    values = {**own, **by(name), "model": dropout, "training": {"epochs": 3, "clip_norm": 2.0}}
    run = assert_halted_ends_the_same(values, 34)
    files = code_evidence(Path(run.specification().code_root)).files
    assert "own.py" in files, "its digest is evidence like all the user's code"


@pytest.mark.requirement("TRAIN-12")
def test_rate_arguments_schedule_and_clipping_reach_an_own_optimizer(own: dict[str, Any], open_session: Any) -> None:
    schedule = {"schedule": {"name": "linear", "warmup_steps": 4}, "training": {"epochs": 4, "clip_norm": 1e-3}}
    session = open_session({**own, **by("sgd", learning_rate=0.2, args={"momentum": 0.0}), **schedule})
    (optimizer,) = session.optimizers.values()
    assert (optimizer.defaults["lr"], optimizer.defaults["momentum"]) == (0.2, 0.0)
    session.model.train()
    before = torch.cat([p.detach().clone().flatten() for p in session.model.parameters()])
    result = take_step(session, next(session.groups()))
    assert result.learning_rate == pytest.approx(0.05), "the first of four warmup steps"
    moved = before - torch.cat([p.detach().flatten() for p in session.model.parameters()])
    assert float(moved.norm()) == pytest.approx(0.05 * 1e-3, rel=1e-3), "what reached it was clipped"
    assert float(result.gradient_norm) > 1e-3, "what is recorded is not"


@pytest.mark.requirement("TRAIN-12")
def test_groups_of_the_configuration_come_as_parameter_groups(own: dict[str, Any], open_session: Any) -> None:
    groups = [{"patterns": ["layers.1"], "learning_rate_factor": 0.1}]
    session = open_session({**own, **by("sgd", learning_rate=0.2, weight_decay=0.01, groups=groups)})
    (optimizer,) = session.optimizers.values()
    found = {(group["lr"], group["weight_decay"]) for group in optimizer.param_groups}
    assert found == {(0.2, 0.01), (0.2, 0.0), (0.2 * 0.1, 0.01), (0.2 * 0.1, 0.0)}


@pytest.mark.requirement("TRAIN-12")
@pytest.mark.parametrize(
    "chosen", [{"optimizer": {"name": "lbfgs", "max_iterations": 5}}, by("lbfgs", args={"max_iter": 5})]
)
def test_lbfgs_measures_one_function_within_a_step_and_makes_the_update_of_the_large_batch(
    chosen: dict[str, Any], own: dict[str, Any], open_session: Any, take_steps: Any
) -> None:
    weights = {}
    for batch, accumulation in ((8, 1), (2, 4)):
        values = {**own, **chosen, "loader": {"batch_size": batch}}
        values["training"] = {"epochs": 4, "accumulation_steps": accumulation}
        session = open_session(values, f"run-{batch}")
        asked = _asked(session)
        take_steps(session, 2)
        assert len(asked) > 2, "it asked for the loss again"
        weights[batch] = torch.cat([p.detach().flatten() for p in session.model.parameters()])
        assert session.totals.count == 16, "each sample counts once in the epoch's loss"
    torch.testing.assert_close(weights[8], weights[2], rtol=1e-3, atol=1e-4)


def _asked(session: Any) -> list[float]:
    """Return a list that grows by the loss of each forward pass beyond a step's first."""
    asked: list[float] = []
    real = session.update.apply

    def apply(loss: torch.Tensor, again: Any) -> None:
        def noted() -> torch.Tensor:
            value: torch.Tensor = again()
            asked.append(float(value))
            return value

        real(loss, noted)

    session.update.apply = apply
    return asked


@pytest.mark.requirement("TRAIN-12")
def test_an_optimizer_that_needs_no_second_look_is_measured_once(
    own: dict[str, Any], open_session: Any, take_steps: Any
) -> None:
    session = open_session({**own, **by("fixed")})
    asked = _asked(session)
    take_steps(session, 3)
    assert asked == []


@pytest.mark.requirement("TRAIN-12")
def test_dropout_draws_the_same_masks_each_time_within_a_step(own: dict[str, Any], open_session: Any) -> None:
    dropout = {"use": "mlp", "args": {"hidden": [12], "dropout": 0.5}}
    session = open_session({**own, **by("sharp"), "model": dropout})
    session.model.train()
    group = next(session.groups())
    session.update.begin()
    seen: list[float] = []

    class Asking:
        param_groups = ({"lr": 1.0},)

        def step(self, closure: Any) -> None:
            with torch.no_grad():
                next(iter(session.parameters)).mul_(1.0)  # the weights count as moved: the loss is measured again
            seen.extend(float(closure()) for _ in range(2))

    session.update.optimizer = Asking()
    result = take_step(session, group)
    assert seen == [float(result.loss)] * 2


REFUSED: dict[str, tuple[dict[str, Any], str, Any]] = {
    "a rate that it does not take": (
        by("fixed", learning_rate=0.1), "no parameter `lr`", {"optimizer.learning_rate": None},
    ),
    "a decay that it does not know": (by("lbfgs", weight_decay=0.1), "per-parameter|knows no", None),
    "no optimizer": (by("nothing"), "must be a torch.optim.Optimizer", None),
    "parameters left out": (by("partly"), "leaves 7 of 10 parameters out", None),
    "wrong arguments": (by("sgd", args={"momentun": 0.9}), "do not fit its signature", None),
    "state that a resume would lose": (by("counting"), "'calls' as an attribute", None),
    "fp16 under a closure": (
        {**by("lbfgs"), "training": {"epochs": 1, "precision": "fp16"}}, "fp16", {"training.precision": "bf16"},
    ),
}  # fmt: skip


@pytest.mark.requirement("TRAIN-12", "GATE-2")
@pytest.mark.parametrize("what", REFUSED)
def test_what_cannot_work_is_refused_before_training(what: str, own: dict[str, Any], open_session: Any) -> None:
    values, told, changes = REFUSED[what]
    with pytest.raises((ConfigurationError, UserCodeError), match=told) as caught:
        open_session({**own, **values})
    assert caught.value.remedy
    if changes is not None:
        assert caught.value.details["changes"] == changes


@pytest.mark.requirement("TRAIN-12", "CONF-1")
@pytest.mark.parametrize(
    ("changed", "told"),
    [
        ({"optimizer": {"name": "lbfgs"}, "training": {"precision": "fp16"}}, "set training.precision bf16"),
        ({"optimizer": {"name": "lbfgs"}, "distributed": {"processes": 2}}, "set distributed.processes 1"),
        ({"optimizer": {"name": "lbfgs", "layer_decay": 0.5}}, "optimizer.layer_decay"),
        ({"optimizer": {"use": "sgd"}}, "optimizer.name"),
        ({"optimizer": {"use": "own.py:sgd", "layer_decay": 0.5}}, "optimizer.learning_rate"),
        ({"optimizer": {"use": "own.py:sgd", "name": "adamw"}}, "optimizer.name"),
    ],
)
def test_what_the_configuration_tells_is_refused_by_the_schema(changed: dict[str, Any], told: str) -> None:
    with pytest.raises(TrainwrightError, match=told):
        parse_config({"model": {"use": "mlp"}, "data": {"use": "digits"}, **changed})


CARRIED = """
import torch
from torch import nn

def build(config, context):
    x = torch.randn(40, 3, generator=torch.Generator().manual_seed(0))
    def step(model, batch, context):
        context.state["seen"] = context.state.get("seen", 0) + 1
        return {"loss": (model(batch[0]) ** 2).mean()}
    data = torch.utils.data.TensorDataset(x)
    return {"model": nn.Linear(3, 1), "train": data, "validation": data, "step": step}
"""


@pytest.mark.requirement("TRAIN-12", "GATE-2")
def test_state_that_is_carried_from_batch_to_batch_needs_one_measurement_a_step(
    tmp_path: Path, open_session: Any, take_steps: Any
) -> None:
    (tmp_path / "carried.py").write_text(CARRIED)
    session = open_session({"task": {"use": "carried.py:build"}, "optimizer": {"name": "lbfgs"}})
    with pytest.raises(ConfigurationError, match=r"context.state\['seen'\]"):
        take_steps(session, 1)
