"""Probes of a user's model and targets at the smoke run, for faults that raise nothing in the first batch."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from trainwright.trainer.base.errors import DataError, TrainwrightError, UserCodeError
from trainwright.trainer.data.loader import BatchLoader
from trainwright.trainer.data.tensors import IGNORED, counts_none, known_targets, to_device
from trainwright.trainer.engine.session import Session
from trainwright.trainer.objectives.objective import Objective, evaluation_mode
from trainwright.trainer.objectives.supervised import Supervised, plain_output, split_batch


def probe_user_code(session: Session, plain: Objective) -> None:
    """Look for each fault. Model, gradients and generators are put back by the caller.

    Raises:
        UserCodeError, DataError: the first that is found, with the line to change.
    """
    for probe in PROBES:
        probe(session, plain)


def _some_target_counts(session: Session, plain: Objective) -> None:
    """Refuse a train split in memory of which no target counts."""
    loss, targets = session.work.loss, known_targets(session.work.splits.samples["train"])
    of_classes = isinstance(plain, Supervised) and loss is not None and loss.of_classes
    if of_classes and isinstance(targets, Tensor) and counts_none(targets):
        raise DataError(
            f"All {targets.numel():,} targets of the train split are {IGNORED}, which no loss counts.",
            remedy="Give the class numbers as targets; -100 stands for places that do not count (padding, a prompt).",
        )


def _keeps_a_batch_of_one(session: Session, plain: Objective) -> None:
    """Refuse a model whose output for one sample is of another form than for two."""
    loader = session.train_loader
    is_called = isinstance(plain, Supervised) and plain.returns == "output"
    if not is_called or not loader.batch_size or loader.batch_size < 2 or len(loader.samples) < 2:
        return
    try:
        two = _output(session, loader, 2)
    except Exception:  # noqa: BLE001 - it takes larger batches alone (neighbours among the rows, a size written out)
        return
    if not isinstance(two, Tensor) or two.dim() == 0 or len(two) != 2:
        return  # not by row, which its own loss may mean so
    try:
        one = _output(session, loader, 1)
        found = (
            f"returns {_shape(one)} for a batch of one sample and {_shape(two)} for two: with one, the dimension of "
        )
        found += "the batch is lost."
    except TrainwrightError:
        raise
    except Exception as error:  # noqa: BLE001 - of the user's
        if isinstance(error, AssertionError | ValueError | Warning) and "D input" not in str(error):
            return  # it says itself that it takes several: pairs, or the batch's own statistics
        one, found = None, f"raised {type(error).__name__} for a batch of one sample, and takes one of two: {error}"
    if not isinstance(one, Tensor) or one.dim() != two.dim() or len(one) != 1:
        raise UserCodeError(f"{type(session.model).__name__}.forward {found[:400]}", remedy=ONE_ROW)


ONE_ROW = (
    "Name the dimension: .squeeze(-1) in place of .squeeze(), which takes away every dimension of size 1, that of the "
    "batch too (torch.flatten(x, 1) and x.view(len(x), -1) keep it). The last batch of an epoch may have one sample, "
    "and in deployment most have."
)
PROBES: tuple[Callable[[Session, Objective], None], ...] = (_some_target_counts, _keeps_a_batch_of_one)


def _output(session: Session, loader: BatchLoader, size: int) -> Any:
    few = replace(loader, batch_size=size, drop_last=False, num_workers=0, share=None)
    args, named, _ = split_batch(to_device(next(few.batches(0)), session.device))
    with evaluation_mode(session.model), torch.no_grad(), session.autocast():
        return plain_output(session.model(*args, **named), named)


def _shape(value: Any) -> str:
    return f"shape {tuple(value.shape)}" if isinstance(value, Tensor) else f"a {type(value).__name__}"
