"""Metrics of a split in parts: from sums they are those of all outputs at once."""

from __future__ import annotations

import math
from functools import reduce
from itertools import pairwise
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from trainwright.trainer.base.errors import ConfigurationError, DataError
from trainwright.trainer.clean_room.counts import OF_COUNTS, OF_ONE_CLASS
from trainwright.trainer.clean_room.images import OF_IMAGES
from trainwright.trainer.clean_room.metrics import OF_MEANS
from trainwright.trainer.clean_room.numbers import OF_SUMS
from trainwright.trainer.engine.totals import EpochTotals
from trainwright.trainer.metrics import built_in_metric, evaluate
from trainwright.trainer.metrics.evaluate import evaluate_sums, fold

pytestmark = pytest.mark.requirement("PIPE-1")

CUTS = (0, 1, 40, 41, 700, 1000)


def _classes(classes: int, ignored: bool = False, apart: int = 1) -> tuple[Any, Any]:
    draws = torch.Generator().manual_seed(classes)
    targets = torch.randint(0, classes, (1000,), generator=draws) * apart
    if ignored:
        targets[::7] = -100
    return torch.randn(1000, classes, generator=draws), targets


def _in_parts(metrics: Any, outputs: Any, targets: Any, task: str | None) -> dict[str, float]:
    def grow(sums: Any, cut: tuple[int, int]) -> Any:
        part = slice(*cut)
        return fold(metrics, outputs[part], targets[part], task=task, before=sums)

    sums = reduce(grow, pairwise(CUTS), None)
    assert sums is not None
    return evaluate_sums(metrics, sums)


@pytest.mark.parametrize(
    ("outputs", "targets"),
    [
        _classes(2),
        _classes(10, ignored=True),
        _classes(7, apart=10**6),
        (torch.randn(1000), torch.arange(1000) % 2),
        (torch.randn(1000, 3, 2, 2), torch.arange(4000).reshape(1000, 2, 2) % 3),
        (torch.randn(1000, 3), torch.softmax(torch.randn(1000, 3), 1)),
    ],
    ids=["two classes", "some ignored", "classes far apart", "one logit", "pixels", "probabilities"],
)
def test_metrics_of_classes_are_the_same_bit_for_bit_however_a_split_is_cut(outputs: Any, targets: Any) -> None:
    two = outputs.dim() == 1 or outputs.shape[1] == 2
    metrics = [built_in_metric(name) for name in sorted(OF_COUNTS if two else OF_COUNTS.keys() - OF_ONE_CLASS)]
    at_once = evaluate(metrics, outputs, targets, task="classification")
    assert _in_parts(metrics, outputs, targets, "classification") == at_once


@pytest.mark.parametrize("shape", [(), (1,), (3,), (3, 2)])
def test_metrics_of_numbers_far_from_zero_agree_to_twelve_digits(shape: tuple[int, ...]) -> None:
    metrics = [built_in_metric(name) for name in sorted(OF_SUMS)]
    draws = torch.Generator().manual_seed(0)
    middles = 1e4 * torch.arange(1, math.prod(shape) + 1).reshape(shape)
    targets = torch.randn(1000, *shape, generator=draws).double() + middles
    if len(shape) > 1:
        targets[:, 0] = 0.1  # two outputs that do not vary, though the mean of their sums is not exactly this
    outputs = targets + 0.1 * torch.randn(1000, *shape, generator=draws).double()
    at_once = evaluate(metrics, outputs, targets)
    assert 0.5 < at_once["r2"] < 0.995
    assert _in_parts(metrics, outputs, targets, None) == pytest.approx(at_once, rel=1e-10)


def test_means_over_targets_and_over_images_agree_to_twelve_digits() -> None:
    outputs, targets = torch.randn(1000, 6, 3, 2), torch.arange(6000).reshape(1000, 3, 2) % 6
    targets[5], targets[6], targets[:, 0, 0] = -100, 0, -100
    metrics = [built_in_metric(name) for name in OF_MEANS if name not in OF_IMAGES]
    assert _in_parts(metrics, outputs, targets, None) == pytest.approx(evaluate(metrics, outputs, targets), rel=1e-12)


def test_means_over_pictures_agree_to_twelve_digits() -> None:
    draws = torch.Generator().manual_seed(0)
    outputs, targets = (torch.rand(1000, 1, 12, 12, generator=draws) for _ in range(2))
    metrics = [built_in_metric(name) for name in OF_IMAGES]
    assert _in_parts(metrics, outputs, targets, None) == pytest.approx(evaluate(metrics, outputs, targets), rel=1e-12)


def test_a_third_class_in_the_sums_of_a_metric_of_two_is_refused_with_its_number() -> None:
    metrics = [built_in_metric("f1_binary")]
    sums = fold(metrics, torch.eye(3), torch.arange(3), task="classification")
    assert sums is not None
    with pytest.raises(ConfigurationError, match="f1_binary cannot be computed: it is of classes 0 and 1"):
        evaluate_sums(metrics, sums)


@pytest.mark.parametrize("name", ["auc", "accuracy"])
def test_ranks_and_several_labels_need_all_outputs(name: str) -> None:
    shape = (50,) if name == "auc" else (50, 3)
    assert fold([built_in_metric(name)], torch.randn(shape), torch.ones(shape), task="binary") is None


@pytest.mark.parametrize(
    ("name", "first", "second"),
    [("accuracy", torch.tensor([0, 1, 2, 0, 1, 2]), torch.ones(6, 3)), ("mae", torch.ones(6, 1), torch.ones(6, 3))],
)
def test_a_later_part_of_another_form_is_refused_and_not_measured_alone(name: str, first: Any, second: Any) -> None:
    work = SimpleNamespace(metrics=[built_in_metric(name)], task=None)
    totals = EpochTotals(outputs=[torch.randn(6, 3 if name == "accuracy" else 1)], targets=[first])
    totals.fold(work, least_bytes=0)
    totals.outputs, totals.targets = [torch.randn(6, 3)], [second]
    with pytest.raises(DataError, match=r"shape \(6, 3\) and \(6, 3\) cannot be counted"):
        totals.fold(work, least_bytes=0)
