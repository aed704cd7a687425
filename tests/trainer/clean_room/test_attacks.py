"""Accuracy under attack from answers alone: as an attack by the gradient finds it."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch import nn

from trainwright.trainer.clean_room.attacks import attacked, report_attack
from trainwright.trainer.objectives.adversarial import Attack

pytestmark = pytest.mark.requirement("GATE-6", "TRACK-1")
CROSS_ENTROPY = {"name": "cross_entropy", "args": {}}


class Rows:
    """Rows of a split, as the clean room reads them."""

    def __init__(self, inputs: Any, targets: Any) -> None:
        self.inputs, self.targets, self.rows = inputs, targets, len(targets)
        self.resampling = SimpleNamespace(groups=None)

    def batch(self, start: int, most: int) -> Any:
        stop = min(start + most, self.rows)
        return stop, {name: value[start:stop] for name, value in self.inputs.items()}, self.targets[start:stop]


@pytest.fixture
def trained() -> tuple[nn.Module, Rows]:
    """A network that tells which of two noisy halves is larger, and 200 rows of it."""
    torch.manual_seed(0)
    x = torch.rand(600, 12)
    y = (x[:, :6].sum(1) > x[:, 6:].sum(1)).long()
    model = nn.Sequential(nn.Linear(12, 16), nn.ReLU(), nn.Linear(16, 2))
    optimizer = torch.optim.Adam(model.parameters(), lr=0.02)
    for _ in range(200):
        optimizer.zero_grad()
        nn.functional.cross_entropy(model(x), y).backward()
        optimizer.step()
    return model.eval(), Rows({"input": x[:200].numpy()}, y[:200].numpy())


class Called:
    """A model as a program."""

    batch = None

    def __init__(self, model: nn.Module) -> None:
        self.model = model

    def __call__(self, inputs: Any) -> Any:
        with torch.no_grad():
            return {"output": self.model(torch.from_numpy(inputs["input"])).numpy()}


@pytest.mark.parametrize(("epsilon", "steps"), [(0.02, 3), (0.1, 5)])
def test_slopes_of_answers_find_what_gradients_find(
    epsilon: float, steps: int, trained: tuple[nn.Module, Rows]
) -> None:
    model, rows = trained
    order = {"epsilon": epsilon, "steps": steps, "step_size": 2.5 * epsilon / steps, "clip_range": (0.0, 1.0)}
    hits = attacked(Called(model), CROSS_ENTROPY, order, rows, seed=1)  # type: ignore[arg-type]
    attack = Attack(epsilon, steps, 2.5 * epsilon / steps, True, (0.0, 1.0), None)
    x, y = torch.from_numpy(rows.inputs["input"]), torch.from_numpy(rows.targets)

    def loss(model: nn.Module, batch: Any) -> Any:
        return SimpleNamespace(loss=nn.functional.cross_entropy(model(batch[0]), batch[1], reduction="sum"))

    moved, _ = attack(loss, model, (x, y))  # type: ignore[arg-type]
    wanted = (model(moved).argmax(1) == y).numpy()
    clean = float((model(x).argmax(1) == y).double().mean())
    assert hits.mean() == pytest.approx(wanted.mean(), abs=0.02)
    assert hits.mean() < clean - 0.05, "the attack finds rows that the model gets wrong"


def test_an_attack_is_in_units_of_standardised_inputs(trained: tuple[nn.Module, Rows]) -> None:
    model, rows = trained
    order = {"epsilon": 0.1, "steps": 5, "step_size": 0.05, "clip_range": (0.0, 1.0)}
    mean, scale = [3.0] * 12, [float(2 + place) for place in range(12)]

    class Scaled(Called):
        def __call__(self, inputs: Any) -> Any:
            return super().__call__({"input": ((inputs["input"] - mean) / scale).astype("float32")})

    raw = Rows({"input": (rows.inputs["input"] * scale + mean).astype("float32")}, rows.targets)
    found = attacked(Scaled(model), CROSS_ENTROPY, order | {"mean": mean, "scale": scale}, raw, seed=1)  # type: ignore[arg-type]
    plain = attacked(Called(model), CROSS_ENTROPY, order, rows, seed=1)  # type: ignore[arg-type]
    assert (found == plain).mean() > 0.98


def test_what_cannot_be_attacked_is_said(trained: tuple[nn.Module, Rows]) -> None:
    model, rows = trained
    order = {"loss": CROSS_ENTROPY, "attack": {"epsilon": 0.1, "steps": 10**6, "step_size": 0.1, "clip_range": None}}
    answer: dict[str, Any] = {"metrics": {}, "intervals": {}, "not_computed": {}}
    report_attack(order, Called(model), rows, answer, seed=1)  # type: ignore[arg-type]
    assert answer["metrics"] == {}
    assert "200 rows of 12 values are too many" in answer["not_computed"]["robust_accuracy"]
    order["attack"]["steps"] = 2
    report_attack(order, Called(model), rows, answer, seed=1)  # type: ignore[arg-type]
    low, high = answer["intervals"]["robust_accuracy"]
    assert low < answer["metrics"]["robust_accuracy"] < high
