"""Divergence: the report on a step whose loss or gradient was not finite."""

from __future__ import annotations

import math
from typing import Any

import torch

from trainwright.trainer.base.errors import DivergenceError
from trainwright.trainer.engine.session import Session

MAX_SAMPLES_NAMED = 512
MAX_PARAMETERS_NAMED = 20


def divergence(  # noqa: PLR0917 - all that is known of one step
    session: Session, step: int, epoch: int, batch: int, micro_batches: int, loss: Any, norm: Any
) -> DivergenceError:
    """Return the error for a non-finite step, with the samples that were in it and the parameters it shows in."""
    indices = [index for n in range(micro_batches) for index in session.train_loader.indices(epoch, batch + n)]
    what = "gradient" if math.isfinite(float(loss)) else "loss"
    named = non_finite_parameters(session)
    where = f" First in {named[0]}." if named and what == "gradient" else ""
    return DivergenceError(
        f"The {what} is not finite at step {step} (epoch {epoch + 1}): loss {float(loss):g}, gradient norm "
        f"{float(norm):g}.{where} The update was not applied.",
        remedy="Lower optimizer.learning_rate tenfold, set training.clip_norm 1.0, look at the samples of the batch.",
        document="diagnostics/nan_loss.md",
        details={
            "step": step,
            "epoch": epoch,
            "batch_indices": indices[:MAX_SAMPLES_NAMED],
            "parameters": named,
            "loss": repr(float(loss)),
            "gradient_norm": repr(float(norm)),
            **lower_rate(session),
        },
    )


def lower_rate(session: Session) -> dict[str, Any]:
    """Return a tenth of the learning rate as `changes`; nothing where only the user's code knows it."""
    if session.rule.is_users:
        return {}
    found = session.config.optimizer.rate()
    return {"changes": {found[0]: float(f"{found[1] / 10:.3g}")}} if found is not None else {}


def non_finite_parameters(session: Session) -> list[str]:
    """Return the names of parameters whose value or gradient is not finite, in the model's order.

    Gradients are those of the step itself where it was looked at before the update (always on the CPU); on CUDA the
    bad step is found some steps later, by which time only what stayed non-finite is left.
    """
    found = []
    for name, parameter in session.model.named_parameters():
        tensors = [parameter.detach()] + ([parameter.grad] if parameter.grad is not None else [])
        if not all(bool(torch.isfinite(tensor).all()) for tensor in tensors):
            found.append(name)
            if len(found) == MAX_PARAMETERS_NAMED:
                break
    return found
