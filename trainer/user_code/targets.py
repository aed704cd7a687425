"""Whether what a step of the user's calls targets are targets: they may follow from the batch, not from the model."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any

import torch
from torch import nn

from trainwright.trainer.errors import UserCodeError
from trainwright.trainer.objectives.custom import CustomStep
from trainwright.trainer.reproducibility import seeding
from trainwright.trainer.session import Session, to_device
from trainwright.trainer.totals import EpochTotals


def require_independent_targets(session: Session) -> None:
    """Compare the targets that the user's step returns for one validation batch under two sets of weights.

    Only where metrics compare with them. A metric of targets that follow the model measures
    nothing.

    Raises:
        UserCodeError: the targets change with the trained weights.
    """
    objective = session.validation_objective
    if not (isinstance(objective, CustomStep) and session.work.gathers):
        return
    batch = to_device(next(iter(session.validation_loader.batches(0))), session.device)
    found, again = _targets(session, batch), None
    with rolled_weights(session.model), suppress(Exception):  # a step may well refuse weights that make no sense
        again = _targets(session, batch)
    if found is not None and again is not None and not _same(found, again):
        raise UserCodeError(
            f"The targets that `{objective.name}` returns change with the model's weights: they are not what the data "
            "says, and a metric that compares outputs with them measures nothing.",
            remedy='Return the batch\'s own labels as "target"; what compares the model with itself is a '
            "metric of your own, and the step then returns no target.",
        )


def _targets(session: Session, batch: Any) -> torch.Tensor | None:
    """Return the step's targets as metrics get them."""
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
    gathered = totals.gathered()
    return None if gathered is None else gathered[1]


@contextmanager
def rolled_weights(model: nn.Module) -> Iterator[None]:
    """Shift the values of every trained parameter by one place inside the context; after it they are what they were."""
    trained = [parameter for parameter in model.parameters() if parameter.requires_grad]
    _roll(trained, 1)
    try:
        yield
    finally:
        _roll(trained, -1)


@torch.no_grad()
def _roll(parameters: list[nn.Parameter], places: int) -> None:
    for parameter in parameters:
        own = parameter.to_local() if hasattr(parameter, "to_local") else parameter
        own.copy_(own.roll(places))  # flattened by torch, so that every place moves


def _same(left: torch.Tensor, right: torch.Tensor) -> bool:
    if left.shape != right.shape:
        return False
    missing = (left != left) & (right != right)  # noqa: PLR0124 - NaN, of any type of number
    return bool(((left == right) | missing).all())
