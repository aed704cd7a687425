"""The residual network: the paper's sizes, and digits learned with it."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from trainwright.trainer.base.errors import ConfigurationError
from trainwright.trainer.engine.evaluation import evaluate_split
from trainwright.trainer.models.resnet import ResNet

DIGITS: dict[str, Any] = {
    "model": {"use": "resnet", "args": {"depth": 8, "width": 8}},
    "data": {"use": "digits"},
    "metrics": ["accuracy"],
    "loader": {"batch_size": 64},
    "optimizer": {"learning_rate": 1e-2},
    "training": {"epochs": 3},
    "logging": {"tensorboard": False},
}


@pytest.mark.requirement("TRAIN-1")
@pytest.mark.parametrize(("depth", "parameters"), [(20, 269_722), (32, 464_154), (56, 853_018)])
def test_it_has_as_many_parameters_as_the_papers_networks(depth: int, parameters: int) -> None:
    """Table 6 of the paper: 0.27, 0.46 and 0.85 million for 32 x 32 images of 10 classes."""
    model = ResNet((3, 32, 32), 10, depth=depth)
    assert sum(parameter.numel() for parameter in model.parameters()) == parameters


@pytest.mark.requirement("TRAIN-1")
@pytest.mark.parametrize("norm", ["batch", "group", "none"])
def test_images_of_any_size_and_channels_become_class_scores(norm: str) -> None:
    model = ResNet((2, 9, 7), 5, depth=8, width=4, norm=norm, dropout=0.1)
    assert model(torch.randn(3, 2, 9, 7)).shape == (3, 5)


@pytest.mark.slow
@pytest.mark.requirement("TRAIN-1")
def test_digits_are_learned_in_three_epochs(open_session: Any, take_steps: Any) -> None:
    """Guessing gives 0.1."""
    session = open_session(DIGITS)
    for epoch in range(3):
        session.progress.epoch, session.progress.batch = epoch, 0
        take_steps(session, 100)
    assert evaluate_split(session, session.validation_loader)["accuracy"] > 0.9


@pytest.mark.requirement("TRAIN-1", "CONF-1")
def test_a_table_is_no_image(open_session: Any) -> None:
    with pytest.raises(ConfigurationError, match="resnet needs images"):
        open_session({**DIGITS, "data": {"use": "iris"}})
