"""The end of an epoch under weight averaging: the average moves, and its batch normalisation is measured anew."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from torch import nn
from torch.optim.swa_utils import update_bn

from trainwright.trainer.assembly.untouched import untouched
from trainwright.trainer.objectives import Objective
from trainwright.trainer.reproducibility import seeding
from trainwright.trainer.session import Session, to_device


def average_epoch(session: Session) -> None:
    """Tell the averaging, if there is one, that the present epoch is over.

    The mean of several weights never ran on data, so its batch statistics come from one pass over the training data
    (Izmailov et al. 2018, section 3.2), keyed to the epoch: training itself notices nothing of it.
    """
    averaging = session.averaging
    if averaging is None or not averaging.after_epoch(session.progress.epoch + 1):
        return
    with untouched(session), averaging.applied():
        seeding.seed_sample(session.config.seed, session.progress.epoch)
        update_bn(_batches(session), _Pass(session))
        averaging.take_buffers()


class _Pass(nn.Module):
    """A forward pass as update_bn makes it: the model is called by the plain objective, as it is in validation."""

    def __init__(self, session: Session) -> None:
        super().__init__()
        self.session, self.model, self.objective = session, session.model, _plain_objective(session)

    def forward(self, batch: Any) -> None:
        with self.session.autocast():
            self.objective(self.model, batch)


def _plain_objective(session: Session) -> Objective:
    own = session.work.validation_step is not None and session.objective is not None
    objective = session.objective if own else session.validation_objective
    if own and session.parallel is not None:
        objective = session.parallel.objective
    assert objective is not None  # noqa: S101 - both branches give one
    return objective


def _batches(session: Session) -> Iterator[tuple[Any]]:
    """Yield the epoch's batches, each in a tuple: update_bn takes the first of what it is given.

    Of several processes each goes through all of them, so that all measure the same.
    """
    for batch in replace(session.train_loader, share=None).batches(session.progress.epoch):
        yield (to_device(batch, session.device),)
