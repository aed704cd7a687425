"""Training loop: fetch, step, observe, save, stop. A step that is not finite is reported, and not applied."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from itertools import islice
from typing import Any

import torch
from torch import Tensor

from trainwright.trainer.base.errors import ConfigurationError, DivergenceError, TrainwrightError, UserCodeError
from trainwright.trainer.data.tensors import IGNORED, batch_size, counts_none, to_device
from trainwright.trainer.engine.evaluation import LeftError, average_epoch, evaluate_split, values_of
from trainwright.trainer.engine.observers.observer import EpochResult, Observers, StepResult
from trainwright.trainer.engine.session import Session
from trainwright.trainer.engine.totals import EpochTotals
from trainwright.trainer.metrics import require_unmeasured
from trainwright.trainer.objectives.supervised import split_batch
from trainwright.trainer.optimization.update import NonFinite, total_norm


def train(session: Session, observers: Observers) -> str:
    """Train from the session's position until an end is reached; return the reason.

    Raises:
        DivergenceError: a loss or gradient that is not finite. And the user code's errors.
    """
    progress = session.progress
    session.model.train()
    observers.start(session)
    while progress.stop_reason is None and not session.stop.asked:
        started = time.perf_counter()
        for observer in session.weight_observers:
            observer.before_epoch(progress.epoch)
        for group in session.groups():
            result = take_step(session, group)
            observers.step(session, result)
        progress.train_seconds += time.perf_counter() - started
        if not session.stop.asked:
            _end_epoch(session, observers, seconds=time.perf_counter() - started)
    reason = progress.stop_reason or session.stop.reason
    observers.stop(session, reason)
    for observer in session.weight_observers:
        observer.settle()
    return reason


def _end_epoch(session: Session, observers: Observers, seconds: float) -> None:
    """Validate, move the position to the next epoch, and let the observers evaluate, report and save."""
    progress, training = session.progress, session.config.training
    observers.trained(session)
    number = progress.epoch + 1
    is_last = session.at_bound or number == training.epochs
    result = EpochResult(number, progress.step, values_of(session, session.totals, session.train_loader), None, seconds)
    average_epoch(session)
    if is_last or number % training.validate_every_n_epochs == 0:
        observers.stage("validating")
        try:
            result.validation = evaluate_split(session, session.validation_loader)
        except LeftError:  # the position stays before it: a resumed run begins by validating
            return
    if progress.batch == len(session.train_loader):  # not when the bound fell into the epoch
        progress.epoch, progress.batch = number, 0
        session.totals.reset()
    session.context.epoch = progress.epoch
    if is_last:
        progress.stop_reason = "max_steps" if progress.epoch < training.epochs else "completed"
    observers.epoch(session, result)


def take_step(session: Session, group: list[Any]) -> StepResult:
    """Make one update from the micro-batches of `group` and advance the position.

    Raises:
        DivergenceError: the loss or the gradient is not finite; the update is then not applied. On CUDA, where
            looking would stall the device, the update is held back on the device and the recorder raises later.
        ConfigurationError: the user's step returned a number under a name of the engine's.
    """
    progress, own = session.progress, sum(batch_size(batch) for batch in group)
    session.rule.set_rates(session)
    rate = _highest_rate(session)
    loss, norm, values = session.rule(session, group)
    for observer in session.weight_observers:
        observer.after_step()
    samples = session.strategy.samples(own)
    result = StepResult(
        progress.step + 1, progress.epoch, progress.batch, len(group), loss, norm, rate, samples, values
    )
    progress.step += 1
    progress.batch += len(group)
    progress.samples += samples
    session.context.step = progress.step
    return result


class Standard:
    """Updates by the session's objective and optimizers, at the schedule's rates."""

    is_users = False

    def set_rates(self, session: Session) -> None:
        """Set the schedule's rate (and momentum) of the next step in every group."""
        step, schedule = session.progress.step, session.schedule
        factor, momentum = schedule.factor(step), schedule.momentum(step)
        for name, optimizer in session.optimizers.items():
            for group, rate in zip(optimizer.param_groups, session.base_rates[name], strict=True):
                group["lr"] = rate * factor
                if momentum is not None:
                    _set_momentum(group, momentum)

    def __call__(self, session: Session, group: list[Any]) -> tuple[Tensor, Tensor, dict[str, Any]]:
        """Measure, clip and update; a gradient that overflowed under a scaled loss is left out."""
        session.update.begin()
        loss, values = _measure(session, group, session.totals)
        session.scaler.unscale(session.optimizers.values())
        norm, applied = session.strategy.clip(session.parameters, session.config.training)
        if _may_update(session, loss, norm, len(group)):
            session.update.apply(loss, lambda: _measure_again(session, group))
        _clear_gradients(session)
        return loss, norm, {**values, **applied, **session.scaler.update(norm)}


@dataclass(frozen=True)
class UserTrainStep:
    """Updates by the user's train_step, whose optimizers keep their rates."""

    function: Callable[..., Any]
    is_users = True

    def set_rates(self, session: Session) -> None:
        """Leave the rates alone."""

    def __call__(self, session: Session, group: list[Any]) -> tuple[Tensor, Tensor | None, dict[str, Any]]:
        """Call it with each micro-batch; a non-finite loss ends the run before anything is saved."""
        values: dict[str, Any] = {}
        losses = []
        for batch in group:
            moved = to_device(batch, session.device)
            with session.autocast():
                given = self.function(session.model, moved, session.context)
            values = dict(given) if isinstance(given, Mapping) else {"loss": given}
            losses.append(_total_loss(values))
        loss = torch.stack(
            [torch.as_tensor(value, device=session.device).detach().float().reshape(()) for value in losses]
        ).mean()
        norm = total_norm([p.grad for p in session.parameters if p.grad is not None])
        cleared = norm.item() == 0.0  # by zero_grad, to None or to zeros
        if not math.isfinite(loss.item()):
            raise _diverged(session, loss, norm, len(group))
        session.totals.add_loss(loss, sum(batch_size(batch) for batch in group))
        require_unmeasured(values.keys() - {"loss"})
        return loss, None if cleared else norm, {name: value for name, value in values.items() if name != "loss"}


def _measure(session: Session, group: list[Any], totals: EpochTotals) -> tuple[Tensor, dict[str, Any]]:
    """Add the gradients of the micro-batches; return their loss and the values of the last one."""
    objective, strategy, scaler = session.objective, session.strategy, session.scaler
    # counted before they are on the device: no need to wait for it
    counts, total = strategy.begin(group, [objective.count(batch) for batch in group])
    losses, values = [], {}
    for batch, count in zip(group, counts, strict=True):
        moved = to_device(batch, session.device)
        with session.autocast():
            outcome = strategy.measure(objective, session.model, moved)
        share = count / total if total else 1.0  # so that the update is that of the one large batch
        weighted = outcome.loss if count == total else outcome.loss * share
        strategy.backward(scaler.scaled(weighted))
        losses.append(weighted.detach())
        totals.add(outcome, count, gather=session.gathers)
        totals.fold(session.work)
        values = outcome.values
    if values:
        require_unmeasured(values)
    return strategy.finish(losses[0] if len(losses) == 1 else torch.stack(losses).sum()), values


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
    session.strategy.clip(session.parameters, session.config.training)
    return loss


def _clear_gradients(session: Session) -> None:
    for parameter in session.parameters:  # as zero_grad, without its bookkeeping
        parameter.grad = None


def _may_update(session: Session, loss: Tensor, norm: Tensor, micro_batches: int) -> bool:
    """Keep a non-finite update from being applied: on the device where the kernels can, else by looking first.

    A gradient that overflowed under a scaled loss is left out; it is no divergence.
    """
    fused = all(optimizer.defaults.get("fused") for optimizer in session.optimizers.values())
    overflows = session.scaler.leaves_out_overflow
    if session.device.type == "cpu" or session.strategy.checks_first or not fused:
        finite = math.isfinite(norm.item())
        if not (math.isfinite(loss.item()) and (finite or overflows)):
            session.strategy.show_gradients()
            raise _diverged(session, loss, norm, micro_batches)
        return finite
    if session.non_finite is None:
        session.non_finite = NonFinite(session.device)
    if overflows:
        session.non_finite.note(loss)
        held_back = session.non_finite.with_(norm)
    else:
        session.non_finite.note(loss, norm)
        held_back = session.non_finite.found
    for optimizer in session.optimizers.values():
        optimizer.found_inf = held_back  # type: ignore[attr-defined]  # read by fused kernels
    return True


def _diverged(session: Session, loss: Tensor, norm: Tensor, micro_batches: int) -> TrainwrightError:
    progress = session.progress
    return divergence(session, progress.step + 1, progress.epoch, progress.batch, micro_batches, loss, norm)


def _highest_rate(session: Session) -> float:
    return max(float(group["lr"]) for optimizer in session.optimizers.values() for group in optimizer.param_groups)


def _total_loss(values: Mapping[str, Any]) -> Any:
    """Return `loss`, or the sum of all values that a train_step returned."""
    return values["loss"] if values.get("loss") is not None else sum(values.values())


def _set_momentum(group: dict[str, Any], momentum: float) -> None:
    if "momentum" in group:
        group["momentum"] = momentum
    elif "betas" in group:
        group["betas"] = (momentum, group["betas"][1])


MAX_SAMPLES_NAMED = 512
MAX_PARAMETERS_NAMED = 20


def divergence(  # noqa: PLR0917 - all that is known of one step
    session: Session, step: int, epoch: int, batch: int, micro_batches: int, loss: Any, norm: Any
) -> TrainwrightError:
    """Return the error for a non-finite step, with the samples that were in it and the parameters it shows in.

    A mean over no target is no divergence, but the user's: the built-in losses make 0 of it.
    """
    indices = [index for n in range(micro_batches) for index in session.train_loader.indices(epoch, batch + n)]
    if (empty := _uncounted(session, epoch, batch, micro_batches)) is not None:
        return UserCodeError(
            f"The loss is 0 / 0 at step {step} (epoch {epoch + 1}): all {empty} targets of the batch are {IGNORED}, "
            "which do not count.",
            remedy="Leave samples without a target that counts out of the data set (of texts that were cut off: give "
            "a larger max_length); or divide by the targets that count, in your loss: "
            "(terms * (target != -100)).sum() / (target != -100).sum().clamp(min=1).",
            document="configs/losses.md",
            details={"step": step, "epoch": epoch, "batch_indices": indices[:MAX_SAMPLES_NAMED]},
        )
    what = "gradient" if math.isfinite(float(loss)) else "loss"
    named = non_finite_parameters(session)
    where = f" First in {named[0]}." if named and what == "gradient" else ""
    return DivergenceError(
        f"The {what} is not finite at step {step} (epoch {epoch + 1}): loss {float(loss):g}, gradient norm "
        f"{float(norm):g}.{where} The update was not applied.",
        remedy="Lower optimizer.learning_rate tenfold, set training.clip_norm 1.0, check the samples of the batch.",
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


def _uncounted(session: Session, epoch: int, batch: int, micro_batches: int) -> int | None:
    """Return how many targets a micro-batch of a step has where none of them counts; None where some do."""
    with suppress(Exception):  # batches may be any objects
        for group in islice(session.train_loader.batches(epoch, batch), micro_batches):
            target = split_batch(group)[2]
            if counts_none(target):
                return int(target.numel())
    return None


def lower_rate(session: Session) -> dict[str, Any]:
    """Return a tenth of the learning rate as `changes`; nothing where only the user's code knows it."""
    if session.rule.is_users:
        return {}
    found = session.config.optimizer.rate()
    return {"changes": {found[0]: float(f"{found[1] / 10:.3g}")}} if found is not None else {}


def non_finite_parameters(session: Session) -> list[str]:
    """Return the names of parameters whose value or gradient is not finite, in the model's order.

    Gradients are those of the step itself where it was looked at before the update (always on the CPU); on CUDA the
    bad step is found some steps later, when only the values that stayed non-finite are left.
    """
    found = []
    for name, parameter in session.model.named_parameters():
        tensors = [parameter.detach()] + ([parameter.grad] if parameter.grad is not None else [])
        if not all(bool(torch.isfinite(tensor).all()) for tensor in tensors):
            found.append(name)
            if len(found) == MAX_PARAMETERS_NAMED:
                break
    return found
