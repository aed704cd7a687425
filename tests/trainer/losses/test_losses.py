"""Losses against their papers and torch, and what they refuse."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest
import torch
import torch.nn.functional as F  # noqa: N812 - the field's name for it
from sklearn import metrics as reference

from trainwright.trainer.base.errors import ConfigurationError, DataError
from trainwright.trainer.data.tensors import TensorSamples
from trainwright.trainer.losses import LOSSES, built_in_loss
from trainwright.trainer.losses.fit import check_fit, measured_on_train
from trainwright.trainer.losses.loss import Loss
from trainwright.trainer.metrics import BUILT_IN as METRICS

pytestmark = pytest.mark.requirement("TRAIN-5")

LOGITS = torch.randn(12, 4, generator=torch.Generator().manual_seed(0))
LABELS = torch.tensor([0, 1, 2, 3, 0, 0, 1, 0, 2, 0, 0, 1])
COUNTS = torch.tensor([900, 90, 9, 1])


def counted(name: str, **args: Any) -> Loss:
    """Return a loss whose weights were measured on COUNTS."""
    labels = {label: int(number) for label, number in enumerate(COUNTS)}
    return measured_on_train(built_in_loss(name, args), [None] * int(COUNTS.sum()), labels, 4)


def test_focal_is_the_papers() -> None:
    p = F.softmax(LOGITS, dim=1)[torch.arange(12), LABELS]
    torch.testing.assert_close(built_in_loss("focal", {}).compute(LOGITS, LABELS), (-((1 - p) ** 2) * p.log()).mean())
    plain = built_in_loss("focal", {"gamma": 0}).compute(LOGITS, LABELS)
    torch.testing.assert_close(plain, F.cross_entropy(LOGITS, LABELS))
    alpha = torch.tensor([0.1, 1.0, 2.0, 4.0])
    weighted = built_in_loss("focal", {"gamma": 0, "weights": alpha.tolist()}).compute(LOGITS, LABELS)
    torch.testing.assert_close(weighted, -(alpha[LABELS] * p.log()).mean())


@pytest.mark.requirement("REPRO-2")
@pytest.mark.parametrize("places", [(5,), (5, 6), (2, 3, 4)], ids=["time", "pictures", "volumes"])
@pytest.mark.parametrize("smoothing", [0.0, 0.1])
@pytest.mark.parametrize("weights", [None, [0.5, 1.0, 2.0, 4.0]])
def test_cross_entropy_of_places_is_torchs_by_a_route_that_cuda_has(
    places: tuple[int, ...], smoothing: float, weights: list[float] | None
) -> None:
    """Its gradient is that of torch's mean to the bit: no trained weight changes. With smoothing it is near the bit."""
    generator = torch.Generator().manual_seed(0)
    output = torch.randn(3, 4, *places, generator=generator, requires_grad=True)
    target = torch.randint(0, 4, (3, *places), generator=generator)
    target[0, :2] = -100
    ours = built_in_loss("cross_entropy", {"label_smoothing": smoothing, "weights": weights}).compute(output, target)
    weight = None if weights is None else torch.tensor(weights)
    reduction = "mean" if weights is None else "sum"
    theirs = F.cross_entropy(output, target, weight, reduction=reduction, label_smoothing=smoothing)
    theirs = theirs if weights is None else theirs / (target != -100).sum()
    torch.testing.assert_close(ours, theirs, rtol=2.5e-7, atol=0)
    (gradient,), (expected,) = torch.autograd.grad(ours, output), torch.autograd.grad(theirs, output)
    torch.testing.assert_close(gradient, expected, rtol=0, atol=1e-8 if smoothing else 0)


def test_a_share_for_each_class_of_a_place_is_torchs() -> None:
    output, shares = torch.randn(3, 4, 5, 6), torch.rand(3, 4, 5, 6).softmax(1)
    assert torch.equal(built_in_loss("cross_entropy", {}).compute(output, shares), F.cross_entropy(output, shares))


@pytest.mark.parametrize("gamma", [0.0, 0.5, 1.0, 2.0])
def test_focal_has_a_finite_gradient_where_the_model_is_certain(gamma: float) -> None:
    logits = torch.tensor([[200.0, 0.0], [0.0, 200.0]], requires_grad=True)
    built_in_loss("focal", {"gamma": gamma}).compute(logits, torch.tensor([0, 0])).backward()
    assert bool(torch.isfinite(logits.grad).all())


def test_class_balanced_weighs_by_the_effective_number() -> None:
    loss = counted("class_balanced", beta=0.99)
    effective = (1 - 0.99 ** COUNTS.double()) / (1 - 0.99)
    wanted = (1 / effective) / (1 / effective)[0]
    assert loss.weights is not None
    torch.testing.assert_close(loss.weights.double() / loss.weights[0].double(), wanted, rtol=1e-5, atol=0)
    assert float((loss.weights * COUNTS).sum() / COUNTS.sum()) == pytest.approx(1.0, rel=1e-5)
    terms = F.cross_entropy(LOGITS, LABELS, reduction="none") * loss.weights[LABELS]
    torch.testing.assert_close(loss.compute(LOGITS, LABELS), terms.mean())
    assert torch.equal(counted("class_balanced", beta=0.0).weights, torch.ones(4)), "beta 0 is no weighting"  # type: ignore[arg-type]
    balanced = counted("cross_entropy", weights="balanced")
    assert balanced.weights is not None
    torch.testing.assert_close(balanced.weights * COUNTS, torch.full((4,), 250.0))


def test_pos_weight_levels_each_label() -> None:
    targets = torch.tensor([[1.0, 0.0]] * 1 + [[0.0, 1.0]] * 3)
    samples = TensorSamples(torch.zeros(4, 1), targets)
    loss = measured_on_train(built_in_loss("bce_with_logits", {"pos_weight": "balanced"}), samples, {}, 0)
    assert loss.weights is not None
    assert loss.weights.tolist() == pytest.approx([3.0, 1 / 3])
    logits = LOGITS[:4, :2]
    wanted = F.binary_cross_entropy_with_logits(logits, targets, pos_weight=torch.tensor([3.0, 1 / 3]))
    torch.testing.assert_close(loss.compute(logits, targets), wanted)


def test_regression_losses_are_torchs() -> None:
    output, target = LOGITS[:, :1], LOGITS[:, 1]
    assert torch.equal(built_in_loss("mae", {}).compute(output, target), F.l1_loss(output[:, 0], target))
    huber = built_in_loss("huber", {"delta": 0.5}).compute(output, target)
    assert torch.equal(huber, F.huber_loss(output[:, 0], target, delta=0.5))


def test_dice_is_the_overlap() -> None:
    target = torch.randint(0, 3, (2, 6, 6), generator=torch.Generator().manual_seed(0))
    sure = 50.0 * F.one_hot(target, 3).movedim(-1, 1).float()
    dice = built_in_loss("dice", {"smooth": 1e-6})
    assert float(dice.compute(sure, target)) == pytest.approx(0.0, abs=1e-5)
    flat = torch.zeros(1, 2, 2, 2)  # both classes at 1/2 everywhere; three pixels of 0, one of 1
    few = torch.tensor([[[0, 0], [0, 1]]])
    assert float(dice.compute(flat, few)) == pytest.approx(1 - (2 * 1.5 / 5 + 2 * 0.5 / 3) / 2, abs=1e-5)
    ignored = torch.tensor([[[0, 0], [-100, -100]]])
    assert float(dice.compute(flat, ignored)) == pytest.approx(1 - (2 * 1.0 / 3 + 0.0) / 2, abs=1e-5)
    both = built_in_loss("dice_cross_entropy", {"dice_share": 0.25, "smooth": 1e-6}).compute(flat, few)
    wanted = 0.25 * dice.compute(flat, few) + 0.75 * F.cross_entropy(flat, few)
    torch.testing.assert_close(both, wanted)


@pytest.mark.requirement("TRAIN-1")
def test_the_metrics_are_scikit_learns() -> None:
    predicted = LOGITS.argmax(1).numpy()
    balanced = METRICS["balanced_accuracy"].compute(LOGITS, LABELS)
    assert balanced == pytest.approx(reference.balanced_accuracy_score(LABELS.numpy(), predicted))
    iou = METRICS["mean_iou"].compute(LOGITS, LABELS)
    assert iou == pytest.approx(reference.jaccard_score(LABELS.numpy(), predicted, average="macro"))
    maps, wanted = LOGITS.reshape(2, 6, 4).movedim(-1, 1)[..., None], LABELS.reshape(2, 6, 1)
    assert METRICS["mean_iou"].compute(maps, wanted) == pytest.approx(iou)
    marks = (LOGITS.roll(1, 0) > 0.3).float()
    labels = [reference.balanced_accuracy_score(marks[:, k], LOGITS[:, k] > 0) for k in range(4)]
    assert METRICS["balanced_accuracy"].compute(LOGITS, marks) == pytest.approx(sum(labels) / 4)
    macro = reference.f1_score(marks.numpy(), (LOGITS > 0).numpy(), average="macro")
    assert METRICS["f1"].compute(LOGITS, marks) == pytest.approx(macro)


@pytest.mark.requirement("CONF-1")
def test_what_does_not_fit_is_told_before_training() -> None:
    three = built_in_loss("focal", {"weights": [1.0, 2.0, 3.0]})
    with pytest.raises(ConfigurationError, match="has 3 weights, the model has 4 classes"):
        check_fit(three, LOGITS, LABELS)
    with pytest.raises(ConfigurationError, match="an overlap is of areas"):
        check_fit(built_in_loss("dice", {}), LOGITS, LABELS)
    with pytest.raises(ConfigurationError, match="a share for each class"):
        check_fit(built_in_loss("focal", {}), LOGITS, F.softmax(LOGITS, 1))
    with pytest.raises(ConfigurationError, match="has 3 pos_weight, the model has 4 labels"):
        check_fit(built_in_loss("bce_with_logits", {"pos_weight": [1.0, 1.0, 1.0]}), LOGITS, torch.ones(12, 4))
    with pytest.raises(DataError, match="does not reveal without reading all of it"):
        measured_on_train(built_in_loss("class_balanced", {}), [1, 2], Counter(), 0)
    with pytest.raises(DataError, match="positives of each label"):
        measured_on_train(built_in_loss("bce_with_logits", {"pos_weight": "balanced"}), [1, 2], Counter(), 0)


OF_CLASSES = sorted(name for name, section in LOSSES.items() if section.task not in {"regression", "binary"})


@pytest.mark.requirement("TRAIN-1")
@pytest.mark.parametrize("name", OF_CLASSES)
def test_a_batch_of_which_no_target_counts_has_a_loss_of_zero_and_no_gradient(name: str) -> None:
    shape = (2, 4, 3, 3) if LOSSES[name].by_sample else (2, 5, 4)
    output = torch.randn(shape, requires_grad=True)
    target = torch.full((2, 3, 3) if LOSSES[name].by_sample else (2, 5), -100)
    loss = built_in_loss(name, {})
    value = loss.compute(output, target)
    value.backward()
    assert output.grad is not None
    assert not output.grad.any()
    assert loss.by_sample or (value.item(), loss.count(target)) == (0.0, 0)
