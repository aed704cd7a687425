"""Metrics in numpy against scikit-learn and torch, on random data of every kind."""

from __future__ import annotations

import math
import warnings
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from trainwright.trainer.clean_room import metrics, numbers
from trainwright.trainer.clean_room.intervals import Resampling, bootstrap, wilson
from trainwright.trainer.metrics import BUILT_IN
from trainwright.trainer.metrics.sums import OF_NUMBERS

pytestmark = pytest.mark.requirement("GATE-6")
random = settings(max_examples=60, deadline=None)
seeds = st.integers(0, 2**31)
close = {"rel": 1e-9, "abs": 1e-12}


def test_every_built_in_metric_is_here() -> None:
    assert {*metrics.OF_OUTPUTS, *metrics.OF_LOSS, *metrics.OF_TEXTS} == set(BUILT_IN)


@random
@given(seed=seeds, rows=st.integers(2, 60), size=st.integers(2, 6))
def test_metrics_of_classes_are_scikit_learns(seed: int, rows: int, size: int) -> None:
    from sklearn import metrics as known

    draws = np.random.default_rng(seed)
    outputs, targets = draws.normal(size=(rows, size)).astype(np.float32), draws.integers(0, size, rows)
    guessed = outputs.argmax(1)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        wanted = {
            "accuracy": known.accuracy_score(targets, guessed),
            "balanced_accuracy": known.balanced_accuracy_score(targets, guessed),
            "f1": known.f1_score(targets, guessed, average="macro"),
            "mean_iou": known.jaccard_score(targets, guessed, average="macro"),
            "matthews_correlation": known.matthews_corrcoef(targets, guessed),
        }
    found = {name: metrics.compute(name, outputs, targets) for name in wanted}
    assert found == pytest.approx(wanted, **close)


@random
@given(seed=seeds, rows=st.integers(2, 60), labels=st.integers(2, 5))
def test_metrics_of_labels_are_scikit_learns(seed: int, rows: int, labels: int) -> None:
    from sklearn import metrics as known

    draws = np.random.default_rng(seed)
    outputs, targets = draws.normal(size=(rows, labels)), draws.integers(0, 2, (rows, labels)).astype(np.float32)
    targets[0], targets[1] = 0.0, 1.0
    guessed = outputs > 0
    wanted = {
        "accuracy": known.accuracy_score(targets.ravel(), guessed.ravel()),
        "f1": known.f1_score(targets, guessed, average="macro", zero_division=0),
        "auc": known.roc_auc_score(targets, outputs),
        "matthews_correlation": np.mean([known.matthews_corrcoef(targets[:, n], guessed[:, n]) for n in range(labels)]),
    }
    assert {name: metrics.compute(name, outputs, targets) for name in wanted} == pytest.approx(wanted, **close)


@random
@given(seed=seeds, rows=st.integers(3, 60), decimals=st.integers(0, 3))
def test_auc_counts_ties_half_like_scikit_learn(seed: int, rows: int, decimals: int) -> None:
    from sklearn import metrics as known

    draws = np.random.default_rng(seed)
    scores = draws.normal(size=rows).round(decimals).astype(np.float32)
    targets = np.concatenate([[0, 1], draws.integers(0, 2, rows - 2)])
    for outputs in (scores, scores[:, None], np.stack([np.zeros_like(scores), scores], 1)):
        assert metrics.compute("auc", outputs, targets) == pytest.approx(known.roc_auc_score(targets, scores), **close)


@random
@given(seed=seeds, rows=st.integers(2, 60), shape=st.sampled_from([(), (1,), (2,), (5,), (3, 2)]), still=st.booleans())
def test_metrics_of_numbers_are_scikit_learns_mean_over_the_outputs(
    seed: int, rows: int, shape: tuple[int, ...], still: bool
) -> None:
    from sklearn import metrics as known

    draws = np.random.default_rng(seed)
    middles = draws.choice([0.0, 1e5, -7.0], size=shape)
    scales = draws.choice([0.5, 1.0, 50.0], size=shape)
    targets = (middles + scales * draws.normal(size=(rows, *shape))).astype(np.float32)
    outputs = (targets + scales * draws.normal(size=(rows, *shape))).astype(np.float32)
    if still and math.prod(shape) > 2:  # two outputs whose targets do not vary, of which one is always hit
        targets[:, 0], targets[:, 1] = targets[0, 0], targets[0, 1]
        outputs[:, 1] = targets[:, 1]
    both = targets.reshape(rows, -1).astype(float), outputs.reshape(rows, -1).astype(float)
    scored = {
        "mae": known.mean_absolute_error, "mape": known.mean_absolute_percentage_error,
        "rmse": known.root_mean_squared_error, "r2": known.r2_score,
    }  # fmt: skip
    wanted = {name: score(*both) for name, score in scored.items()}
    assert {name: metrics.compute(name, outputs, targets) for name in scored} == pytest.approx(wanted, rel=1e-7)
    assert set(scored) == set(numbers.OF_SUMS) == OF_NUMBERS


def test_metrics_of_several_outputs_are_torchmetrics_too() -> None:
    known = pytest.importorskip("torchmetrics.regression")
    draws = torch.Generator().manual_seed(0)
    targets = 1.0 + 2.0 * torch.rand(200, 3, generator=draws) + torch.tensor([0.0, 5.0, 30.0])
    outputs = targets + torch.randn(200, 3, generator=draws)
    wanted = {
        "r2": known.R2Score(multioutput="uniform_average")(outputs, targets),
        "mae": known.MeanAbsoluteError(num_outputs=3)(outputs, targets).mean(),
        "rmse": known.MeanSquaredError(squared=False, num_outputs=3)(outputs, targets).mean(),
        "mape": known.MeanAbsolutePercentageError()(outputs, targets),
    }
    found = {name: BUILT_IN[name].compute(outputs, targets) for name in wanted}
    assert found == pytest.approx({name: value.item() for name, value in wanted.items()}, rel=1e-4)


@random
@given(seed=seeds)
def test_the_difference_between_the_outputs_means_explains_nothing(seed: int) -> None:
    noise = np.random.default_rng(seed).normal(size=(400, 2)) + np.array([0.0, 1000.0])
    assert metrics.compute("r2", np.broadcast_to(noise.mean(axis=0), noise.shape), noise) == pytest.approx(0, abs=1e-9)


@random
@given(seed=seeds, shape=st.sampled_from([(6, 5), (6, 3, 4), (6, 1)]))
def test_ignored_tokens_and_pixels_do_not_count(seed: int, shape: tuple[int, ...]) -> None:
    draws = np.random.default_rng(seed)
    targets = draws.integers(0, 4, shape)
    targets[draws.random(shape) < 0.3] = -100
    by_last = draws.normal(size=(*shape, 4))
    outputs = by_last if len(shape) == 2 else np.moveaxis(by_last, -1, 1)
    counted = targets != -100
    for name in ("accuracy", "balanced_accuracy", "f1", "mean_iou", "matthews_correlation"):
        plain = metrics.compute(name, by_last[counted], targets[counted]) if counted.any() else math.nan
        assert metrics.compute(name, outputs, targets) == pytest.approx(plain, nan_ok=True)


@pytest.mark.requirement("TRACK-1")
@pytest.mark.parametrize("kind", [torch.float32, torch.float64, torch.bfloat16, torch.float16])
def test_the_engines_metrics_are_these_for_tensors_of_any_type(kind: Any) -> None:
    draws = torch.Generator().manual_seed(0)
    outputs, targets = torch.randn(50, 3, generator=draws).to(kind), torch.randint(0, 3, (50,), generator=draws)
    outputs.requires_grad_()
    wide = outputs.detach().float().numpy()
    for name in ("accuracy", "f1", "balanced_accuracy", "mean_iou", "matthews_correlation"):
        assert BUILT_IN[name].compute(outputs, targets) == metrics.compute(name, wide, targets.numpy())


def test_outputs_that_do_not_fit_are_refused() -> None:
    with pytest.raises(ValueError, match="900 scores for 300 targets"):
        metrics.compute("auc", np.zeros((300, 3)), np.zeros(300, dtype=np.int64))
    with pytest.raises(ValueError, match="4 predicted classes for 5 targets"):
        metrics.compute("f1", np.zeros((4, 3)), np.zeros(5, dtype=np.int64))


def test_intervals_hold_the_true_value_about_nineteen_times_in_twenty() -> None:
    draws = np.random.default_rng(0)
    shares, means = 0, 0
    for _ in range(200):
        right = draws.random(150) < 0.9
        low, high = wilson(float(right.mean()), 150)
        shares += low <= 0.9 <= high
        numbers = draws.normal(size=150)
        between = bootstrap(lambda at, numbers=numbers: float(numbers[at].mean()), 150, Resampling(150))
        assert between is not None
        means += between[0] <= 0.0 <= between[1]
    assert 0.9 <= shares / 200 <= 1.0
    assert 0.88 <= means / 200 <= 0.99
    assert wilson(1.0, 20) == pytest.approx((0.8388748, 1.0), abs=1e-6)


def test_intervals_over_groups_hold_the_true_value_where_those_over_rows_do_not() -> None:
    draws = np.random.default_rng(0)
    groups = np.repeat(np.arange(20), 15)
    held = {"rows": 0, "groups": 0}
    for _ in range(200):
        numbers = np.repeat(draws.normal(size=20), 15) + 0.3 * draws.normal(size=300)
        for name, of in (("rows", None), ("groups", groups)):
            between = bootstrap(lambda at, numbers=numbers: float(numbers[at].mean()), 300, Resampling(300, groups=of))
            assert between is not None
            held[name] += between[0] <= 0.0 <= between[1]
    assert held["rows"] / 200 < 0.6
    assert held["groups"] / 200 > 0.86
    assert bootstrap(lambda at: float(at.mean()), 300, Resampling(300, groups=np.repeat([0, 1, 2, 3], 75))) is None
    assert bootstrap(lambda at: float(at.mean()), 1_000_000, Resampling(1_000_000)) is None, "it would take long"
