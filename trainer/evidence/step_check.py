"""Check of the user's step: metrics must compare targets of the batch with outputs of the model."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any

import torch
from torch import Tensor, nn

from trainwright.trainer.base import seeding
from trainwright.trainer.base.errors import UserCodeError
from trainwright.trainer.data.tensors import to_device
from trainwright.trainer.engine.session import EpochTotals, Session
from trainwright.trainer.objectives.supervised import CustomStep

FEWEST_SAMPLES = 32
LARGEST_SHARE = 0.9


def require_evaluated_model(session: Session) -> None:
    """Compare the user's step on one validation batch under the trained weights and under other ones.

    Only where metrics compare outputs with targets. Targets that follow the model are its predictions; outputs that
    do not, though they differ from sample to sample, are no predictions: a metric of either measures nothing.

    Raises:
        UserCodeError: the targets change with the trained weights, or the outputs do not.
    """
    objective = session.validation_objective
    if not (isinstance(objective, CustomStep) and session.work.gathers):
        return
    batch = to_device(next(iter(session.validation_loader.batches(0))), session.device)
    found, again = _compared(session, batch), None
    with other_weights(session.model), suppress(Exception):  # a step may well refuse weights that make no sense
        again = _compared(session, batch)
    if found is None or again is None:
        return
    if not _same(found[1], again[1]):
        raise _refusal(
            f"The targets that `{objective.name}` returns change with the model's weights: they are not from the data",
            'Return the batch\'s own labels as "target"; a comparison of the model with itself is a '
            "metric of your own, and the step then returns no target.",
        )
    if _same(found[0], again[0]) and _vary(found[0]):
        raise _refusal(
            f"The outputs that `{objective.name}` returns do not change with the model's weights: they are not from it",
            'Return the outputs that the model computed from the batch as "output".',
        )


def _refusal(what: str, remedy: str) -> UserCodeError:
    return UserCodeError(f"{what}, and a metric that compares outputs with targets measures nothing.", remedy=remedy)


def _compared(session: Session, batch: Any) -> tuple[Tensor, Tensor] | None:
    """Return the step's outputs and targets as metrics get them, (samples, ...)."""
    totals = EpochTotals()
    session.model.eval()
    session.context.training = False
    try:
        with seeding.preserved(), torch.no_grad(), session.autocast():
            seeding.seed_sample(session.config.seed, 0)
            totals.add(session.validation_objective(session.model, batch), 1, gather=True)
    finally:
        session.model.train()
        session.context.training = True
    return totals.gathered()


@contextmanager
def other_weights(model: nn.Module) -> Iterator[None]:
    """Negate the trained parameters, and move their values by one place, inside the context; it is undone exactly."""
    trained = [parameter for parameter in model.parameters() if parameter.requires_grad]
    _move(trained, 1)
    try:
        yield
    finally:
        _move(trained, -1)


@torch.no_grad()
def _move(parameters: list[nn.Parameter], places: int) -> None:
    for parameter in parameters:
        own = parameter.to_local() if hasattr(parameter, "to_local") else parameter  # its shard, of several processes
        own.copy_(own.roll(places).neg_())


def _vary(outputs: Tensor) -> bool:
    """Whether the outputs say something of each sample; two models may agree on few, or on almost equal ones."""
    _, counts = torch.unique(outputs, dim=0, return_counts=True)
    return len(outputs) >= FEWEST_SAMPLES and int(counts.max()) <= LARGEST_SHARE * len(outputs)


def _same(left: Tensor, right: Tensor) -> bool:
    if left.shape != right.shape:
        return False
    missing = (left != left) & (right != right)  # noqa: PLR0124 - NaN, of any type of number
    return bool(((left == right) | missing).all())
