"""What a step does around the optimizer: clipping, the rates and the momenta it sets."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from tests.releases import param

from trainwright.trainer.base import releases
from trainwright.trainer.base.errors import ConfigurationError
from trainwright.trainer.config import parse_config
from trainwright.trainer.engine.loop import take_step
from trainwright.trainer.optimization.update import NonFinite


def one_step(session: Any) -> tuple[Any, torch.Tensor]:
    """Return the result of one step of plain gradient descent at rate 1, and its whole update."""
    before = [p.detach().clone() for p in session.model.parameters()]
    session.model.train()
    result = take_step(session, next(session.groups()))
    after = session.model.parameters()
    return result, torch.cat([(old - new.detach()).flatten() for old, new in zip(before, after, strict=True)])


PLAIN: dict[str, Any] = {
    "optimizer": {"name": "sgd", "learning_rate": 1.0, "momentum": 0.0, "weight_decay": 0.0},
    "schedule": {"name": "constant", "warmup_steps": 0},
}


@pytest.mark.requirement("TRAIN-2")
def test_clipping_by_norm_scales_and_by_value_cuts(iris: dict[str, Any], open_session: Any) -> None:
    result, whole = one_step(open_session({**iris, **PLAIN}, "whole"))
    norm = float(result.gradient_norm)
    assert float(whole.norm()) == pytest.approx(norm, rel=1e-4)
    limit = norm / 3
    scaled, update = one_step(open_session({**iris, **PLAIN, "training": {"clip_norm": limit}}, "norm"))
    assert float(scaled.gradient_norm) == norm, "the recorded norm is that before clipping"
    assert float(scaled.values["applied_gradient_norm"]) == pytest.approx(limit)
    assert "applied_gradient_norm" not in result.values
    torch.testing.assert_close(update, whole / 3, rtol=1e-3, atol=1e-6)
    limit = float(whole.abs().median())
    cut, update = one_step(open_session({**iris, **PLAIN, "training": {"clip_value": limit}}, "value"))
    assert float(cut.gradient_norm) == norm
    assert float(cut.values["applied_gradient_norm"]) == pytest.approx(float(whole.clamp(-limit, limit).norm()))
    torch.testing.assert_close(update, whole.clamp(-limit, limit), rtol=1e-3, atol=1e-6)


@pytest.mark.requirement("TRAIN-2", "CONF-1")
def test_clipping_both_ways_is_refused() -> None:
    work = {"model": {"use": "mlp"}, "data": {"use": "digits"}}
    with pytest.raises(ConfigurationError, match="not both"):
        parse_config({**work, "training": {"clip_norm": 1.0, "clip_value": 1.0}})


@pytest.mark.requirement("TRAIN-3", "TRAIN-4")
def test_each_group_follows_the_schedule_from_its_own_rate_and_the_highest_is_recorded(
    iris: dict[str, Any], open_session: Any
) -> None:
    groups = [{"patterns": ["layers.1"], "learning_rate_factor": 0.1}]
    session = open_session(
        {
            **iris,
            "optimizer": {"learning_rate": 0.02, "groups": groups},
            "schedule": {"name": "linear", "warmup_steps": 4},
        }
    )
    session.model.train()
    for number, batches in zip(range(1, 4), session.groups(), strict=False):
        result = take_step(session, batches)
        rates = sorted({group["lr"] for group in session.optimizers["optimizer"].param_groups})
        assert rates == pytest.approx([0.002 * number / 4, 0.02 * number / 4])
        assert result.learning_rate == max(rates)


@pytest.mark.requirement("TRAIN-4")
@pytest.mark.parametrize("name", ["sgd", "adamw", param("muon", releases.MUON)])
def test_one_cycle_moves_the_momentum_of_every_group(name: str, iris: dict[str, Any], open_session: Any) -> None:
    schedule = {"name": "one_cycle", "momentum_range": [0.7, 0.9]}
    session = open_session({**iris, "optimizer": {"name": name}, "schedule": schedule})
    session.model.train()
    take_step(session, next(session.groups()))
    groups = [group for optimizer in session.optimizers.values() for group in optimizer.param_groups]
    assert {group["momentum"] if "momentum" in group else group["betas"][0] for group in groups} == {0.9}
    session.progress.step = session.schedule.warmup_steps - 1
    take_step(session, next(session.groups()))
    assert {group["momentum"] if "momentum" in group else group["betas"][0] for group in groups} == {0.7}


@pytest.mark.requirement("CONF-1", "TRAIN-4")
def test_a_warmup_that_outlasts_the_run_is_refused_before_training(iris: dict[str, Any], open_session: Any) -> None:
    steps = open_session(iris).total_steps
    assert open_session({**iris, "schedule": {"warmup_steps": steps - 1}}, "fits").schedule.warmup_steps == steps - 1
    with pytest.raises(ConfigurationError, match=f"never ends: the whole run has {steps} steps"):
        open_session({**iris, "schedule": {"warmup_steps": steps}}, "never")


@pytest.mark.requirement("DIAG-1", "TRAIN-7")
@pytest.mark.parametrize("bad", [float("nan"), float("inf"), -float("inf")])
def test_a_fused_optimizer_holds_back_every_update_from_one_that_is_not_finite_on(bad: float) -> None:
    """As on a GPU, where nothing waits for the device; the CPU's fused kernels read the same flag."""
    weight = torch.nn.Parameter(torch.ones(3))
    optimizer = torch.optim.AdamW([weight], lr=0.1, fused=True)
    non_finite = NonFinite(torch.device("cpu"))
    weights = []
    for loss in (1.5, bad, 1.5):
        measured, norm = torch.tensor(loss), torch.tensor(3.0, dtype=torch.float32)
        weight.grad = torch.full((3,), loss)
        non_finite.note(measured, norm)
        optimizer.found_inf = non_finite.found  # type: ignore[attr-defined]
        optimizer.step()
        assert repr(measured.item()) == repr(float(loss)), "a noted value keeps its bits"
        weights.append(weight.detach().clone())
    assert not torch.equal(weights[0], torch.ones(3))
    assert torch.equal(weights[0], weights[1])
    assert torch.equal(weights[1], weights[2])
    assert non_finite.found.item() == 1.0


@pytest.mark.requirement("DIAG-1", "TRAIN-2")
@pytest.mark.parametrize("kind", [torch.bfloat16, torch.float16, torch.float32, torch.float64])
def test_values_of_every_number_format_are_noted_beside_each_other(kind: torch.dtype) -> None:
    non_finite, norm = NonFinite(torch.device("cpu")), torch.tensor(1.0)
    non_finite.note(torch.tensor(2.0, dtype=kind), norm)
    assert non_finite.found.item() == 0.0
    non_finite.note(torch.tensor(float("nan"), dtype=kind), norm)
    assert non_finite.found.item() == 1.0


@pytest.mark.requirement("TRAIN-2")
def test_a_gradient_that_overflows_under_a_scale_holds_back_its_own_update_alone() -> None:
    non_finite = NonFinite(torch.device("cpu"))
    overflowed, loss = torch.tensor(float("inf")), torch.tensor(2.0)
    non_finite.note(loss)
    assert non_finite.with_(overflowed).item() == 1.0
    assert non_finite.with_(loss).item() == 0.0
    assert non_finite.found.item() == 0.0
