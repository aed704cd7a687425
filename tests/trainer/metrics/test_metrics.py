"""Metrics against scikit-learn, over the whole split at once."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch

from trainwright.trainer.base.errors import ConfigurationError, UserCodeError
from trainwright.trainer.losses import built_in_loss
from trainwright.trainer.metrics import BUILT_IN, Metric, evaluate


@pytest.mark.requirement("TRACK-1")
@pytest.mark.parametrize("seed", range(5))
def test_classification_metrics_are_those_of_the_field(seed: int) -> None:
    from sklearn import metrics as known

    generator = torch.Generator().manual_seed(seed)
    logits, targets = torch.randn(97, 4, generator=generator), torch.randint(0, 4, (97,), generator=generator)
    values = evaluate([BUILT_IN[name] for name in ("accuracy", "f1", "matthews_correlation")], logits, targets)
    guessed = logits.argmax(1)
    assert values["accuracy"] == pytest.approx(known.accuracy_score(targets, guessed))
    assert values["f1"] == pytest.approx(known.f1_score(targets, guessed, average="macro"))
    assert values["matthews_correlation"] == pytest.approx(known.matthews_corrcoef(targets, guessed))
    scores = torch.randn(97, generator=generator).round(decimals=1)  # with ties
    two = (targets > 1).long()
    assert BUILT_IN["auc"].compute(scores, two) == pytest.approx(known.roc_auc_score(two, scores))
    pair = torch.stack([torch.zeros(97), scores], dim=1)
    assert BUILT_IN["auc"].compute(pair, two) == pytest.approx(known.roc_auc_score(two, scores))
    assert BUILT_IN["accuracy"].compute(scores[:, None], two) == pytest.approx(known.accuracy_score(two, scores > 0))


@pytest.mark.requirement("TRACK-1")
def test_metrics_of_several_labels_are_those_of_the_field() -> None:
    from sklearn import metrics as known

    generator = torch.Generator().manual_seed(1)
    logits = torch.randn(97, 3, generator=generator)
    targets = torch.randint(0, 2, (97, 3), generator=generator).float()
    values = evaluate([BUILT_IN[name] for name in ("accuracy", "f1", "auc")], logits, targets)
    guessed = logits > 0
    assert values["accuracy"] == pytest.approx(known.accuracy_score(targets.ravel(), guessed.ravel()))
    assert values["f1"] == pytest.approx(known.f1_score(targets, guessed, average="macro"))
    assert values["auc"] == pytest.approx(known.roc_auc_score(targets, logits))
    pixels = torch.eye(3)[torch.randint(0, 3, (2, 5, 3), generator=generator)].permute(0, 3, 1, 2)
    assert BUILT_IN["accuracy"].compute(pixels, pixels.argmax(1)) == 1.0


@pytest.mark.requirement("TRACK-1")
def test_regression_metrics_are_those_of_the_field() -> None:
    from sklearn import metrics as known

    outputs, targets = torch.randn(50, 1), torch.randn(50)
    assert BUILT_IN["mae"].compute(outputs, targets) == pytest.approx(known.mean_absolute_error(targets, outputs[:, 0]))
    assert BUILT_IN["r2"].compute(outputs, targets) == pytest.approx(
        known.r2_score(*map(np.asarray, (targets, outputs[:, 0])))
    )


@pytest.mark.requirement("TRACK-1")
def test_classes_that_one_side_lacks_count_as_in_scikit_learn() -> None:
    from sklearn import metrics as known

    guessed, targets = torch.tensor([0, 1, 1, 2, 3]), torch.tensor([0, 1, 0, 2, 2])  # of class 3 there is no sample
    values = evaluate(
        [BUILT_IN[name] for name in ("balanced_accuracy", "f1", "mean_iou")], torch.eye(5)[guessed], targets
    )
    assert values["f1"] == pytest.approx(known.f1_score(targets, guessed, average="macro"))
    assert values["mean_iou"] == pytest.approx(known.jaccard_score(targets, guessed, average="macro"))
    present = [float((guessed[targets == label] == label).double().mean()) for label in targets.unique()]
    assert values["balanced_accuracy"] == pytest.approx(np.mean(present))


@pytest.mark.requirement("TRACK-1")
def test_numbers_far_from_zero_cost_no_precision() -> None:
    from sklearn import metrics as known

    generator = torch.Generator().manual_seed(0)
    targets = torch.randint(0, 2, (2000,), generator=generator)
    logits = 30 * torch.randn(2000, generator=generator) + 20 * targets + 100  # a sigmoid would make most of them 1.0
    assert BUILT_IN["auc"].compute(logits, targets) == pytest.approx(known.roc_auc_score(targets, logits))
    far = torch.randn(2000, generator=generator) + 1e5
    outputs = far + 0.5 * torch.randn(2000, generator=generator)
    assert BUILT_IN["r2"].compute(outputs, far) == pytest.approx(
        known.r2_score(*map(np.asarray, (far.double(), outputs.double())))
    )


def test_a_metric_of_many_classes_needs_memory_for_the_samples_alone() -> None:
    guessed, targets = (
        torch.arange(50),
        torch.arange(50) * 1_000_000,
    )  # a table of classes by classes would have 10^15 cells
    for name in ("balanced_accuracy", "f1", "mean_iou"):
        assert BUILT_IN[name].compute(torch.eye(50)[guessed], targets) < 0.05


def test_what_cannot_be_measured_is_nan_and_ignored_tokens_do_not_count() -> None:
    assert math.isnan(BUILT_IN["auc"].compute(torch.randn(5), torch.ones(5)))
    assert math.isnan(BUILT_IN["r2"].compute(torch.randn(5), torch.ones(5)))
    logits, targets = torch.eye(3)[None].repeat(2, 1, 1), torch.tensor([[0, 1, -100], [0, 0, -100]])
    assert BUILT_IN["accuracy"].compute(logits, targets) == 0.75


def test_a_users_metric_must_give_numbers() -> None:
    assert evaluate([Metric("mine", lambda o, t: {"a": np.float32(1.0)})], None, None) == {"a": 1.0}
    with pytest.raises(UserCodeError, match="must be one number"):
        evaluate([Metric("mine", lambda o, t: [1, 2])], None, None)


@pytest.mark.requirement("GATE-1", "GATE-5")
@pytest.mark.parametrize("name", ["accuracy", "Accuracy ", "r2", "loss", "gradient_norm"])
def test_a_users_metric_may_not_return_a_number_under_a_name_that_is_taken(name: str) -> None:
    fake = Metric("mine", lambda o, t: {name: 1.0}, user_defined=True)
    with pytest.raises(ConfigurationError, match=r"`metrics`: 'mine' gives a metric of your own the name") as caught:
        evaluate([fake], None, None)
    assert repr(name) in caught.value.message
    assert f"own_{name.strip().lower()}" in caught.value.remedy


@pytest.mark.requirement("GATE-1", "GATE-5")
def test_two_metrics_may_not_return_one_name() -> None:
    def metric(name: str) -> Metric:
        return Metric(name, lambda o, t: {"score": 1.0}, user_defined=True)

    with pytest.raises(ConfigurationError, match="a second metric named 'score'"):
        evaluate([metric("one"), metric("two")], None, None)


@pytest.mark.requirement("TRAIN-1")
def test_losses_are_torchs_own() -> None:
    logits, targets = torch.randn(6, 3), torch.tensor([0, 1, 2, 2, 1, 0])
    smooth = built_in_loss("cross_entropy", {"label_smoothing": 0.1}).compute(logits, targets)
    assert torch.equal(smooth, torch.nn.functional.cross_entropy(logits, targets, label_smoothing=0.1))
    flat = built_in_loss("mse", {}).compute(torch.ones(4, 1), torch.zeros(4))
    assert flat.item() == 1.0
