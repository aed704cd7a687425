"""Contract of the optimizers: each is built from its options, lowers a loss, and resumes to the same bits."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from tests.releases import param
from torch import Tensor, nn

from trainwright.trainer.base.errors import ConfigurationError
from trainwright.trainer.config import parse_config
from trainwright.trainer.optimization.optimizers import OPTIMIZERS

FASTER: dict[str, dict[str, Any]] = {
    "adamw": {"learning_rate": 0.02},
    "sgd": {"learning_rate": 0.05},
    "adam": {"learning_rate": 0.02},
    "adam8bit": {"learning_rate": 0.02},
    "nadam": {"learning_rate": 0.02},
    "lamb": {"learning_rate": 0.05},
    "lars": {"learning_rate": 0.1, "trust_coefficient": 0.1},
    "lion": {"learning_rate": 0.01},
    "muon": {"learning_rate": 0.05},
    "adafactor": {"learning_rate": 0.1},
    "schedule_free_adamw": {"learning_rate": 0.02},
    "schedule_free_sgd": {"learning_rate": 0.1},
    "adadelta": {},
    "rmsprop": {"learning_rate": 0.01},
    "adagrad": {"learning_rate": 0.05},
    "lbfgs": {},
}
"""Every built-in optimizer, and a rate at which it halves the loss below in 40 steps."""
every = pytest.mark.parametrize("name", [param(name, OPTIMIZERS[name].since) for name in FASTER])


def section_of(name: str, **options: Any) -> Any:
    schedule = {"name": "constant"} if OPTIMIZERS[name].averages else {}
    work = {"model": {"use": "mlp"}, "data": {"use": "digits"}, "schedule": schedule}
    return parse_config({**work, "optimizer": {"name": name, **options}}).optimizer


class Regression:
    """A small network on 32 rows, with its optimizers."""

    def __init__(self, name: str, **options: Any) -> None:
        if name == "adam8bit":
            pytest.importorskip("bitsandbytes")
        torch.manual_seed(0)
        self.model = nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 1))
        self.rows = torch.randn(32, 4)
        self.targets = self.rows.sum(1, keepdim=True)
        self.section = section_of(name, **options)
        self.optimizers = self.section.for_model(self.model)

    def loss(self) -> Tensor:
        for optimizer in self.optimizers.values():
            optimizer.zero_grad()
        loss = nn.functional.mse_loss(self.model(self.rows), self.targets)
        loss.backward()
        return loss

    def steps(self, count: int) -> float:
        """Take the steps; return the loss before the last."""
        for _ in range(count):
            loss = self.loss()
            again: list[Callable[[], Any]] = [self.loss] if self.section.needs_closure else []
            for optimizer in self.optimizers.values():
                optimizer.step(*again)
        return loss.item()

    def states(self) -> dict[str, Any]:
        optimizers = {name: optimizer.state_dict() for name, optimizer in self.optimizers.items()}
        return {"model": self.model.state_dict(), **optimizers}


def test_the_contract_names_every_built_in_optimizer() -> None:
    assert list(FASTER) == [name for name in OPTIMIZERS if name != "own"]


@pytest.mark.requirement("TRAIN-3")
@every
def test_it_is_built_from_its_defaults_over_every_parameter(name: str) -> None:
    made = Regression(name)
    assert all(isinstance(optimizer, torch.optim.Optimizer) for optimizer in made.optimizers.values())
    groups = [group for optimizer in made.optimizers.values() for group in optimizer.param_groups]
    assert {id(p) for group in groups for p in group["params"]} == {id(p) for p in made.model.parameters()}
    assert {group["lr"] for group in groups} == {made.section.learning_rate}
    assert made.section.rate() == ("optimizer.learning_rate", made.section.learning_rate)


@pytest.mark.requirement("TRAIN-3")
@every
def test_it_lowers_a_loss(name: str) -> None:
    made = Regression(name, **FASTER[name])
    first = made.loss().item()
    assert made.steps(40) < first / 2


@pytest.mark.requirement("TRAIN-3")
@every
def test_from_its_state_it_continues_to_the_same_bits(name: str) -> None:
    through, resumed = Regression(name, **FASTER[name]), Regression(name, **FASTER[name])
    through.steps(3)
    kept = through.states()
    kept = {part: torch.utils._pytree.tree_map(_copy, state) for part, state in kept.items()}
    resumed.model.load_state_dict(kept.pop("model"))
    for part, state in kept.items():
        resumed.optimizers[part].load_state_dict(state)
    assert through.steps(3) == resumed.steps(3)
    for one, other in zip(through.model.parameters(), resumed.model.parameters(), strict=True):
        assert torch.equal(one, other)


def _copy(value: Any) -> Any:
    return value.clone() if isinstance(value, Tensor) else value


@pytest.mark.requirement("TRAIN-3", "CONF-1")
@every
def test_it_refuses_wrong_options_with_key_value_and_rule(name: str) -> None:
    with pytest.raises(ConfigurationError, match=r"`optimizer.learning_rate` = -1.*greater than 0"):
        section_of(name, learning_rate=-1.0)
    with pytest.raises(ConfigurationError, match=r"optimizer\.patience"):
        section_of(name, patience=3)


@pytest.mark.requirement("TRAIN-3")
@every
def test_it_refuses_a_model_without_parameters(name: str) -> None:
    if name == "adam8bit":
        pytest.importorskip("bitsandbytes")
    with pytest.raises(ConfigurationError):
        section_of(name).for_model(nn.ReLU())
