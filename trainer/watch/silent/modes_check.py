"""Modes of the model's modules: evaluation while it learns, and training while it is validated."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from trainwright.trainer.watch.inspector import Finding
from trainwright.trainer.watch.silent.calls import Calls
from trainwright.trainer.watch.silent.functions import Functions
from trainwright.trainer.watch.silent.parameters_check import listed
from trainwright.trainer.watch.silent.record import StepRecord


def evaluation_while_training(history: Sequence[StepRecord]) -> Iterator[Finding]:
    """Dropout or batch statistics switched off in a step that learns.

    Deliberate are: batch statistics that are held alone, in a model that trains; parts that no optimizer holds.
    """
    record = history[-1]
    calls = record.calls
    off = {name for name, training in calls.modes.items() if not training and _is_meant_to_train(name, record)}
    if off:
        share = len(off) / len(calls.modes)
        verb = "was" if len(off) == 1 else "were"
        yield Finding(
            "training_in_eval_mode",
            share,
            tuple(sorted(off)),
            detail=f"{listed(off)} {verb} in evaluation mode while the model learned",
        )
    elif record.functions.dropouts and not any(record.functions.dropouts) and "" in calls.in_evaluation:
        yield Finding("training_in_eval_mode", 1.0, detail="dropout was called with training=False while it learned")


def _is_meant_to_train(name: str, record: StepRecord) -> bool:
    """Whether a module in evaluation lies in a part that is so as a whole, and of which weights are learned."""
    off = record.calls.in_evaluation
    parent = name.rpartition(".")[0]
    if parent not in off or name not in record.calls.with_gradients:
        return False
    while parent and parent.rpartition(".")[0] in off:
        parent = parent.rpartition(".")[0]
    inside = f"{parent}." if parent else ""
    return any(held.startswith(inside) and held in record.trainable for held in record.held)


def training_while_validating(calls: Calls, functions: Functions) -> Finding | None:
    """Dropout or batch statistics left on while a split is measured."""
    on = {name for name, training in calls.modes.items() if training}
    if on:
        detail = f"{listed(on)} {'was' if len(on) == 1 else 'were'} in training mode while validation was measured"
        return Finding("validation_in_train_mode", len(on) / len(calls.modes), tuple(sorted(on)), detail=detail)
    if any(functions.dropouts):
        share = sum(functions.dropouts) / len(functions.dropouts)
        detail = "dropout was called with training=True (its default) while validation was measured"
        return Finding("dropout_in_validation", share, detail=detail)
    return None
