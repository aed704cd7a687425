"""The end of an epoch under weight averaging: the average moves, and its batch normalisation is measured anew."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from torch import nn
from torch.optim.swa_utils import update_bn

from trainwright.trainer.assembly.untouched import untouched
from trainwright.trainer.data.tensors import to_device
from trainwright.trainer.objectives import Objective
from trainwright.trainer.reproducibility import seeding
from trainwright.trainer.session import Session


def average_epoch(session: Session) -> None:
    """Let the observers of the weights follow the end of the present epoch.

    The mean of several weights never ran on data, so its batch statistics come from one pass over the training data
    (Izmailov et al. 2018, section 3.2), keyed to the epoch: training itself notices nothing of it.
    """
    for observer in session.weight_observers:
        if observer.after_epoch(session.progress.epoch + 1):
            with untouched(session), observer.judged():
                seeding.seed_sample(session.config.seed, session.progress.epoch)
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
    """Yield the epoch's batches, each in a tuple: update_bn takes the first of what it is given.

    Of several processes each goes through all of them, so that all measure the same.
    """
    for batch in replace(session.train_loader, share=None).batches(session.progress.epoch):
        yield (to_device(batch, session.device),)
