"""A linear forecast that goes on from the last row begins as the naive one, and follows a level that drifts."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
import torch

from trainwright.trainer.base.errors import ConfigurationError
from trainwright.trainer.models.arguments import DLinearArgs

pytestmark = pytest.mark.requirement("TRAIN-1", "ARCH-1")


def built(columns: torch.Tensor, targets: torch.Tensor, horizon: int = 3, **args: Any) -> Any:
    """Return the model for windows of 8 rows of these columns, (rows, ...)."""
    splits = SimpleNamespace(series=SimpleNamespace(inputs=columns, targets=targets))
    outputs = horizon * targets.shape[1]
    around: Any = SimpleNamespace(shape=(8, columns.shape[1]), outputs=outputs, splits=splits, imagined=False)
    return DLinearArgs.model_validate({"moving_average": 5, **args}).build(around)


def test_it_begins_as_the_last_value_of_each_target_for_every_step() -> None:
    rows = torch.randn(40, 4)
    model = built(rows, rows[:, [3, 1]], from_last=True)
    windows = rows.unfold(0, 8, 1).transpose(1, 2)
    assert torch.equal(model(windows), windows[:, -1, [3, 1]].repeat(1, 3))


def test_a_shift_of_the_targets_level_shifts_the_forecast_and_nothing_else() -> None:
    rows = torch.randn(40, 4)
    model = built(rows, rows[:, [3]], from_last=True)
    for one in model.parameters():
        torch.nn.init.normal_(one, std=0.1)
    model.gain.data.fill_(1.0)
    windows = rows.unfold(0, 8, 1).transpose(1, 2)
    shifted = windows + torch.tensor([0.0, 0.0, 0.0, 7.0])
    torch.testing.assert_close(model(shifted), model(windows) + 7.0)
    assert not torch.allclose(model(windows + 7.0), model(windows) + 7.0), "other columns' levels still count"


def test_without_it_the_model_is_what_it_was() -> None:
    torch.manual_seed(0)
    rows = torch.randn(40, 2)
    model = built(rows, rows[:, [1]])
    assert set(model.state_dict()) == {"trend.weight", "trend.bias", "rest.weight", "rest.bias"}
    assert not torch.equal(model(rows[None, :8]), rows[7, 1].repeat(1, 3))


def test_a_past_that_is_not_among_the_inputs_is_named() -> None:
    rows = torch.randn(40, 2)
    with pytest.raises(ConfigurationError, match="from_last.*windows do not hold") as refused:
        built(rows, torch.randn(40, 1), from_last=True)
    assert "data.args.features" in str(refused.value.remedy)
