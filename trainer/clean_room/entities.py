"""Entities in numpy: those read off class numbers of IOB2 tags, and the F1 of finding them whole, with their kind.

As conlleval and seqeval count them (Tjong Kim Sang and De Meulder 2003, arXiv:cs/0306050; Nakayama 2018): class 0 is O,
kind k begins with class 2k + 1 and goes on with 2k + 2; a predicted entity that goes on from nothing begins there.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]
IGNORED = -100
FIRST = 1 << 40
"""Added to the class of a row's first token: where rows have different lengths, they are kept one behind the other."""


def tags(outputs: Array, targets: Array) -> Array:
    """Return the predicted classes (rows, tokens) of outputs (rows, tokens, classes), each row's first one marked.

    Raises:
        ValueError: they are not one class for each token.
    """
    if outputs.ndim != 3 or outputs.shape[:2] != targets.shape:
        raise ValueError("entities are of tokens: outputs (rows, tokens, classes) for targets (rows, tokens)")
    found: Array = outputs.argmax(-1).astype(np.int64)
    found[:, :1] += FIRST
    return found


def entity_f1(predicted: Array, targets: Array) -> float:
    """Harmonic mean of precision and recall over all entities, each right as a whole; NaN where there is none at all.

    Args:
        predicted: classes as `tags` marks them, (rows, tokens) or flat.
        targets: classes, IGNORED where a token does not count, of the same size.
    """
    marked, wanted = predicted.reshape(-1), targets.reshape(-1).astype(np.int64)
    if len(marked) != len(wanted):
        raise ValueError(f"{len(marked)} predicted classes for {len(wanted)} targets")
    rows, counted = np.cumsum(marked >= FIRST), wanted != IGNORED
    guessed, wanted, rows = (marked % FIRST)[counted], wanted[counted], rows[counted]
    begins = np.append(True, rows[1:] != rows[:-1]) if len(rows) else np.zeros(0, dtype=bool)
    found, there = spans(guessed, begins), spans(wanted, begins)
    both = len(np.intersect1d(found, there, assume_unique=True))
    return 2.0 * both / (len(found) + len(there)) if len(found) + len(there) else math.nan


def spans(classes: Array, begins: Array) -> Array:
    """Return the entities among tokens, (entities,), each as one record of first token, end and kind.

    Args:
        classes: of the tokens, (tokens,).
        begins: whether a row begins with a token, (tokens,).
    """
    kinds = (classes + 1) // 2
    before = np.append(0, kinds[:-1]) if len(kinds) else kinds
    opens = (kinds > 0) & ((classes % 2 == 1) | (kinds != before) | begins)
    edges = np.append(np.flatnonzero(opens | (kinds == 0) | begins), len(classes))
    first = np.flatnonzero(opens)
    ends = edges[np.searchsorted(edges, first, side="right")]
    record = np.dtype([("first", np.int64), ("end", np.int64), ("kind", np.int64)])
    found = np.zeros(len(first), dtype=record)
    found["first"], found["end"], found["kind"] = first, ends, kinds[first]
    return found
