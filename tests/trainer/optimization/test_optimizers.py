"""Each optimizer's first steps against its paper, written out in NumPy."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from tests.releases import needs
from torch import nn

from trainwright.trainer.base import releases
from trainwright.trainer.base.errors import ConfigurationError
from trainwright.trainer.config import parse_config

Array = np.ndarray[Any, np.dtype[np.float64]]
STEPS, RATE, DECAY = 4, 0.05, 0.1


def section_of(name: str, **options: Any) -> Any:
    work = {"model": {"use": "mlp"}, "data": {"use": "digits"}}
    schedule = {"name": "constant"} if name.startswith("schedule_free") else {}
    return parse_config({**work, "schedule": schedule, "optimizer": {"name": name, **options}}).optimizer


def model_of() -> nn.Sequential:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(5, 4), nn.Linear(4, 3)).double()


def decay_of(weight: Array) -> float:
    return DECAY if weight.ndim > 1 else 0.0


def norm(value: Array) -> float:
    return float(np.sqrt((value**2).sum()))


def rms(value: Array) -> float:
    return float(np.sqrt((value**2).mean()))


# Every reference takes a parameter and its gradients, and yields the parameter after each step.


def sgd(w: Array, gradients: list[Array], momentum: float = 0.9) -> Any:
    buffer = np.zeros_like(w)
    for g in gradients:
        slope = g + decay_of(w) * w
        buffer = momentum * buffer + slope
        w = w - RATE * (slope + momentum * buffer)
        yield w


def adam(w: Array, gradients: list[Array], *, decoupled: bool = False) -> Any:
    m, v = np.zeros_like(w), np.zeros_like(w)
    for t, g in enumerate(gradients, 1):
        slope = g if decoupled else g + decay_of(w) * w
        w = w * (1 - RATE * decay_of(w)) if decoupled else w
        m, v = 0.9 * m + 0.1 * slope, 0.999 * v + 0.001 * slope**2
        w = w - RATE * (m / (1 - 0.9**t)) / (np.sqrt(v / (1 - 0.999**t)) + 1e-8)
        yield w


def adamw(w: Array, gradients: list[Array]) -> Any:
    yield from adam(w, gradients, decoupled=True)


def lamb(w: Array, gradients: list[Array]) -> Any:
    m, v = np.zeros_like(w), np.zeros_like(w)
    for g in gradients:
        m, v = 0.9 * m + 0.1 * g, 0.999 * v + 0.001 * g**2
        update = m / (np.sqrt(v) + 1e-6) + decay_of(w) * w
        w = w - RATE * min(norm(w), 10.0) / (norm(update) + 1e-6) * update
        yield w


def lars(w: Array, gradients: list[Array]) -> Any:
    buffer = np.zeros_like(w)
    for g in gradients:
        trust = 1e-3 * norm(w) / (norm(g) + DECAY * norm(w)) if w.ndim > 1 else 1.0
        buffer = 0.9 * buffer + trust * (g + decay_of(w) * w)
        w = w - RATE * buffer
        yield w


def lion(w: Array, gradients: list[Array]) -> Any:
    m = np.zeros_like(w)
    for g in gradients:
        w = w * (1 - RATE * decay_of(w)) - RATE * np.sign(0.9 * m + 0.1 * g)
        m = 0.99 * m + 0.01 * g
        yield w


def adafactor(w: Array, gradients: list[Array]) -> Any:
    rows = columns = v = np.zeros(1)
    for t, g in enumerate(gradients, 1):
        beta, scale = 1 - t**-0.8, max(1e-3, rms(w))
        w = w * (1 - RATE * decay_of(w))
        if w.ndim > 1:
            rows = beta * rows + (1 - beta) * (g**2).mean(axis=1, keepdims=True)
            columns = beta * columns + (1 - beta) * (g**2).mean(axis=0, keepdims=True)
            v = rows * columns / rows.mean()
        else:
            v = beta * v + (1 - beta) * g**2
        update = g / np.sqrt(v)
        w = w - min(RATE, 1 / np.sqrt(t)) * scale * update / max(1.0, rms(update))
        yield w


def schedule_free(w: Array, gradients: list[Array], *, adaptive: bool) -> Any:
    """Yield (training point y, average x): three sequences x, y, z as in the paper's equations."""
    x = y = z = w
    v, beta = np.zeros_like(w), 0.9
    for t, g in enumerate(gradients, 1):
        v = 0.999 * v + 0.001 * g**2
        slope = g / (np.sqrt(v / (1 - 0.999**t)) + 1e-8) if adaptive else g
        z = z - RATE * (slope + decay_of(w) * y)
        x = (1 - 1 / t) * x + z / t
        y = (1 - beta) * z + beta * x
        yield y, x


def muon(w: Array, gradients: list[Array]) -> Any:
    buffer = np.zeros_like(w)
    for g in gradients:
        buffer = 0.95 * buffer + 0.05 * g
        update = 0.05 * g + 0.95 * buffer
        x = update / norm(update)
        for _ in range(5):
            gram = x @ x.T
            x = 3.4445 * x + (-4.7750 * gram + 2.0315 * gram @ gram) @ x
        w = w * (1 - RATE * DECAY) - RATE * 0.2 * np.sqrt(max(w.shape)) * x
        yield w


REFERENCES: dict[str, Callable[..., Any]] = {
    "sgd": sgd, "adam": adam, "adamw": adamw, "lamb": lamb, "lars": lars, "lion": lion, "adafactor": adafactor,
}  # fmt: skip


def gradients_of(model: nn.Module) -> dict[str, list[Array]]:
    generator = np.random.default_rng(1)
    return {name: list(generator.normal(size=(STEPS, *p.shape))) for name, p in model.named_parameters()}


def steps_of(model: nn.Module, section: Any) -> Any:
    """Take the steps, and yield the model's parameters after each, with the optimizers."""
    gradients, optimizers = gradients_of(model), section.for_model(model)
    for number in range(STEPS):
        for name, parameter in model.named_parameters():
            parameter.grad = torch.from_numpy(gradients[name][number].copy())
        for optimizer in optimizers.values():
            optimizer.step()
        yield {name: p.detach().numpy().copy() for name, p in model.named_parameters()}, optimizers


@pytest.mark.requirement("TRAIN-3")
@pytest.mark.parametrize("name", REFERENCES)
def test_the_first_steps_are_the_papers(name: str) -> None:
    model = model_of()
    start = {key: p.detach().numpy().copy() for key, p in model.named_parameters()}
    wanted = {key: list(REFERENCES[name](w, gradients_of(model)[key])) for key, w in start.items()}
    options = {"nesterov": True} if name == "sgd" else {}
    section = section_of(name, learning_rate=RATE, weight_decay=DECAY, **options)
    for number, (weights, _) in enumerate(steps_of(model, section)):
        for key, value in weights.items():
            np.testing.assert_allclose(value, wanted[key][number], rtol=1e-7, atol=1e-9, err_msg=f"{key} {number}")


@pytest.mark.requirement("TRAIN-3")
@pytest.mark.parametrize("name", ["schedule_free_adamw", "schedule_free_sgd"])
def test_schedule_free_trains_at_y_and_averages_at_x(name: str) -> None:
    model, adaptive = model_of(), name.endswith("adamw")
    start = {key: p.detach().numpy().copy() for key, p in model.named_parameters()}
    wanted = {key: list(schedule_free(w, gradients_of(model)[key], adaptive=adaptive)) for key, w in start.items()}
    steps = list(steps_of(model, section_of(name, learning_rate=RATE, weight_decay=DECAY)))
    for number, (weights, _) in enumerate(steps):
        for key, value in weights.items():
            np.testing.assert_allclose(value, wanted[key][number][0], rtol=1e-7, atol=1e-9)
    steps[-1][1]["optimizer"].eval()
    for key, parameter in model.named_parameters():
        np.testing.assert_allclose(parameter.detach().numpy(), wanted[key][-1][1], rtol=1e-7, atol=1e-9)


@needs(releases.MUON)
@pytest.mark.requirement("TRAIN-3")
def test_muon_turns_hidden_matrices_and_leaves_the_rest_to_adamw() -> None:
    model = model_of()
    start = {key: p.detach().numpy().copy() for key, p in model.named_parameters()}
    gradients = gradients_of(model)
    wanted = {key: list((muon if key == "0.weight" else adamw)(w, gradients[key])) for key, w in start.items()}
    for number, (weights, _) in enumerate(steps_of(model, section_of("muon", learning_rate=RATE, weight_decay=DECAY))):
        for key, value in weights.items():
            # torch turns matrices in bfloat16, which has 8 bits
            tolerance = {"atol": 0.02 * (number + 1) * RATE} if key == "0.weight" else {"rtol": 1e-7, "atol": 1e-9}
            np.testing.assert_allclose(value, wanted[key][number], **tolerance)


class Tower(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.words, self.norm = nn.Embedding(7, 4), nn.LayerNorm(4)
        self.hidden, self.head = nn.Linear(4, 4), nn.Linear(4, 2)


def muon_names(model: nn.Module, **options: Any) -> dict[str, list[str]]:
    names = {id(p): name for name, p in model.named_parameters()}
    optimizers = section_of("muon", **options).for_model(model)
    return {
        key: [names[id(p)] for group in optimizer.param_groups for p in group["params"]]
        for key, optimizer in optimizers.items()
    }


@needs(releases.MUON)
@pytest.mark.requirement("TRAIN-3")
def test_muon_spares_embeddings_norms_biases_and_the_output_layer() -> None:
    assert muon_names(Tower())["muon"] == ["hidden.weight"]
    assert muon_names(Tower(), adamw_patterns=["words"])["muon"] == ["hidden.weight", "head.weight"]
    with pytest.raises(ConfigurationError, match="no matrix for it"):
        muon_names(nn.Sequential(nn.Linear(3, 2)))
    optimizers = section_of("muon", learning_rate=0.02, adamw_learning_rate=0.001).for_model(Tower())
    assert {group["lr"] for group in optimizers["muon"].param_groups} == {0.02}
    assert {group["lr"] for group in optimizers["adamw"].param_groups} == {0.001}
    with pytest.raises(ConfigurationError, match="param_groups"):
        section_of("muon").for_model(Tower(), [{"params": list(Tower().parameters())}])


@pytest.mark.requirement("TRAIN-3", "CONF-1")
def test_adam_in_8_bits_is_refused_with_a_remedy_where_bitsandbytes_is_missing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for module in ("bitsandbytes", "bitsandbytes.optim"):
        monkeypatch.setitem(sys.modules, module, None)  # as if it were not installed, whether it is or not
    with pytest.raises(ConfigurationError, match="needs the package bitsandbytes") as caught:
        section_of("adam8bit").for_model(model_of())
    assert "pip install bitsandbytes" in caught.value.remedy
