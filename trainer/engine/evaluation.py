"""Evaluation of a split: loss and metrics; and the batch statistics of averaged weights at an epoch's end."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import torch
from torch import nn
from torch.optim.swa_utils import update_bn

from trainwright.trainer.base import seeding
from trainwright.trainer.data.loader import BatchLoader
from trainwright.trainer.data.tensors import to_device
from trainwright.trainer.engine.components import untouched
from trainwright.trainer.engine.session import Session
from trainwright.trainer.engine.totals import EpochTotals
from trainwright.trainer.metrics import evaluate, evaluate_loss, evaluate_sums, problems, problems_of_sums
from trainwright.trainer.objectives.objective import Objective
from trainwright.trainer.run import RunKind


def average_epoch(session: Session) -> None:
    """Let the observers of the weights follow the end of the present epoch.

    The mean of several weights never ran on data, so its batch statistics come from one pass over the training data
    (Izmailov et al. 2018, section 3.2), keyed to the epoch: training itself notices nothing of it.
    """
    for observer in session.weight_observers:
        if observer.after_epoch(session.progress.epoch + 1):
            with untouched(session), observer.evaluated():
                seeding.seed_measurement(session.config.seed, session.progress.epoch)
                update_bn(_batches(session), _Pass(session))
                observer.take_buffers()


class _Pass(nn.Module):
    """A forward pass as update_bn makes it: the model is called by the plain objective, as it is in validation."""

    def __init__(self, session: Session) -> None:
        super().__init__()
        self.session, self.model, self.objective = session, session.model, _plain_objective(session)

    def forward(self, batch: Any) -> None:
        with self.session.autocast():
            self.objective(self.model, batch)


def _plain_objective(session: Session) -> Objective:
    is_own = session.work.validation_step is not None and not session.rule.is_users
    return session.objective if is_own else session.validation_objective


def _batches(session: Session) -> Iterator[tuple[Any]]:
    """Yield the epoch's batches, each in a tuple: update_bn takes the first item.

    Of several processes each goes through all of them, so that all measure the same.
    """
    for batch in replace(session.train_loader, share=None).batches(session.progress.epoch):
        yield (to_device(batch, session.device),)


class LeftError(Exception):
    """An evaluation was left before its end, since the run is to stop."""


def evaluate_split(session: Session, loader: BatchLoader) -> dict[str, float]:
    """Return the mean loss, every metric and the objective's measures over the split, in evaluation mode.

    The model is left in the mode that it was in: one that is exported next keeps its batch statistics. The generators
    are keyed for the evaluation and put back after it, so that validating changes no training.

    Raises:
        LeftError: a stop was requested, and the state before the evaluation can be saved unchanged.
    """
    if session.work.framework is not None:
        return session.work.framework.evaluate(loader.samples)
    objective, totals, was_training = session.validation_objective, EpochTotals(), session.model.training
    session.model.eval()
    session.context.training = False
    with session.evaluated_weights(), seeding.preserved(), torch.no_grad():
        seeding.seed_measurement(session.config.seed, 0)
        for number, batch in enumerate(loader.batches(0)):
            if session.may_leave_validation:
                raise LeftError
            count = objective.count(batch)  # before it is on the device: no need to wait for it
            with session.autocast():
                outcome = objective(session.model, to_device(batch, session.device))
            if not loader.is_spare(number):
                totals.add(outcome, count, gather=session.gathers)
                totals.fold(session.work)
        every = loader if loader.share is None else replace(loader, share=None)
        added = {name: value for each in session.auxiliary.measures for name, value in each(session, every).items()}
    session.model.train(was_training)
    session.context.training = was_training
    return values_of(session, totals, loader) | session.strategy.agreed(added)


def values_of(session: Session, totals: EpochTotals, loader: BatchLoader) -> dict[str, float]:
    """Return the mean loss and the metrics of an epoch, over all processes where there are several."""
    merged = session.strategy.merged(totals)
    return session.strategy.agreed({"loss": merged.loss, **measure(session, merged, loader)})


def measure(session: Session, totals: EpochTotals, loader: BatchLoader) -> dict[str, float]:
    """Return the metrics of an epoch over the loader; none when the objective gives no outputs."""
    metrics = session.work.metrics
    values = evaluate_loss(metrics, totals.loss, loader.samples) if metrics else {}
    if totals.sums is not None:
        totals.fold(session.work, least_bytes=0)
    gathered = totals.gathered()
    if totals.sums is not None and gathered is None:
        session.problems = problems_of_sums(metrics, totals.sums)  # of targets, so the same in every epoch
        return values | evaluate_sums(metrics, totals.sums)
    if gathered is None or not session.gathers:
        return values
    # None of the train split: its scores are of weights that change within a group.
    groups = session.work.splits.groups.get(seeding.SPLITS[loader.split])
    with seeding.preserved():
        values |= evaluate(metrics, *gathered, task=session.work.task, groups=groups)
    if session.specification.kind is RunKind.SMOKE:  # what it finds closes planning
        names = session.work.splits.class_names or ()
        session.problems = problems(metrics, *gathered, task=session.work.task, names=names)
    return values
