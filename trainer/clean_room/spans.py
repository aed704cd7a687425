"""Spans in numpy: answers as first and last token of a text, and how well predicted ones meet them.

As SQuAD measures answers (Rajpurkar et al. 2016, arXiv:1606.05250), by tokens in place of words: (0, 0) is no answer.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]


def best_spans(outputs: Array, targets: Array) -> Array:
    """Return the likeliest spans, (rows, 2) of int64: the largest sum of both logits with the first before the last.

    Args:
        outputs: logits of each token to be the first and the last, (rows, tokens, 2).
        targets: (rows, 2).

    Raises:
        ValueError: they are not of spans.
    """
    if outputs.ndim != 3 or outputs.shape[2] != 2 or targets.shape != (len(outputs), 2):
        raise ValueError("spans are of outputs (rows, tokens, 2) and targets (rows, 2)")
    first, last = outputs[..., 0].astype(float), outputs[..., 1].astype(float)
    before = np.maximum.accumulate(first, axis=1)
    ends = (before + last).argmax(1)
    upto = np.arange(first.shape[1]) <= ends[:, None]
    starts = np.where(upto, first, -np.inf).argmax(1)
    return np.stack([starts, ends], axis=1).astype(np.int64)


def exact_match(predicted: Array, targets: Array) -> float:
    """Share of rows whose span is the wanted one; both (rows, 2)."""
    found, wanted = predicted.reshape(-1, 2), targets.reshape(-1, 2)
    return float((found == wanted).all(1).mean()) if len(wanted) else math.nan


def span_f1(predicted: Array, targets: Array) -> float:
    """Mean over rows of the harmonic mean of precision and recall of a span's tokens; both (rows, 2)."""
    found, wanted = predicted.reshape(-1, 2), targets.reshape(-1, 2)
    if not len(wanted):
        return math.nan
    shared = np.minimum(found[:, 1], wanted[:, 1]) - np.maximum(found[:, 0], wanted[:, 0]) + 1
    sizes = (found[:, 1] - found[:, 0] + 1) + (wanted[:, 1] - wanted[:, 0] + 1)
    return float((2.0 * np.maximum(shared, 0) / sizes).mean())
