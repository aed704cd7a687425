"""Complex and tied weights, and infinities in buffers: averaged rightly or left alone, and resumed exactly."""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

import pytest
import torch
from tests.variants import variants

from trainwright.trainer.base.errors import ConfigurationError, DivergenceError
from trainwright.trainer.engine.evaluation import average_epoch
from trainwright.trainer.engine.loop import take_step
from trainwright.trainer.engine.observers.checkpointing import require_finite

pytestmark = pytest.mark.requirement("TRAIN-5")

EMA: dict[str, Any] = {"name": "ema", "decay": 0.9}
SWA: dict[str, Any] = {"name": "swa", "after_epochs": 1, "learning_rate_factor": 1.0}
UNUSUAL = """
import torch
from torch import nn
def data(rows=48):
    x = torch.randn(rows, 4, generator=torch.Generator().manual_seed(0))
    return torch.utils.data.TensorDataset(x, (x[:, 0] > 0).long())
class Spectral(nn.Module):
    '''Complex weights, as of a Fourier layer.'''
    def __init__(self):
        super().__init__()
        self.spectrum = nn.Parameter(torch.randn(3, 3, dtype=torch.complex64))
        self.register_buffer("phase", torch.ones(3, dtype=torch.complex64))
        self.out = nn.Linear(4, 2)
    def forward(self, x):
        if self.training:
            self.phase.mul_(torch.exp(torch.tensor(0.1j)))
        return self.out(torch.fft.irfft(torch.fft.rfft(x) @ self.spectrum * self.phase, n=4))
class Tied(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.second, self.out = nn.Linear(4, 4), nn.Linear(4, 4), nn.Linear(4, 2)
        self.second.weight = self.first.weight
    def forward(self, x):
        return self.out(torch.relu(self.second(torch.relu(self.first(x)))))
class Bounded(nn.Module):
    '''Infinities in buffers that move and that stay, beside batch statistics.'''
    def __init__(self):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(4, 8), nn.BatchNorm1d(8), nn.ReLU(), nn.Linear(8, 2))
        self.register_buffer("lowest", torch.full((4,), torch.inf))
        self.register_buffer("mask", torch.triu(torch.full((4, 4), -torch.inf), 1))
    def forward(self, x):
        if self.training:
            torch.minimum(self.lowest, x.detach().amin(0), out=self.lowest)
        lowest = torch.where(torch.isinf(self.lowest), 0.0, self.lowest)
        return self.net(x - 0.1 * lowest + torch.softmax(self.mask, -1).sum(0))
class Double(nn.Module):
    def __init__(self):
        super().__init__()
        self.scale, self.out = nn.Parameter(torch.ones(4, dtype=torch.complex128)), nn.Linear(4, 2)
    def forward(self, x):
        return self.out((x * self.scale).real.float())
def data_of():
    return {"train": data(), "validation": data(16)}
"""


@pytest.fixture
def unusual(tmp_path: Path) -> Any:
    """`unusual(model, section)` is a configuration that trains one of the models above."""
    (tmp_path / "unusual.py").write_text(UNUSUAL)

    def values(model: str, section: dict[str, Any] | None) -> dict[str, Any]:
        return {
            "model": {"use": f"unusual:{model}"},
            "data": {"use": "unusual:data_of"},
            "loader": {"batch_size": 8},
            "optimizer": {"learning_rate": 0.05},
            "training": {"epochs": 4},
            "logging": {"tensorboard": False},
            "weight_averaging": section,
        }

    return values


@pytest.mark.parametrize("section", [EMA, SWA], ids=["ema", "swa"])
@pytest.mark.parametrize("model", ["Spectral", "Tied", "Bounded"])
def test_complex_and_tied_weights_are_averaged_and_infinities_left(
    model: str, section: dict[str, Any], unusual: Any, open_session: Any
) -> None:
    session = open_session(unusual(model, section))
    seen: list[dict[str, torch.Tensor]] = []
    for epoch in range(4):
        session.model.train()
        for group in session.groups():
            take_step(session, group)
            if section is EMA:
                seen.append(copy.deepcopy(session.model.state_dict()))
        if section is SWA and epoch >= 1:
            seen.append(copy.deepcopy(session.model.state_dict()))
        average_epoch(session)
        session.progress.epoch, session.progress.batch = epoch + 1, 0
    trained = copy.deepcopy(session.model.state_dict())
    with session.evaluated_weights():
        held = copy.deepcopy(session.model.state_dict())
    for name in dict(session.model.named_parameters(remove_duplicate=False)):
        torch.testing.assert_close(held[name], averaged([values[name] for values in seen], section))
        assert not torch.equal(held[name], trained[name])
    require_finite(session, held, frozenset({"lowest", "mask"}))
    if model == "Tied":
        assert session.model.first.weight is session.model.second.weight
        assert torch.equal(held["first.weight"], held["second.weight"])
    if model == "Spectral":
        torch.testing.assert_close(held["phase"], averaged([values["phase"] for values in seen], section))
    if model == "Bounded":
        assert torch.equal(held["mask"], trained["mask"])
        assert torch.equal(held["lowest"], trained["lowest"])
        assert not torch.equal(held["net.1.running_mean"], trained["net.1.running_mean"])


def averaged(values: list[torch.Tensor], section: dict[str, Any]) -> torch.Tensor:
    if section is SWA:
        return torch.stack(values).mean(0)
    average = values[0].clone()
    for number, value in enumerate(values[1:], start=1):
        decay = min(0.9, (1 + number) / (10 + number))
        average = decay * average + (1 - decay) * value
    return average


CASES = {
    f"{model} {name}": (model, section)
    for model in ("Spectral", "Tied", "Bounded")
    for name, section in {"none": None, "ema": EMA, "swa": SWA}.items()
}


@pytest.mark.requirement("REPRO-6", "CKPT-1")
@pytest.mark.parametrize("case", variants(CASES, quick=["Spectral ema", "Tied none", "Bounded swa"]))
def test_such_models_are_resumed_exactly(case: str, unusual: Any, assert_halted_ends_the_same: Any) -> None:
    assert_halted_ends_the_same(unusual(*CASES[case]), 3 * 6 + 4)


@pytest.mark.requirement("CKPT-1")
def test_complex_weights_that_are_not_finite_are_not_saved(unusual: Any, open_session: Any) -> None:
    session = open_session(unusual("Spectral", None))
    session.model.spectrum.data[0, 1] = complex("nan+1j")
    with pytest.raises(DivergenceError, match="spectrum has 1 values"):
        require_finite(session, session.state()[0], session.infinite_buffers)


@pytest.mark.requirement("CKPT-1", "CONF-1")
def test_weights_that_no_checkpoint_can_hold_are_refused_before_training(unusual: Any, open_session: Any) -> None:
    with pytest.raises(ConfigurationError, match="scale is complex128") as error:
        open_session(unusual("Double", None))
    assert "complex64" in error.value.remedy
