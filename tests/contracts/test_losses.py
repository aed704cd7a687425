"""Contract of the losses: each is built from its arguments, weighs micro-batches as one batch, and is learned from."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from trainwright.trainer.base.errors import ConfigurationError
from trainwright.trainer.config import parse_config
from trainwright.trainer.losses import LOSSES, built_in_loss
from trainwright.trainer.losses.fit import check_fit, measured_on_train
from trainwright.trainer.losses.loss import Loss

pytestmark = pytest.mark.requirement("TRAIN-5")

COUNTS = torch.tensor([900, 90, 9, 1])

ARGUMENTS: dict[str, tuple[dict[str, Any], str]] = {
    "cross_entropy": ({"weights": [1.0, 2.0, 3.0, 4.0], "label_smoothing": 0.1}, "tokens"),
    "focal": ({"weights": [1.0, 2.0, 3.0, 4.0]}, "tokens"),
    "class_balanced": ({}, "tokens"),
    "next_token": ({}, "tokens"),
    "masked_token": ({}, "tokens"),
    "bce_with_logits": ({"pos_weight": [1.0, 2.0, 3.0, 4.0]}, "labels"),
    "mse": ({}, "numbers"),
    "mae": ({}, "numbers"),
    "huber": ({}, "numbers"),
    "log_cosh": ({}, "numbers"),
    "quantile": ({"quantile": 0.9}, "numbers"),
    "dice": ({}, "pixels"),
    "dice_cross_entropy": ({}, "pixels"),
}
"""Every loss with arguments, and the kind of its targets."""
every = pytest.mark.parametrize("name", ARGUMENTS)


def loss_of(name: str) -> Loss:
    """Return the loss with its arguments; what it measures, it measures on COUNTS."""
    labels = {label: int(number) for label, number in enumerate(COUNTS)}
    return measured_on_train(built_in_loss(name, ARGUMENTS[name][0]), [None] * int(COUNTS.sum()), labels, 4)


def batch_of(kind: str) -> tuple[torch.Tensor, torch.Tensor]:
    """Return outputs for 4 classes and targets, some of them ignored."""
    generator = torch.Generator().manual_seed(1)
    output = torch.randn({"tokens": (7, 5, 4), "pixels": (7, 4, 3, 3)}.get(kind, (7, 4)), generator=generator)
    output.requires_grad_()
    numbers = torch.randint(0, 4, (7, 5) if kind == "tokens" else (7, 3, 3), generator=generator)
    numbers[2:4, 1:] = -100
    labels = (torch.rand(7, 4, generator=generator) > 0.5).float()
    return output, {"labels": labels, "numbers": torch.rand(7, 4, generator=generator)}.get(kind, numbers)


def test_the_contract_names_every_built_in_loss() -> None:
    assert list(ARGUMENTS) == list(LOSSES)


@every
def test_it_is_built_from_its_defaults_and_its_descent_lowers_it(name: str) -> None:
    assert built_in_loss(name, {}).name == name
    loss, (output, target) = loss_of(name), batch_of(ARGUMENTS[name][1])
    check_fit(loss, output, target)
    first = loss.compute(output, target)
    assert first.shape == ()
    optimizer = torch.optim.Adam([output], lr=0.05)
    for _ in range(20):
        optimizer.zero_grad()
        loss.compute(output, target).backward()
        optimizer.step()
    assert loss.compute(output, target) < first


@pytest.mark.requirement("CONF-1")
@every
def test_it_refuses_wrong_arguments_with_key_value_and_rule(name: str) -> None:
    work = {"model": {"use": "mlp"}, "data": {"use": "digits"}}
    with pytest.raises(ConfigurationError, match=r"unknown key `loss\.args\.learning_rate`"):
        parse_config({**work, "loss": {"use": name, "args": {"learning_rate": 0.1}}})
    for key, about in LOSSES[name].model_fields.items():
        with pytest.raises(ConfigurationError, match=rf"`loss\.args\.{key}[`.].* = -1"):
            parse_config({**work, "loss": {"use": name, "args": {key: [-1.0] if "eight" in key else -1.0}}})
        assert about.default is None or about.default >= 0


@pytest.mark.requirement("TRAIN-2")
@every
def test_uneven_micro_batches_weigh_as_the_one_large_batch(name: str) -> None:
    """The update's gradient is that of the whole batch: with ignored targets, with weights, in a smaller last part."""
    loss, (output, target) = loss_of(name), batch_of(ARGUMENTS[name][1])
    (whole,) = torch.autograd.grad(loss.compute(output, target), output)
    parts = [slice(0, 3), slice(3, 6), slice(6, 7)]
    counts = [loss.count(target[part]) for part in parts]
    summed = sum(
        loss.compute(output[part], target[part]) * n / sum(counts) for part, n in zip(parts, counts, strict=True)
    )
    (ours,) = torch.autograd.grad(summed, output)
    torch.testing.assert_close(ours, whole)
