"""The training loop: fetch, step, observe, save, stop."""

from __future__ import annotations

import time

from trainwright.trainer.engine.evaluation import LeftError, average_epoch, evaluate_split, values_of
from trainwright.trainer.engine.observers.observer import EpochResult, Observers
from trainwright.trainer.engine.session import Session
from trainwright.trainer.engine.step import take_step


def train(session: Session, observers: Observers) -> str:
    """Train from where the session stands until an end is reached; return the reason.

    Raises:
        DivergenceError: a loss or gradient that is not finite. And whatever the user's code raises.
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
    """Validate, move the position to the next epoch, and let the observers judge, report and save."""
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
