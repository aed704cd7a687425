"""The clean room's losses are the engine's: each of the registry against torch, over batches of any shape."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F  # noqa: N812 - the field's name for it
from hypothesis import given, settings
from hypothesis import strategies as st

from trainwright.trainer.clean_room import losses
from trainwright.trainer.clean_room.comparison import Comparison
from trainwright.trainer.clean_room.intervals import Resampling
from trainwright.trainer.losses import LOSSES, built_in_loss

pytestmark = pytest.mark.requirement("GATE-6")

WEIGHTS = [0.5, 2.0, 1.0, 4.0]
COUNTS = torch.tensor([900, 90, 10])
"""Of the train split, which lacks the last class."""
LABEL_COUNTS = torch.tensor([[900, 90, 10, 1], [1, 10, 90, 0]])
CASES: list[tuple[str, dict[str, Any], str]] = [
    ("cross_entropy", {}, "classes tokens pixels shares"),
    ("cross_entropy", {"label_smoothing": 0.2}, "classes tokens pixels shares"),
    ("cross_entropy", {"label_smoothing": 0.2, "weights": WEIGHTS}, "classes tokens pixels shares"),
    ("cross_entropy", {"weights": "balanced"}, "classes tokens pixels"),
    ("focal", {"gamma": 0.5, "weights": WEIGHTS}, "classes tokens pixels"),
    ("focal", {}, "classes tokens pixels"),
    ("class_balanced", {"gamma": 1.5}, "classes tokens"),
    ("class_balanced", {"label_smoothing": 0.1}, "classes tokens shares"),
    ("next_token", {}, "tokens"),
    ("masked_token", {}, "tokens"),
    ("bce_with_logits", {}, "labels"),
    ("bce_with_logits", {"pos_weight": WEIGHTS}, "labels"),
    ("bce_with_logits", {"pos_weight": 3.0}, "labels"),
    ("bce_with_logits", {"pos_weight": "balanced"}, "labels"),
    *((name, {}, "numbers labels") for name in ("mse", "mae", "huber", "log_cosh", "quantile")),
    ("quantile", {"quantile": 0.9}, "numbers"),
    ("huber", {"delta": 0.3}, "numbers"),
    ("dice", {}, "pixels"),
    ("dice", {"smooth": 0.1}, "pixels"),
    ("dice_cross_entropy", {"dice_share": 0.3}, "pixels"),
]


def batch_of(kind: str, seed: int, scale: float) -> tuple[torch.Tensor, torch.Tensor]:
    """Return outputs of 4 classes or labels and targets, some of them ignored where they are class numbers."""
    draws = torch.Generator().manual_seed(seed)
    output = scale * torch.randn({"tokens": (7, 5, 4), "pixels": (7, 4, 3, 3)}.get(kind, (7, 4)), generator=draws)
    if kind == "shares":
        return output, torch.rand(7, 4, generator=draws).softmax(1)
    if kind in {"numbers", "labels"}:
        wanted = torch.randn(7, 4, generator=draws) * scale
        return output, wanted if kind == "numbers" else (wanted > 0).float()
    targets = torch.randint(0, 4, {"tokens": (7, 5), "pixels": (7, 3, 3)}.get(kind, (7,)), generator=draws)
    targets.view(-1)[2:4] = -100
    return output, targets


def test_every_built_in_loss_has_a_case() -> None:
    assert {name for name, _, _ in CASES} == set(LOSSES) == set(losses.LOSSES)


@pytest.mark.parametrize(("name", "args", "kinds"), CASES)
@settings(max_examples=25, deadline=None)
@given(seed=st.integers(0, 2**31), scale=st.sampled_from([1e-3, 1.0, 30.0]))
def test_each_loss_is_torchs(name: str, args: dict[str, Any], kinds: str, seed: int, scale: float) -> None:
    loss = built_in_loss(name, args)
    counts_of_train = LABEL_COUNTS if name == "bce_with_logits" else COUNTS[None]
    given = {"name": name, "args": args, "train_counts": counts_of_train.tolist()}
    if loss.measure is not None:
        loss = loss.measure(LABEL_COUNTS if name == "bce_with_logits" else F.pad(COUNTS, (0, 1)))
    for kind in kinds.split():
        output, target = batch_of(kind, seed, scale)
        sums, counts = losses.terms(given, output.numpy(), target.numpy())
        assert sums.shape == counts.shape == (7,)
        assert counts.sum() == loss.count(target)
        wanted = float(loss.compute(output.double(), target.double() if target.is_floating_point() else target))
        assert sums.sum() / counts.sum() == pytest.approx(wanted, rel=1e-5, abs=1e-7)


@pytest.mark.parametrize("name", ["cross_entropy", "focal", "bce_with_logits", "log_cosh", "huber"])
def test_outputs_far_from_zero_give_finite_losses(name: str) -> None:
    far = np.array([[1e4, -1e4], [-1e4, 1e4]], dtype=np.float32)
    targets = np.array([1, 1]) if name in losses.OF_CLASSES else np.array([[0.0, 1.0], [0.0, 1.0]])
    sums, _ = losses.terms({"name": name}, far, targets)
    assert np.isfinite(sums).all()


def test_a_loss_without_a_form_here_is_not_computed(room: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(LOSSES, "new", LOSSES["mse"])  # added to the registry, and to nothing else
    with pytest.raises(losses.NotComputableError, match="new has no form here"):
        losses.terms({"name": "new"}, np.zeros((2, 2)), np.zeros((2, 2)))
    room.order["loss"] = {"name": "new", "args": {"strength": 2}}
    found = room.validation()
    assert "new has no form here" in found["not_computed"]["loss"]
    assert found["metrics"]["accuracy"] >= 0


@pytest.mark.parametrize("name", ["cross_entropy", "bce_with_logits", "class_balanced"])
def test_weights_that_are_measured_on_train_are_not_guessed(name: str) -> None:
    args = {"cross_entropy": {"weights": "balanced"}, "bce_with_logits": {"pos_weight": "balanced"}}.get(name, {})
    with pytest.raises(losses.NotComputableError, match="measured on the train split"):
        losses.terms({"name": name, "args": args}, np.zeros((2, 2)), np.zeros((2, 2)))


def test_class_numbers_beyond_the_outputs_are_not_counted_as_others() -> None:
    with pytest.raises(ValueError, match="outside the 2 classes"):
        losses.terms({"name": "cross_entropy"}, np.zeros((2, 2)), np.array([0, 2]))


@pytest.mark.parametrize("shape", [(9,), (9, 1)])
@pytest.mark.parametrize("dtype", [np.int32, np.uint8, np.int64, bool])
def test_class_numbers_of_any_type_and_in_a_column_are_evaluated_as_plain_ones(
    shape: tuple[int, ...], dtype: Any
) -> None:
    outputs = {"output": np.random.default_rng(0).normal(size=(9, 2)).astype(np.float32)}
    answers = []
    for targets in (np.arange(9) % 2, (np.arange(9) % 2).reshape(shape).astype(dtype)):
        compared = Comparison("", ["accuracy", "f1", "auc"], {"name": "cross_entropy", "args": {}}, "classification")
        compared.add(outputs, targets)
        answer: dict[str, Any] = {"metrics": {}, "intervals": {}, "not_computed": {}, "readings": {}}
        compared.report(answer, Resampling(9))
        answers.append({**answer, "loss": compared.mean_loss(np.arange(9))})
    assert answers[0] == answers[1]
    assert not answers[0]["not_computed"]
