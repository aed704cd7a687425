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

from trainwright.trainer.clean_room import counts, metrics, numbers
from trainwright.trainer.clean_room.intervals import Resampling, bootstrap, wilson
from trainwright.trainer.clean_room.names import LEVELS
from trainwright.trainer.metrics import BUILT_IN

pytestmark = pytest.mark.requirement("GATE-6")
random = settings(max_examples=20, deadline=None)
seeds = st.integers(0, 2**31)
close = {"rel": 1e-9, "abs": 1e-12}


def test_every_built_in_metric_is_here() -> None:
    assert {*metrics.OF_OUTPUTS, *metrics.OF_SERIES, *metrics.OF_LOSS, *metrics.OF_TEXTS} == set(BUILT_IN)


def by_average(targets: Any, guessed: Any) -> dict[str, float]:
    """What scikit-learn's scorers of these names give."""
    from sklearn import metrics as known

    scores = {"f1": known.f1_score, "precision": known.precision_score, "recall": known.recall_score}
    found = {
        f"{name}_{average}": score(targets, guessed, average=average, zero_division=0)
        for name, score in scores.items()
        for average in ("macro", "weighted", "micro")
    }
    return {name: value for name, value in found.items() if name != "f1_macro"}


@random
@given(seed=seeds, rows=st.integers(2, 60), size=st.integers(2, 6))
def test_metrics_of_classes_are_scikit_learns(seed: int, rows: int, size: int) -> None:
    from sklearn import metrics as known

    draws = np.random.default_rng(seed)
    outputs, targets = draws.normal(size=(rows, size)).astype(np.float32), draws.integers(0, size, rows)
    guessed = outputs.argmax(1)
    varies = len({*targets.tolist(), *guessed.tolist()}) > 1  # else both sides agree by chance, and kappa is 0 of 0
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        wanted = {
            "accuracy": known.accuracy_score(targets, guessed),
            "balanced_accuracy": known.balanced_accuracy_score(targets, guessed),
            "f1": known.f1_score(targets, guessed, average="macro"),
            **by_average(targets, guessed),
            "mean_iou": known.jaccard_score(targets, guessed, average="macro"),
            "matthews_correlation": known.matthews_corrcoef(targets, guessed),
            "cohen_kappa": known.cohen_kappa_score(targets, guessed) if varies else math.nan,
            "quadratic_kappa": known.cohen_kappa_score(targets, guessed, weights="quadratic", labels=range(size))
            if varies else math.nan,
        }  # fmt: skip
    found = {name: metrics.compute(name, outputs, targets) for name in wanted}
    assert found == pytest.approx(wanted, **close, nan_ok=True)


@random
@given(seed=seeds, rows=st.integers(4, 60), ignored=st.booleans(), one_logit=st.booleans())
def test_metrics_of_class_1_of_two_are_scikit_learns(seed: int, rows: int, ignored: bool, one_logit: bool) -> None:
    from sklearn import metrics as known

    draws = np.random.default_rng(seed)
    outputs = draws.normal(size=(rows, 1 if one_logit else 2)).round(1)
    targets = np.concatenate([[0, 1, 1], draws.integers(0, 2, rows - 3)])
    counted = np.append([True] * 3, draws.random(rows - 3) > 0.3 * ignored)
    margins = outputs[:, 0] if one_logit else outputs[:, 1] - outputs[:, 0]
    guessed, true, chance = (margins > 0)[counted], targets[counted], (1 / (1 + np.exp(-margins)))[counted]
    wanted = {
        "f1_binary": known.f1_score(true, guessed),
        "f2_binary": known.fbeta_score(true, guessed, beta=2),
        "f05_binary": known.fbeta_score(true, guessed, beta=0.5),
        "precision_binary": known.precision_score(true, guessed, zero_division=0),
        "recall_binary": known.recall_score(true, guessed),
        "specificity": known.recall_score(true, guessed, pos_label=0),
        "auc": known.roc_auc_score(true, margins[counted]),
        "average_precision": known.average_precision_score(true, margins[counted]),
        "log_loss": known.log_loss(true, chance),
        "brier": known.brier_score_loss(true, chance),
    }
    found = {name: metrics.compute(name, outputs, np.where(counted, targets, -100)) for name in wanted}
    assert found == pytest.approx(wanted, **close)


@random
@given(seed=seeds, rows=st.integers(8, 60), size=st.integers(6, 9), decimals=st.integers(0, 3))
def test_metrics_of_probabilities_are_those_of_the_field(seed: int, rows: int, size: int, decimals: int) -> None:
    from sklearn import metrics as known
    from torchmetrics.functional.classification import multiclass_calibration_error

    draws = np.random.default_rng(seed)
    outputs, targets = draws.normal(size=(rows, size)).round(decimals), draws.integers(0, size, rows)
    counted = draws.random(rows) > 0.2
    counted[0] = True
    chances, true = torch.softmax(torch.tensor(outputs), 1).numpy()[counted], targets[counted]
    labels = np.arange(size)
    ahead = outputs[counted] + 1e-9 * labels  # of equal scores the last is first, as in top_k_accuracy_score
    wanted = {
        "log_loss": known.log_loss(true, chances, labels=labels),
        "brier": known.brier_score_loss(true, chances, labels=labels, scale_by_half=False),
        "top_3_accuracy": known.top_k_accuracy_score(true, outputs[counted], k=3, labels=labels),
        "top_5_accuracy": known.top_k_accuracy_score(true, outputs[counted], k=5, labels=labels),
        "mrr": known.label_ranking_average_precision_score(np.eye(size)[true], ahead),
        "ndcg_at_10": known.ndcg_score(np.eye(size)[true], ahead, k=10, ignore_ties=True),
        "calibration_error": multiclass_calibration_error(
            torch.tensor(chances), torch.tensor(true), num_classes=size, n_bins=15
        ).item(),
    }
    held = np.where(counted, targets, -100)
    for given_outputs, given_targets in ((outputs, held), (outputs[..., None], held[:, None])):  # rows, and pixels
        found = {name: metrics.compute(name, given_outputs, given_targets) for name in wanted}
        assert found == pytest.approx(wanted, rel=1e-6)
    with pytest.raises(ValueError, match="of 3 classes the 3 likeliest are all"):
        metrics.compute("top_3_accuracy", outputs[:, :3], targets % 3)
    with pytest.raises(ValueError, match="of 2 classes the 2 likeliest are all"):
        metrics.compute("mrr", outputs[:, :2], targets % 2)


@random
@given(seed=seeds, size=st.integers(2, 4), one_logit=st.booleans())
def test_masks_without_their_background_are_scikit_learns_over_pixels_and_over_images(
    seed: int, size: int, one_logit: bool
) -> None:
    from sklearn import metrics as known

    draws = np.random.default_rng(seed)
    size = 2 if one_logit else size
    outputs = draws.normal(size=(5, 1 if one_logit else size, 4, 3))
    targets = draws.integers(0, size, (5, 4, 3))
    targets[0], targets[1, 0] = 0, -100
    outputs[0, 0] = -9.0 if one_logit else 9.0  # nothing is there, and nothing is found
    guessed = (outputs[:, 0] > 0).astype(int) if one_logit else outputs.argmax(1)

    def score(of: Any, rows: slice) -> float:
        true, said = targets[rows][targets[rows] != -100], guessed[rows][targets[rows] != -100]
        there = sorted({*true.tolist(), *said.tolist()} - {0})
        return float(of(true, said, labels=there, average="macro")) if there else 1.0

    of_all, of_each = slice(None), [slice(row, row + 1) for row in range(5)]
    wanted = {
        "dice": score(known.f1_score, of_all),
        "foreground_iou": score(known.jaccard_score, of_all),
        "dice_per_image": np.mean([score(known.f1_score, row) for row in of_each]),
        "iou_per_image": np.mean([score(known.jaccard_score, row) for row in of_each]),
    }
    held = targets[:, None] if one_logit else targets
    assert {name: metrics.compute(name, outputs, held) for name in wanted} == pytest.approx(wanted, **close)
    assert metrics.compute("dice_per_image", outputs[:1], held[:1]) == 1.0
    with pytest.raises(ValueError, match="it is of masks"):
        metrics.compute("dice_per_image", outputs[:, :, 0, 0], targets[:, 0, 0])


@random
@given(seed=seeds, rows=st.integers(2, 60), labels=st.integers(2, 5))
def test_metrics_of_labels_are_scikit_learns(seed: int, rows: int, labels: int) -> None:
    from sklearn import metrics as known

    draws = np.random.default_rng(seed)
    outputs, targets = draws.normal(size=(rows, labels)), draws.integers(0, 2, (rows, labels)).astype(np.float32)
    targets[0], targets[1] = 0.0, 1.0
    guessed, chances = outputs > 0, 1 / (1 + np.exp(-outputs))

    def over_labels(score: Any, said: Any) -> float:
        return float(np.mean([score(targets[:, label], said[:, label]) for label in range(labels)]))

    wanted = {
        "accuracy": known.accuracy_score(targets.ravel(), guessed.ravel()),
        "f1": known.f1_score(targets, guessed, average="macro", zero_division=0),
        **by_average(targets, guessed),
        "recall_binary": known.recall_score(targets, guessed, average="macro"),
        "specificity": known.recall_score(1 - targets, ~guessed, average="macro"),
        "auc": known.roc_auc_score(targets, outputs),
        "average_precision": known.average_precision_score(targets, outputs, average="macro"),
        "matthews_correlation": over_labels(known.matthews_corrcoef, guessed),
        "balanced_accuracy": over_labels(known.balanced_accuracy_score, guessed),
        "cohen_kappa": over_labels(known.cohen_kappa_score, guessed),
        "log_loss": over_labels(known.log_loss, chances),
        "brier": over_labels(known.brier_score_loss, chances),
    }
    assert {name: metrics.compute(name, outputs, targets) for name in wanted} == pytest.approx(wanted, **close)


@settings(max_examples=12, deadline=None)
@given(seed=seeds, channels=st.sampled_from([1, 3]), noise=st.sampled_from([1e-3, 0.1, 0.5]))
def test_metrics_of_pictures_are_torchmetrics(seed: int, channels: int, noise: float) -> None:
    from torchmetrics.functional import image as known

    draws = torch.Generator().manual_seed(seed)
    targets = torch.rand(3, channels, 24, 17, generator=draws)
    outputs = (targets + noise * torch.randn(targets.shape, generator=draws)).clamp(0, 1)
    psnr = known.peak_signal_noise_ratio(outputs, targets, data_range=1.0, reduction="elementwise_mean", dim=(1, 2, 3))
    _, whole = known.structural_similarity_index_measure(outputs, targets, data_range=1.0, return_full_image=True)
    ssim = whole[..., 5:-5, 5:-5].mean()  # without the edges, where it makes pixels up
    found = {name: metrics.compute(name, outputs.numpy(), targets.numpy()) for name in ("psnr", "ssim")}
    assert found == pytest.approx({"psnr": float(psnr), "ssim": float(ssim)}, rel=1e-4)


def test_equal_pictures_are_similar_and_what_is_none_is_refused() -> None:
    equal = np.random.default_rng(0).random((2, 16, 16))
    assert [metrics.compute(name, equal, equal) for name in ("psnr", "ssim")] == [100.0, pytest.approx(1.0)]
    for name, shape, why in (("psnr", (4, 5), "it is of pictures"), ("ssim", (4, 8, 8), "smaller than a window of 11")):
        with pytest.raises(ValueError, match=why):
            metrics.compute(name, np.zeros(shape), np.zeros(shape))
    for name in ("psnr", "ssim"):
        with pytest.raises(ValueError, match=r"of values from 0 to 1, and the targets' run from 0 to 255"):
            metrics.compute(name, equal, np.where(equal == equal.max(), 255.0, equal - equal.min()))
        assert np.isnan(metrics.compute(name, np.stack([equal[0] * np.nan, equal[1]]), equal))  # it is not left out


def test_coverage_is_held_to_the_quantile() -> None:
    targets = np.arange(1.0, 11.0)[:, None]
    guessed = np.full_like(targets, 8.0)
    assert metrics.compute("coverage_error_90", guessed, targets) == pytest.approx(0.1)
    assert metrics.compute("coverage_error_75", guessed, targets) == pytest.approx(0.05)


@random
@given(seed=seeds, rows=st.integers(3, 60), decimals=st.integers(0, 3))
def test_areas_count_ties_like_scikit_learn(seed: int, rows: int, decimals: int) -> None:
    from sklearn import metrics as known

    draws = np.random.default_rng(seed)
    scores = draws.normal(size=rows).round(decimals).astype(np.float32)
    targets = np.concatenate([[0, 1], draws.integers(0, 2, rows - 2)])
    for outputs in (scores, scores[:, None], np.stack([np.zeros_like(scores), scores], 1)):
        assert metrics.compute("auc", outputs, targets) == pytest.approx(known.roc_auc_score(targets, scores), **close)
        area = known.average_precision_score(targets, scores)
        assert metrics.compute("average_precision", outputs, targets) == pytest.approx(area, **close)


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
        "mae": known.mean_absolute_error, "mape": known.mean_absolute_percentage_error, "mse": known.mean_squared_error,
        "rmse": known.root_mean_squared_error, "r2": known.r2_score,
        "explained_variance": known.explained_variance_score, "median_absolute_error": known.median_absolute_error,
    }  # fmt: skip
    wanted = {name: score(*both) for name, score in scored.items()}
    assert {name: metrics.compute(name, outputs, targets) for name in scored} == pytest.approx(wanted, rel=1e-7)
    pinball = {f"pinball_{level}": known.mean_pinball_loss(*both, alpha=level / 100) for level in LEVELS}
    found = {name: metrics.compute(name, outputs, targets) for name in pinball}
    assert found == pytest.approx(pinball, rel=1e-7)
    worst = {"worst_r2": min(known.r2_score(*both, multioutput="raw_values"))}
    worst |= {f"worst_{name}": max(scored[name](*both, multioutput="raw_values")) for name in ("mae", "mape", "rmse")}
    assert {name: metrics.compute(name, outputs, targets) for name in worst} == pytest.approx(worst, rel=1e-7)
    of_size = [np.abs(each) for each in both]
    found = {name: metrics.compute(name, of_size[1], of_size[0]) for name in ("rmsle", "smape")}
    apart = np.abs(of_size[1] - of_size[0]) / ((of_size[1] + of_size[0]) / 2)
    assert found == pytest.approx({"rmsle": known.root_mean_squared_log_error(*of_size), "smape": apart.mean()})
    covered = {f"coverage_error_{level}" for level in LEVELS}
    assert {*scored, *found, *worst, *pinball, *covered, "pearson", "spearman", "concordance"} == set(numbers.NAMES)


@random
@given(seed=seeds, rows=st.integers(3, 60), decimals=st.integers(0, 3), outputs=st.integers(1, 3))
def test_correlations_and_concordance_are_those_of_the_field(seed: int, rows: int, decimals: int, outputs: int) -> None:
    from scipy import stats

    draws = np.random.default_rng(seed)
    targets = draws.normal(size=(rows, outputs)).round(decimals)
    targets[0], targets[1] = -5.0, 5.0
    guessed = (targets + 2 * draws.normal(size=targets.shape)).round(decimals)
    guessed[0] -= 9.0  # not all are equal
    each = list(zip(guessed.T, targets.T, strict=True))
    wanted = {
        "pearson": np.mean([stats.pearsonr(*one).statistic for one in each]),
        "spearman": np.mean([stats.spearmanr(*one).statistic for one in each]),
        "concordance": np.mean([(stats.somersd(true, said).statistic + 1) / 2 for said, true in each]),
    }
    assert {name: metrics.compute(name, guessed, targets) for name in wanted} == pytest.approx(wanted, rel=1e-9)
    assert [metrics.compute(name, np.ones((rows, 1)), targets[:, 0]) for name in wanted] == [0.0, 0.0, 0.5]
    guessed[2] = np.nan
    assert all(math.isnan(metrics.compute(name, guessed, targets)) for name in wanted)


def test_a_prediction_without_a_logarithm_costs_rmsle_dearly_and_no_sign_is_lost_to_smape() -> None:
    assert 30 < metrics.compute("rmsle", np.array([-7.0]), np.array([0.0])) < math.inf
    assert metrics.compute("smape", np.array([-1.0, 0.0]), np.array([1.0, 0.0])) == 1.0, "2, and 0 where both are 0"


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
        "smape": known.SymmetricMeanAbsolutePercentageError()(outputs, targets),
        "concordance": torch.stack([known.KendallRankCorrCoef()(outputs[:, k], targets[:, k]) for k in range(3)])
        .mean().add(1).div(2),
    }  # fmt: skip
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
    for name in {
        *counts.OF_COUNTS,
        "log_loss",
        "brier",
        "calibration_error",
        "top_3_accuracy",
        "mrr",
    } - counts.OF_ONE_CLASS:
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
    for _ in range(100):
        numbers = np.repeat(draws.normal(size=20), 15) + 0.3 * draws.normal(size=300)
        for name, of in (("rows", None), ("groups", groups)):
            between = bootstrap(lambda at, numbers=numbers: float(numbers[at].mean()), 300, Resampling(300, groups=of))
            assert between is not None
            held[name] += between[0] <= 0.0 <= between[1]
    assert held["rows"] / 100 < 0.6
    assert held["groups"] / 100 > 0.86
    assert bootstrap(lambda at: float(at.mean()), 300, Resampling(300, groups=np.repeat([0, 1, 2, 3], 75))) is None
    assert bootstrap(lambda at: float(at.mean()), 1_000_000, Resampling(1_000_000)) is None, "it would take long"
