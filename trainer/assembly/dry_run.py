"""Dry run: one real batch before the first step, and enough memory for everything built before it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from trainwright.trainer.assembly.causes import explained_call
from trainwright.trainer.base import seeding
from trainwright.trainer.base.errors import ConfigurationError, OutOfMemoryError, near_matches
from trainwright.trainer.base.failures import known_failure
from trainwright.trainer.config import TrainingConfig
from trainwright.trainer.data.tensors import to_device
from trainwright.trainer.engine.memory import free_bytes
from trainwright.trainer.engine.session import Session
from trainwright.trainer.engine.totals import EpochTotals
from trainwright.trainer.losses.fit import check_fit, check_labels
from trainwright.trainer.metrics import evaluate, evaluate_loss
from trainwright.trainer.objectives.objective import Objective, Outcome, Work
from trainwright.trainer.objectives.supervised import Supervised, describe, plain_output, split_batch


def try_metrics(work: Work, outcome: Outcome, selected: str, added: Iterable[str] = ()) -> None:
    """Compute every metric on one batch; `added` are the names of the objective's further measures.

    Raises:
        ConfigurationError: a metric cannot be computed, or `selected` is among none of the values.
        UserCodeError: a metric of the user's raised.
    """
    totals = EpochTotals()
    totals.add(outcome, 1, gather=True)
    gathered = totals.gathered()
    if work.gathers and gathered is None:
        raise ConfigurationError(
            f"Metrics {', '.join(metric.name for metric in work.metrics)} need outputs and targets, and the model "
            "gives only a loss.",
            remedy='Return logits too (\'logits,loss\'), or from `step` {"loss": ..., "output": ..., "target": ...}; '
            "or leave `metrics` out.",
        )
    values = dict.fromkeys(("loss", *added), 0.0) | evaluate_loss(
        work.metrics, totals.loss, work.splits.samples["train"]
    )
    if gathered is not None:
        as_one_group = np.zeros(len(gathered[1]), dtype=np.int64)
        values |= evaluate(work.metrics, *gathered, task=work.task, groups=as_one_group)
    if selected not in values:
        raise ConfigurationError(
            f"`selection.metric` = {selected!r} is not measured.{near_matches(selected, values)}",
            remedy=f"Choose one of {', '.join(values)}, or add it to `metrics`.",
        )


def try_validation(session: Session) -> None:
    """Measure one batch of the validation split with the user's validation_step. Raises as `try_metrics`."""
    batch = to_device(next(session.validation_loader.batches(0)), session.device)
    session.model.eval()
    session.context.training = False
    with torch.no_grad(), session.autocast():
        outcome = session.validation_objective(session.model, batch)
    session.model.train()
    session.context.training = True
    try_metrics(session.work, outcome, session.config.selection.metric, session.auxiliary.names)


def require_validation(config: TrainingConfig, work: Work) -> None:
    """Refuse work of which no validation value will ever be measured: no epoch could be chosen and no gate pass.

    Raises:
        ConfigurationError: there is no validation split, or nothing that measures it.
    """
    why = f"`selection.metric` {config.selection.metric!r} can never be measured"
    if "validation" not in work.splits.samples:
        remedy = "Hand over {'train': ..., 'validation': ...}, or set data.split.validation above 0 (0.15)."
        remedy = remedy if config.trainer is None else "Give the Trainer an eval_dataset."
        raise ConfigurationError(
            f"There is no validation split, so {why}.",
            remedy=remedy if config.task is None else "Return `validation` from build, beside `train`.",
        )
    if work.train_step is not None and work.validation_step is None:
        raise ConfigurationError(
            f"`train_step` makes the updates and nothing measures the validation split, so {why}.",
            remedy="Return `validation_step` from build: validation_step(model, batch, context) -> "
            '{"loss": ...}, with "output" and "target" too if `metrics` are to be computed.',
        )


def try_batch(session: Session, plain: Objective) -> None:
    """Run one real batch forward and backward; a misfit is reported before training."""
    with explained_call(session.model, session.train_loader) as call:
        call.batch = batch = to_device(next(session.train_loader.batches(0)), session.device)
        if isinstance(plain, Supervised) and plain.returns == "output" and session.work.loss is not None:
            _check_output(session, batch)
    with session.autocast(), products_counted(session.model) as products:
        outcome: Outcome = session.objective(session.model, batch)
    session.work.products = products
    session.work.found = describe(outcome.output) if outcome.output is not None else None
    if not outcome.loss.requires_grad:
        raise _without_gradient(session, outcome)
    outcome.loss.backward()  # type: ignore[no-untyped-call]
    sparse = [name for name, p in session.model.named_parameters() if p.grad is not None and p.grad.is_sparse]
    if sparse:
        raise ConfigurationError(
            f"The gradient of {sparse[0]} is sparse; norms, clipping and most optimizers need dense ones.",
            remedy="Build the embedding with sparse=False.",
        )
    if all(parameter.grad is None for parameter in session.parameters):
        raise _without_gradient(session, outcome)
    if outcome.output is None and session.work.step is not None:
        with torch.no_grad():
            outcome = session.validation_objective(session.model, batch)
    try_metrics(session.work, outcome, session.config.selection.metric, session.auxiliary.names)


def _without_gradient(session: Session, outcome: Outcome) -> ConfigurationError:
    """Return the error for a loss that no parameter can learn from, by where the graph ends."""
    output, cut = outcome.output, ".item(), .detach(), .data, .numpy(), argmax or torch.no_grad()"
    model = type(session.model).__name__
    where = f"the model's output has a gradient, and the loss has none: it goes through {cut}"
    remedy = "Compute the loss from the output by operations on tensors alone, and do not make it anew by torch.tensor."
    if not torch.is_grad_enabled():
        where = "gradients are switched off, by torch.set_grad_enabled(False) or the like in your code"
        remedy = "Take that call out, or write `with torch.no_grad():` around what it is meant for."
    elif isinstance(output, Tensor) and not output.requires_grad:
        where = f"the output of {model} has no gradient: its forward goes through {cut}"
        remedy = f"Return the output of forward attached to the graph: no {cut} in it."
    return ConfigurationError(f"The loss does not depend on any trainable parameter: {where}.", remedy=remedy)


@contextmanager
def products_counted(model: nn.Module) -> Iterator[dict[str, list[str]]]:
    """Name linear and convolutional layers, once a call, by their outputs' number format, while the context lasts.

    Autocast turns their operands, so the format shows whether the configured precision is really in use.
    """
    seen: dict[str, list[str]] = {}

    def named(name: str, module: nn.Module, args: Any, output: Any) -> None:  # noqa: ARG001 - torch calls it so
        if isinstance(output, Tensor):
            seen.setdefault(str(output.dtype).removeprefix("torch."), []).append(name)

    layers = [(name, module) for name, module in model.named_modules() if isinstance(module, PRODUCTS)]
    hooks = [module.register_forward_hook(partial(named, name)) for name, module in layers]
    try:
        yield seen
    finally:
        for hook in hooks:
            hook.remove()


def _check_output(session: Session, batch: Any) -> None:
    work = session.work
    args, named, target = split_batch(batch)
    with torch.no_grad(), session.autocast():
        output = plain_output(session.model(*args, **named), named)
    if work.loss is None or work.loss.user_defined or not isinstance(output, Tensor):
        return
    if not isinstance(target, Tensor):
        work.loss.compute(output, target)  # which raises, and the cause is found
        return
    first = next(iter((*args, *named.values())), None)
    check_fit(work.loss, output, target, len(first) if isinstance(first, Tensor) and first.dim() else None)
    labels = [label for record in work.splits.records.values() for label in record.labels]
    if work.loss.task == "classification" and labels and not target.is_floating_point():
        check_labels(torch.tensor(labels), output.shape[-1 if output.dim() == 3 else 1])
    if work.loss.task == "binary" and labels:
        check_fit(work.loss, torch.zeros(len(labels)), torch.tensor(labels))


PRODUCTS = (nn.Linear, nn.Conv1d, nn.Conv2d, nn.Conv3d)
DOCUMENT = "diagnostics/model_too_large.md"
SIZES = ("hidden", "channels", "width")
"""Arguments of built-in models whose halves make smaller models."""
KEPT_IN_TRAINING = 4
"""Times its weights that a model takes: the weights, their gradients, and two moments of Adam and its kin."""
SHARE = 0.3
"""Of the free memory that this may take in a suggestion; batches, copies and the update's own room need the rest."""
SMALLER = (
    "Take a smaller model (model.args). Precision and batch change nothing here: weights are kept in fp32, and every "
    "process of a group builds the full model before distributed.strategy fsdp2 divides it."
)
REMEDIES = {
    "model": SMALLER,
    "data": "Read less into memory: leave columns or samples out, make images smaller (data.args.size), or hand over a "
    "Dataset of your own that reads each sample on access.",
    "task": "Make the result of `build` smaller: a smaller model, or a Dataset that reads each sample when it is asked "
    "for instead of holding all of them.",
}


@contextmanager
def explained_build(part: str) -> Iterator[None]:
    """Explain a memory failure inside: `part` (model, data, task) was being built, and the remedy.

    Raises:
        OutOfMemoryError: memory ran out.
    """
    try:
        yield
    except Exception as error:
        known = known_failure(error)
        if not isinstance(known, OutOfMemoryError) or "building" in known.details:
            raise
        raise OutOfMemoryError(
            f"{known.message.removesuffix('.')}, while the {part} was built, before any step.",
            remedy=REMEDIES[part],
            document=DOCUMENT,
            details={"building": part},
        ) from error


def require_room(name: str, args: dict[str, Any], bytes_of: Callable[[dict[str, Any]], int]) -> None:
    """Refuse a model whose weights alone are more than the free memory; it is measured without building it.

    Args:
        bytes_of: measures the weights of the model that such arguments make.

    Raises:
        OutOfMemoryError: `details.changes` make it a model that can be trained here, where smaller arguments do.
    """
    with seeding.preserved():
        weights, free = bytes_of(args), free_bytes(torch.device("cpu"))
        if weights <= free:
            return
        changes = {f"model.args.{key}": value for key, value in _smaller(args, bytes_of, free).items()}
    call = f"For example configure(project, changes={changes}, reason='out of memory'). " if changes else ""
    raise OutOfMemoryError(
        f"The weights of this {name} take {weights / 2**20:,.0f} MiB, and {free / 2**20:,.0f} MiB are free: memory "
        "would run out while it is built.",
        remedy=call + SMALLER,
        document=DOCUMENT,
        details={"building": "model", "changes": changes, "memory": {"free_bytes": free, "weights_bytes": weights}},
    )


def bytes_of_weights(make: Callable[..., nn.Module], args: dict[str, Any]) -> int:
    """Return the bytes of the weights of the model that `make` builds from `args`."""
    with torch.device("meta"):  # shapes without memory
        return sum(parameter.numel() * parameter.element_size() for parameter in make(**args).parameters())


def _smaller(args: dict[str, Any], bytes_of: Callable[[dict[str, Any]], int], free: int) -> dict[str, Any]:
    """Return the sizes halved until training fits; empty where that is not reached."""
    sizes = {key: value for key, value in args.items() if key in SIZES}
    while sizes and KEPT_IN_TRAINING * bytes_of({**args, **sizes}) > SHARE * free:
        halves = {key: _half(value, args.get("heads", 1)) for key, value in sizes.items()}
        if halves == sizes:
            return {}
        sizes = halves
    return sizes


def _half(size: Any, multiple: int) -> Any:
    if isinstance(size, list):
        return [_half(one, multiple) for one in size]
    return max(size // 2 // multiple, 1) * multiple
