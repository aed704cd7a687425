"""Models for tables: features as tokens, the same weights twice, and their exports."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from tests.trainer.models.test_exports import exported
from torch import nn

from trainwright.trainer.base.errors import ConfigurationError
from trainwright.trainer.config import parse_config
from trainwright.trainer.models import MODELS
from trainwright.trainer.models.ft_transformer import FeatureTokens, FTTransformer
from trainwright.trainer.models.tabular_resnet import TabularResNet

GROUPS = [1, 3, 1, 2, 3]
SMALL: dict[str, Any] = {"layers": 2, "width": 16}
KINDS = {"ft_transformer": FTTransformer, "tabular_resnet": TabularResNet}


@pytest.mark.requirement("TRAIN-1")
def test_a_token_of_a_one_hot_group_is_an_embedding() -> None:
    tokens = FeatureTokens(GROUPS, 4)
    rows = torch.zeros(3, 10)
    rows[range(3), [1, 2, 3]] = 1.0  # the three values of the second feature
    found = tokens(rows) - tokens(torch.zeros(3, 10))
    changed = found.abs().sum(dim=2) > 0
    assert changed.sum(dim=1).tolist() == [1, 1, 1]
    assert changed[:, 0].sum() == 0  # the class token
    embedding = tokens.weights[tokens.sizes.index(3)][0]
    torch.testing.assert_close(found[changed], embedding)
    for column in range(10):  # every column reaches one token
        one = torch.zeros(1, 10)
        one[0, column] = 1.0
        assert int(((tokens(one) - tokens(torch.zeros(1, 10))).abs().sum(dim=2) > 0).sum()) == 1


@pytest.mark.requirement("TRAIN-1", "REPRO-1")
@pytest.mark.parametrize("kind", KINDS)
def test_the_same_seed_gives_the_same_gradients(kind: str) -> None:
    def gradients() -> list[torch.Tensor]:
        torch.manual_seed(0)
        model: nn.Module = KINDS[kind](GROUPS, 3, **SMALL)
        model(torch.randn(8, 10)).square().mean().backward()
        return [parameter.grad for parameter in model.parameters() if parameter.grad is not None]

    first, second = gradients(), gradients()
    assert len(first) == len(list(KINDS[kind](GROUPS, 3, **SMALL).parameters()))
    assert all(torch.equal(one, other) for one, other in zip(first, second, strict=True))


@pytest.mark.requirement("CONF-1")
def test_arguments_and_inputs_that_do_not_fit_are_refused() -> None:
    with pytest.raises(ConfigurationError, match="96 is none of 7"):
        parse_config({"model": {"use": "ft_transformer", "args": {"heads": 7}}, "data": {"use": "iris"}})
    with pytest.raises(ConfigurationError, match="rows of a table"):
        MODELS["tabular_resnet"]().require_input("tabular_resnet", torch.zeros(1, 8, 8), None)


@pytest.mark.long
@pytest.mark.slow
@pytest.mark.requirement("CKPT-5", "TRAIN-1")
@pytest.mark.parametrize("kind", KINDS)
def test_they_train_and_are_written_as_onnx(kind: str, project: Path, make_run: Any, work: Any) -> None:
    values = {"model": {"use": kind, "args": SMALL}, "data": {"use": "wine"}, "metrics": ["accuracy"]}
    evidence = exported(values, project, make_run, work).evidence("export")
    assert evidence["onnx"]["passed"]
    assert evidence["safetensors"]["reloaded_identical"]
