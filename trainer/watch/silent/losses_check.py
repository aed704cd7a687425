"""Losses that are not what they seem: without the model, summed over the batch, of probabilities, of all pairs."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from trainwright.trainer.watch.inspector import Finding
from trainwright.trainer.watch.silent.functions import OF_EQUAL_SHAPES
from trainwright.trainer.watch.silent.graph import Term
from trainwright.trainer.watch.silent.record import StepRecord

MIN_ROWS = 4
UNCONNECTED = 2
"""Steps, one after the other, whose losses all come from nowhere."""


def loss_without_model(history: Sequence[StepRecord]) -> Iterator[Finding]:
    """Backward passes from numbers that nothing has computed: one alone may be of a batch without anything to learn."""
    newest = history[-UNCONNECTED:]
    losses = [loss for record in newest for loss in record.losses]
    if len(newest) < UNCONNECTED or not all(record.losses for record in newest):
        return
    if not any(loss.is_connected for loss in losses):
        detail = f"backward was called on a loss ({losses[-1].value:.4g}) that no operation leads to: it was made anew"
        yield Finding("loss_without_gradient", float(len(losses)), detail=detail)


def summed_loss(history: Sequence[StepRecord]) -> Iterator[Finding]:
    """A loss that grows with the batch. Bounds that are sums in all their terms (an ELBO) are meant so."""
    record = history[-1]
    rows = record.rows // max(len(record.batches), 1)
    for loss in record.losses:
        sums = [term for term in loss.terms if _is_sum_over(term, rows)]
        others = [term for term in loss.terms if term.kind != "unknown" and term not in sums]
        if sums and (len(sums) == 1 or others):
            detail = f"the loss {loss.value:.4g} is a sum over the {rows} samples of the batch (shape {sums[0].shape})"
            yield Finding("wrong_loss_reduction", float(rows), detail=detail)


def _is_sum_over(term: Term, rows: int) -> bool:
    if term.kind != "sum" or term.divided or rows < MIN_ROWS or not term.shape:
        return False
    return term.shape[0] % rows == 0 and term.shape[0] > 0


def loss_of_probabilities(history: Sequence[StepRecord]) -> Iterator[Finding]:
    """A loss on logits that was given probabilities, or probabilities over the wrong dimension."""
    for loss in history[-1].losses:
        if loss.squashed is not None:
            yield Finding("wrong_loss_input", 1.0, detail=loss.squashed)
        elif loss.over_rows:
            detail = "the log-probabilities of the loss add up to 1 over the batch (dim=0), not over the classes"
            yield Finding("wrong_loss_input", 1.0, detail=detail)


def loss_of_all_pairs(history: Sequence[StepRecord]) -> Iterator[Finding]:
    """Outputs (rows, 1) beside targets (rows,): every output is compared with every target."""
    record = history[-1]
    shapes = [(call.output_shape, call.target_shape) for call in record.functions.losses
              if call.learns and call.name in OF_EQUAL_SHAPES and call.output_shape != call.target_shape]  # fmt: skip
    if shapes:
        output, target = shapes[0]
        detail = f"the loss was given outputs of shape {output} and targets of shape {target}: they were broadcast"
        yield Finding("loss_broadcast", float(max(output[0] if output else 1, 1)), detail=detail)
    elif (pairs := next((loss.broadcast for loss in record.losses if loss.broadcast is not None), None)) is not None:
        detail = f"outputs and targets were subtracted to shape {pairs}: every output beside every target"
        yield Finding("loss_broadcast", float(pairs[0]), detail=detail)
