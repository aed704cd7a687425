"""One optimizer step: forward and backward of its micro-batches, the gradient's norm, the update."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

from trainwright.trainer.acceleration.norms import clip_to, total_norm
from trainwright.trainer.divergence import divergence
from trainwright.trainer.errors import ConfigurationError
from trainwright.trainer.metrics import require_unmeasured
from trainwright.trainer.objectives.custom import batch_size
from trainwright.trainer.session import Session, to_device
from trainwright.trainer.totals import EpochTotals


@dataclass
class StepResult:
    """What one step gave. Tensors stay on the device until the recorder reads them."""

    step: int
    """Number of the step, from 1."""
    epoch: int
    batch: int
    """Number of its first micro-batch in the epoch."""
    micro_batches: int
    loss: Tensor
    gradient_norm: Tensor | None
    """None where the user's train_step has cleared the gradients before they could be measured."""
    learning_rate: float
    samples: int
    values: dict[str, Tensor | float] = field(default_factory=dict)


def take_step(session: Session, group: list[Any]) -> StepResult:
    """Make one update from the micro-batches of `group` and advance the position.

    Raises:
        DivergenceError: the loss or the gradient is not finite; the update is then not applied. On CUDA, where
            looking would stall the device, the update is held back on the device and the recorder raises later.
        ConfigurationError: the user's step returned a number under a name of the engine's.
    """
    progress = session.progress
    rate = _set_rates(session)
    samples = sum(batch_size(batch) for batch in group)
    step = _own_step if session.objective is None else standard_step
    loss, norm, values = step(session, group)
    if session.scaler is not None:
        assert norm is not None  # noqa: S101 - a train_step has no scaler
        values = {**values, **session.scaler.update(norm)}
    samples = samples if session.parallel is None else session.parallel.samples
    if session.averaging is not None:
        session.averaging.after_step()
    result = StepResult(
        progress.step + 1, progress.epoch, progress.batch, len(group), loss, norm, rate, samples, values
    )
    progress.step += 1
    progress.batch += len(group)
    progress.samples += samples
    session.context.step = progress.step
    return result


def standard_step(session: Session, group: list[Any]) -> tuple[Tensor, Tensor, dict[str, Any]]:
    """Update from the micro-batches by the session's objective; return loss, gradient norm and the step's values."""
    session.update.begin()
    loss, values = _measure(session, group, session.totals)
    if session.scaler is not None:
        session.scaler.unscale(session.optimizers.values())
    norm, applied = _clip(session)
    if _may_update(session, loss, norm, len(group)):
        _update(session, group, loss)
    _clear_gradients(session)
    return loss, norm, values if applied is None else {**values, "applied_gradient_norm": applied}


def _measure(session: Session, group: list[Any], totals: EpochTotals) -> tuple[Tensor, dict[str, Any]]:
    """Add the gradients of the micro-batches; return their loss and the values of the last one."""
    objective = session.objective
    assert objective is not None  # noqa: S101 - chosen by the caller
    counts = [objective.count(batch) for batch in group]  # before they are on the device: no need to wait for it
    total = sum(counts)
    if session.parallel is not None:
        counts, total = session.parallel.begin(group, counts)
    losses, values = [], {}
    for batch, count in zip(group, counts, strict=True):
        moved = to_device(batch, session.device)
        with session.autocast():
            outcome = objective(session.model, moved)
        share = count / total if total else 1.0  # so that the update is that of the one large batch
        weighted = outcome.loss if count == total else outcome.loss * share
        _backward(session, weighted)
        losses.append(weighted.detach())
        totals.add(outcome, count, gather=session.work.gathers)
        values = outcome.values
    require_unmeasured(values)
    loss = losses[0] if len(losses) == 1 else torch.stack(losses).sum()
    if session.parallel is not None:
        loss = session.parallel.finish(loss)
    return loss, values


def _measure_again(session: Session, group: list[Any]) -> Tensor:
    """Set the gradients anew, clipped, and return the loss, without a trace in the epoch's totals.

    Raises:
        ConfigurationError: the user's step carries state from batch to batch, and would carry it on each time.
    """
    if session.work.step is not None and session.context.state:
        raise ConfigurationError(
            "The optimizer measures a batch several times in one update, and the task's `step` keeps "
            f"context.state[{next(iter(session.context.state))!r}] from batch to batch.",
            remedy="Use an optimizer that measures it once (optimizer: {name: adamw}), or keep no state in `step`.",
            document="configs/your_code.md",
            details={"changes": {"optimizer": {"name": "adamw"}}},
        )
    _clear_gradients(session)
    loss, _ = _measure(session, group, EpochTotals())
    _clip(session)
    return loss


def _backward(session: Session, loss: Tensor) -> None:
    scaled = loss if session.scaler is None else session.scaler.scaled(loss)
    if session.parallel is not None:
        session.parallel.backward(scaled)
    else:
        scaled.backward()  # type: ignore[no-untyped-call]


def _update(session: Session, group: list[Any], loss: Tensor) -> None:
    if session.zero is not None:
        session.zero.update()
    else:
        session.update.apply(loss, lambda: _measure_again(session, group))


def _clear_gradients(session: Session) -> None:
    for parameter in session.parameters:  # what zero_grad does, without its bookkeeping
        parameter.grad = None


def _clip(session: Session) -> tuple[Tensor, Tensor | None]:
    """Return the total gradient norm before clipping, and after it where the configuration clips (else None)."""
    training = session.config.training
    if session.zero is not None:
        norm = session.zero.norm()  # it clips when it updates
        return norm, None if training.clip_norm is None else norm.clamp(max=training.clip_norm)
    gradients = [p.grad for p in session.parameters if p.grad is not None]
    norm = total_norm(gradients)
    if session.parallel is not None:
        norm = session.parallel.whole(norm)
    if training.clip_norm is not None:
        clip_to(session.parameters, gradients, training.clip_norm, norm)
        return norm, norm.clamp(max=training.clip_norm)
    if training.clip_value is not None:
        torch.nn.utils.clip_grad_value_(session.parameters, training.clip_value)
        applied = total_norm(gradients)
        return norm, applied if session.parallel is None else session.parallel.whole(applied)
    return norm, None


def _may_update(session: Session, loss: Tensor, norm: Tensor, micro_batches: int) -> bool:
    """Keep a non-finite update from being applied: on the device where the kernels can, else by looking first.

    A gradient that overflowed under a scaled loss is left out; it is no divergence.
    """
    fused = all(optimizer.defaults.get("fused") for optimizer in session.optimizers.values())
    if session.device.type == "cpu" or session.zero is not None or not fused:
        finite = math.isfinite(norm.item())
        if not (math.isfinite(loss.item()) and (finite or session.scaler is not None)):
            progress = session.progress
            if session.zero is not None:
                session.zero.show_gradients()
            raise divergence(session, progress.step + 1, progress.epoch, progress.batch, micro_batches, loss, norm)
        return finite
    judged = torch.isfinite(loss) if session.scaler is not None else torch.isfinite(loss) & torch.isfinite(norm)
    bad = (~judged).float().reshape(())
    session.non_finite = bad if session.non_finite is None else torch.maximum(session.non_finite, bad)
    held_back = torch.maximum(session.non_finite, (~torch.isfinite(norm)).float().reshape(()))
    for optimizer in session.optimizers.values():
        optimizer.found_inf = held_back  # type: ignore[attr-defined]  # read by fused kernels
    return True


def _own_step(session: Session, group: list[Any]) -> tuple[Tensor, Tensor | None, dict[str, Any]]:
    """Let the user's train_step make the updates; a non-finite loss ends the run before anything is saved."""
    function = session.work.train_step
    assert function is not None  # noqa: S101 - chosen by the caller
    values: dict[str, Any] = {}
    losses = []
    for batch in group:
        moved = to_device(batch, session.device)
        with session.autocast():
            given = function(session.model, moved, session.context)
        values = dict(given) if isinstance(given, Mapping) else {"loss": given}
        losses.append(_total_loss(values))
    loss = torch.stack(
        [torch.as_tensor(value, device=session.device).detach().float().reshape(()) for value in losses]
    ).mean()
    norm = total_norm([p.grad for p in session.parameters if p.grad is not None])
    cleared = norm.item() == 0.0  # by zero_grad, to None or to zeros
    progress = session.progress
    if not math.isfinite(loss.item()):
        raise divergence(session, progress.step + 1, progress.epoch, progress.batch, len(group), loss, norm)
    count = sum(batch_size(batch) for batch in group)
    session.totals.add_loss(loss, count)
    require_unmeasured(values.keys() - {"loss"})
    return loss, None if cleared else norm, {name: value for name, value in values.items() if name != "loss"}


def _total_loss(values: Mapping[str, Any]) -> Any:
    """Return `loss`, or the sum of all values that a train_step returned."""
    return values["loss"] if values.get("loss") is not None else sum(values.values())


def _set_rates(session: Session) -> float:
    """Set the rates (and momenta) of this step; return the highest rate. A train_step's optimizers keep their own."""
    factor, momentum = session.schedule.factor(session.progress.step), session.schedule.momentum(session.progress.step)
    for name, optimizer in session.optimizers.items():
        if session.objective is not None:
            for group, rate in zip(optimizer.param_groups, session.base_rates[name], strict=True):
                group["lr"] = rate * factor
                if momentum is not None:
                    _set_momentum(group, momentum)
    return max(float(group["lr"]) for optimizer in session.optimizers.values() for group in optimizer.param_groups)


def _set_momentum(group: dict[str, Any], momentum: float) -> None:
    if "momentum" in group:
        group["momentum"] = momentum
    elif "betas" in group:
        group["betas"] = (momentum, group["betas"][1])
