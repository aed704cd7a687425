"""Optimizers and schedules in a run: what is saved, what is evaluated, and that a halted run ends the same."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from tests.trainer.saving import checkpoint_of

from trainwright.trainer.checkpoints.packing import pack
from trainwright.trainer.engine.evaluation import evaluate_split

AVERAGING: dict[str, dict[str, Any]] = {
    "schedule_free_adamw": {"name": "schedule_free_adamw"},
    "schedule_free_sgd": {"name": "schedule_free_sgd", "learning_rate": 0.1},
}


def bits_of(session: Any) -> tuple[Any, dict[str, bytes]]:
    """Return all that the next step depends on: plain values, and tensors as bytes."""
    tensors: dict[str, torch.Tensor] = {}
    whole = {
        "model": session.model.state_dict(),
        "optimizers": {name: optimizer.state_dict() for name, optimizer in session.optimizers.items()},
        "schedule": session.schedule.state_dict(),
    }
    plain = pack(whole, "all", tensors)
    return plain, {name: tensor.numpy().tobytes() for name, tensor in tensors.items()}


def saved_and_loaded(session: Any, again: Any) -> Any:
    """Write a session's checkpoint and take it up in another one."""
    again.load(checkpoint_of(session))
    return again


@pytest.mark.requirement("TRAIN-3", "REPRO-6")
def test_moments_in_8_bits_are_saved_as_they_are(iris: dict[str, Any], open_session: Any, take_steps: Any) -> None:
    pytest.importorskip("bitsandbytes", reason="bitsandbytes is not installed")
    model = {"use": "mlp", "args": {"hidden": [80, 80]}}  # below 4096 entries they stay in 32 bits
    values = {**iris, "model": model, "optimizer": {"name": "adam8bit"}}
    whole, first = open_session(values, "whole"), open_session(values, "first")
    for session in (whole, first):
        take_steps(session, 5)
    resumed = saved_and_loaded(first, open_session(values, "resumed"))
    for session in (whole, resumed):
        take_steps(session, 6)
    assert bits_of(resumed) == bits_of(whole)
    states = whole.optimizers["optimizer"].state.values()
    assert any(state["state1"].dtype == torch.uint8 for state in states)


@pytest.mark.requirement("TRAIN-3", "REPRO-6")
@pytest.mark.parametrize("name", AVERAGING)
def test_schedule_free_is_judged_and_saved_at_the_average_and_trained_where_it_was(
    name: str, iris: dict[str, Any], open_session: Any, take_steps: Any
) -> None:
    values = {**iris, "optimizer": AVERAGING[name], "schedule": {"name": "constant"}}
    session, other = open_session(values), open_session(values, "other")
    for each in (session, other):
        take_steps(each, 8)
    before = bits_of(session)
    judged = evaluate_split(session, session.validation_loader)["loss"]
    saved = session.state()[0]
    assert bits_of(session) == before == bits_of(other)
    (optimizer,) = session.optimizers.values()
    optimizer.eval()
    for parameter_name, value in session.model.state_dict().items():
        assert torch.equal(saved[parameter_name], value)
    assert evaluate_split(session, session.validation_loader)["loss"] == judged
    session.model.load_state_dict({name: value.clone() for name, value in other.model.state_dict().items()})
    for group in optimizer.param_groups:  # the training point judged as if it were the average
        group["train_mode"] = False
    assert evaluate_split(session, session.validation_loader)["loss"] != judged


HALTED: dict[str, dict[str, Any]] = {
    "plateau": {
        "optimizer": {"name": "sgd", "learning_rate": 0.3},
        "schedule": {"name": "plateau", "patience_epochs": 1, "factor": 0.5, "warmup_steps": 3},
    },
    "lbfgs, several micro-batches a step": {
        "optimizer": {"name": "lbfgs", "max_iterations": 3, "learning_rate": 0.3},
        "model": {"use": "mlp", "args": {"hidden": [12], "dropout": 0.2}},
        "loader": {"batch_size": 4},
        "training": {"epochs": 5, "accumulation_steps": 2, "clip_norm": 5.0},
        "weight_averaging": {"name": "ema", "decay": 0.9},
    },
    "unfreezing": {
        "freezing": {
            "patterns": ["layers.1", "*.bias"],
            "unfreeze": [{"after_epochs": 2, "patterns": ["layers.1"]}, {"after_epochs": 3, "patterns": ["*.bias"]}],
        },
    },
}


@pytest.mark.requirement("REPRO-6", "TRAIN-3", "TRAIN-4")
@pytest.mark.parametrize("what", HALTED)
def test_a_run_halted_in_mid_epoch_ends_with_the_same_bits(
    what: str, iris: dict[str, Any], assert_halted_ends_the_same: Any, recorded: Any
) -> None:
    whole = assert_halted_ends_the_same({**iris, "training": {"epochs": 5}, **HALTED[what]}, 3 * 14 + 8)
    rates = {rate for _, rate in recorded(whole, "train/learning_rate")["train/learning_rate"][3:]}
    assert what != "plateau" or len(rates) > 1, "the rate was lowered on the way"
