"""What the first batch gave, held against what the run will measure, before a step is made."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import torch
from torch import Tensor

from trainwright.trainer.base.near import near_matches
from trainwright.trainer.config import TrainingConfig
from trainwright.trainer.data.tensors import to_device
from trainwright.trainer.errors import ConfigurationError
from trainwright.trainer.losses import check_fit, check_labels
from trainwright.trainer.metrics import evaluate, evaluate_loss
from trainwright.trainer.objectives import Objective, Outcome
from trainwright.trainer.objectives.supervised import Supervised, describe, plain_output, split_batch
from trainwright.trainer.objectives.work import Work
from trainwright.trainer.session import Session
from trainwright.trainer.totals import EpochTotals


def try_metrics(work: Work, outcome: Outcome, selected: str, added: Iterable[str] = ()) -> None:
    """Compute every metric on one batch; `added` are the names of what the objective measures besides.

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
        values |= evaluate(work.metrics, *gathered, task=work.task)
    if selected not in values:
        raise ConfigurationError(
            f"`selection.metric` = {selected!r} is not measured.{near_matches(selected, values)}",
            remedy=f"Choose one of {', '.join(values)}, or add it to `metrics`.",
        )


def try_validation(session: Session) -> None:
    """Measure one batch of the validation split with the user's validation_step. Raises what `try_metrics` raises."""
    batch = to_device(next(session.validation_loader.batches(0)), session.device)
    session.model.eval()
    session.context.training = False
    with torch.no_grad(), session.autocast():
        outcome = session.validation_objective(session.model, batch)
    session.model.train()
    session.context.training = True
    try_metrics(session.work, outcome, session.config.selection.metric, session.own.names)


def require_validation(config: TrainingConfig, work: Work) -> None:
    """Refuse work of which no validation value will ever be measured: no epoch could be chosen and no gate pass.

    Raises:
        ConfigurationError: there is no validation split, or nothing that measures it.
    """
    why = f"`selection.metric` {config.selection.metric!r} can never be measured"
    if "validation" not in work.splits.samples:
        remedy = "Hand over {'train': ..., 'validation': ...}, or set data.split.validation above 0 (0.15)."
        raise ConfigurationError(
            f"There is no validation split, so {why}.",
            remedy="Return `validation` from build, beside `train`." if config.task is not None else remedy,
        )
    if work.train_step is not None and work.validation_step is None:
        raise ConfigurationError(
            f"`train_step` makes the updates and nothing measures the validation split, so {why}.",
            remedy="Return `validation_step` from build: validation_step(model, batch, context) -> "
            '{"loss": ...}, with "output" and "target" too if `metrics` are to be computed.',
        )


def try_batch(session: Session, plain: Objective) -> None:
    """Run one real batch forward and backward; whatever does not fit is told before training."""
    batch = to_device(next(session.train_loader.batches(0)), session.device)
    if isinstance(plain, Supervised) and plain.returns == "output" and session.work.loss is not None:
        _check_output(session, batch)
    with session.autocast():
        outcome: Outcome = session.objective(session.model, batch)
    session.work.found = describe(outcome.output) if outcome.output is not None else None
    if not outcome.loss.requires_grad:
        raise ConfigurationError(
            "The loss does not depend on any trainable parameter.",
            remedy="Return the loss attached to the graph (no .item(), .detach() or torch.no_grad() around it).",
        )
    outcome.loss.backward()  # type: ignore[no-untyped-call]
    sparse = [name for name, p in session.model.named_parameters() if p.grad is not None and p.grad.is_sparse]
    if sparse:
        raise ConfigurationError(
            f"The gradient of {sparse[0]} is sparse; norms, clipping and most optimizers need dense ones.",
            remedy="Build the embedding with sparse=False.",
        )
    try_metrics(session.work, outcome, session.config.selection.metric, session.own.names)


def _check_output(session: Session, batch: Any) -> None:
    work = session.work
    args, named, target = split_batch(batch)
    with torch.no_grad(), session.autocast():
        output = plain_output(session.model(*args, **named))
    if work.loss is None or work.loss.user_defined or not isinstance(output, Tensor) or not isinstance(target, Tensor):
        return
    check_fit(work.loss, output, target)
    labels = [label for record in work.splits.records.values() for label in record.labels]
    if work.loss.task == "classification" and labels and not target.is_floating_point():
        check_labels(torch.tensor(labels), output.shape[-1 if output.dim() == 3 else 1])
    if work.loss.task == "binary" and labels:
        check_fit(work.loss, torch.zeros(len(labels)), torch.tensor(labels))
