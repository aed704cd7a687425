"""Meaning of a program's outputs, for whoever calls it without `predict.py`: logits, probabilities, or the targets."""

from __future__ import annotations

from typing import Any

from torch import Tensor

from trainwright.trainer.data.tensors import known_targets
from trainwright.trainer.engine.session import Session
from trainwright.trainer.jobs.export.trainer_texts import trainer_classes

SUMS = 1e-4
"""By which a sum of probabilities may differ from 1."""


def outputs_of(session: Session, found: list[Tensor]) -> dict[str, Any]:
    """Return what the first of a program's outputs, (rows, ...) each, of some rows is, and what else there is.

    Returns:
        {are, shape, classes, several}: `are` is logits (a column a class), log_odds (of one class, or of each label),
        probabilities, targets (in their own units), next (logits of each next token), or empty where the user's loss
        or step alone knows; `shape` is of a row; `classes` are named in the columns' order, None where no names are
        known; `several`: whether other outputs follow.
    """
    loss, (of_trainer, its_task) = session.work.loss, trainer_classes(session)
    names, output = session.work.splits.class_names or of_trainer, found[0]
    width = output.shape[1] if output.dim() == 2 else 1 if output.dim() == 1 else 0
    are, task = "", loss.task if loss is not None else its_task
    if task in {"regression", "language_model"}:
        are = "targets" if task == "regression" else "next"
    elif task == "binary" or (width == 1 and len(names) == 2) or (width and _have_labels(session) and names):
        are = "log_odds"
    elif width > 1 and (loss is None or loss.user_defined) and are_shares(output.double()):
        are = "probabilities"
    elif width > 1 and (task == "classification" or width == len(names)):
        are = "logits"
    is_named = width == len(names) or (width == 1 and len(names) == 2)
    classes = names if is_named and are not in {"", "targets"} else None
    return {"are": are, "shape": list(output.shape[1:]), "classes": classes, "several": len(found) > 1}


def _have_labels(session: Session) -> bool:
    targets = known_targets(session.work.splits.samples["train"])
    return targets is not None and targets.dim() > 1


def are_shares(output: Tensor) -> bool:
    """Return whether each row, (rows, classes), sums to 1 without a negative number: a loss of the user's took them."""
    return bool((output >= 0).all()) and bool(((output.sum(1) - 1).abs() < SUMS).all())
