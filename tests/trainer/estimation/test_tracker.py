"""Contract of the private parts of torch that the estimator rests on (trainer/estimation/tracker.py)."""

from __future__ import annotations

import pytest
import torch
from torch import nn
from torch._subclasses.fake_tensor import FakeTensor

from trainwright.trainer.estimation import tracker as fake
from trainwright.trainer.estimation.tracker import Answers, Tracker

WIDE = 1 << 20


def followed(call, model, optimizers=()):
    tracker = Tracker(model.mode, lambda _: "there")
    tracker.know(model, optimizers, model.parameters())
    with fake.inside(tracker):
        call(tracker)
    return tracker


@pytest.fixture
def model():
    """Linear layers of 4 MiB and 64 bytes, of sizes only."""
    mode = fake.new_mode()
    with mode:
        made = nn.Sequential(nn.Linear(4, WIDE // 4, bias=False), nn.Linear(WIDE // 4, 4, bias=False))
    made.mode = mode
    return made


@pytest.mark.requirement("ARCH-4")
def test_memory_of_a_step_is_that_of_its_tensors(model) -> None:
    optimizer = torch.optim.AdamW(model.parameters())

    def steps(tracker):
        for _ in range(2):
            loss = model(tracker.take(torch.ones(2, 4))).sum()
            loss.backward()
            optimizer.step()
            optimizer.zero_grad()

    tracker = followed(steps, model, [optimizer])
    parts = tracker.parts()
    weights = 2 * 4 * WIDE
    assert parts["weights"] == weights
    assert parts["gradients"] == weights
    assert weights * 2 <= parts["optimizer"] <= weights * 4  # two moments, and the update's temporary tensors
    assert tracker.peak_phase == "there"
    products = 2 * 2 * 4 * (WIDE // 4)  # multiply and add, of 2 rows
    assert tracker.counted.flops == 2 * (products * 2 + products * 3)  # the first layer's inputs need no gradient
    assert tracker.counted.operations > 20


@pytest.mark.requirement("ARCH-4")
def test_frozen_weights_and_models_called_twice_are_followed(model) -> None:
    model[0].weight.requires_grad_(False)

    def twice(tracker):
        (model(torch.ones(2, 4)) + model(torch.ones(3, 4)).sum()).sum().backward()

    tracker = followed(twice, model)
    (left,) = tracker.get_tracker_snapshot("current").values()
    assert {str(kind.value): size for kind, size in left.items() if size and kind != "Total"} == {
        "Parameter": 8 * WIDE,
        "Gradient": 4 * WIDE,
    }


@pytest.mark.requirement("ARCH-4")
def test_questions_that_sizes_cannot_answer_get_harmless_answers() -> None:
    mode = fake.new_mode()
    with mode, Answers():
        values = torch.ones(6)
        mask = values > 0
        assert (values.sum().item(), bool(mask.all()), int(mask.sum())) == (1.0, False, 1)
        assert isinstance(values[mask], FakeTensor)
        assert values[mask].shape == (6,)  # all of them: memory is never below
        assert torch.ones(2, 3)[torch.ones(2, 3, dtype=torch.bool)].shape == (6,)
        assert mask.nonzero().shape == (6, 1)
    assert torch.tensor([3.0]).item() == 3.0


@pytest.mark.requirement("ARCH-4")
def test_conversions_keep_shared_weights_shared() -> None:
    real = nn.ModuleDict({"one": nn.Linear(4, 4), "other": nn.Linear(4, 4)})
    real["other"].weight = real["one"].weight
    model = fake.without_contents(fake.new_mode(), real)
    with fake.convertible():
        model.to(torch.float64)
        model.to("cpu")
    assert model["one"].weight is model["other"].weight
    assert model["one"].weight.dtype == torch.float64
    assert isinstance(model["one"].weight, FakeTensor)
    assert nn.Linear(2, 2).to(torch.float64).weight.dtype == torch.float64  # real ones convert as ever
