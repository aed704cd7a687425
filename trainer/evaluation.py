"""Loss and metrics over a whole split."""

from __future__ import annotations

from dataclasses import replace

import torch

from trainwright.trainer.data.loader import BatchLoader
from trainwright.trainer.data.tensors import to_device
from trainwright.trainer.metrics import evaluate, evaluate_loss
from trainwright.trainer.reproducibility import seeding
from trainwright.trainer.session import Session
from trainwright.trainer.totals import EpochTotals


class LeftError(Exception):
    """An evaluation was left before its end, since the run is to stop."""


def evaluate_split(session: Session, loader: BatchLoader) -> dict[str, float]:
    """Return the mean loss and every metric over the split, with what the objective adds, the model in evaluation mode.

    The generators are keyed for the evaluation and put back after it, so that validating changes no training.

    Raises:
        LeftError: a stop was asked for, and what comes before the evaluation can be saved as it stands.
    """
    objective, totals = session.validation_objective, EpochTotals()
    session.model.eval()
    session.context.training = False
    with session.judged_weights(), seeding.preserved(), torch.no_grad():
        seeding.seed_sample(session.config.seed, 0)
        for number, batch in enumerate(loader.batches(0)):
            if session.may_leave_validation:
                raise LeftError
            moved = to_device(batch, session.device)
            with session.autocast():
                outcome = objective(session.model, moved)
            if not loader.is_spare(number):
                totals.add(outcome, objective.count(moved), gather=session.gathers)
        every = loader if loader.share is None else replace(loader, share=None)
        added = {name: value for each in session.own.measures for name, value in each(session, every).items()}
    session.model.train()
    session.context.training = True
    return values_of(session, totals, loader) | session.strategy.agreed(added)


def values_of(session: Session, totals: EpochTotals, loader: BatchLoader) -> dict[str, float]:
    """Return the mean loss and the metrics of what an epoch gathered, over all processes where there are several."""
    merged = session.strategy.merged(totals)
    return session.strategy.agreed({"loss": merged.loss, **measure(session, merged, loader)})


def measure(session: Session, totals: EpochTotals, loader: BatchLoader) -> dict[str, float]:
    """Return the metrics of what an epoch over the loader gathered; none when the objective gives no outputs."""
    metrics = session.work.metrics
    values = evaluate_loss(metrics, totals.loss, loader.samples) if metrics else {}
    gathered = totals.gathered()
    if gathered is None or not session.gathers:
        return values
    with seeding.preserved():
        return values | evaluate(metrics, *gathered, task=session.work.task)
