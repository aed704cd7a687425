"""Nearest rows: what features say of classes without a classifier, whether the nearest other row is of the class.

Nearest by cosine similarity among the rows of the same split (Musgrave et al. 2020, arXiv:2003.08505).
"""

from __future__ import annotations

import numpy as np

from .counts import IGNORED, Array

NAME = "neighbour_accuracy"
AT_ONCE = 1024


def unit(outputs: Array, targets: Array) -> Array:
    """Return features as vectors of length 1, (rows, features). Raises ValueError for others, or several targets."""
    if outputs.ndim != 2 or targets.ndim != 1 or targets.dtype.kind not in "iu":
        raise ValueError("a row has one vector of features, and one class number")
    flat = outputs.astype(np.float32)
    lengths = np.linalg.norm(flat, axis=1, keepdims=True)
    return np.asarray(flat / np.maximum(lengths, np.finfo(np.float32).tiny))


def hits(features: Array, targets: Array) -> Array:
    """Return 1 for each row, (rows,), whose nearest other row has its class, else 0; NaN for one without a class."""
    counted = np.flatnonzero(targets != IGNORED)
    found = np.full(len(targets), np.nan)
    kept = features[counted]
    for start in range(0, len(counted) if len(counted) > 1 else 0, AT_ONCE):
        similar = kept[start : start + AT_ONCE] @ kept.T
        places = np.arange(len(similar))
        similar[places, start + places] = -np.inf
        rows = counted[start : start + AT_ONCE]
        found[rows] = targets[counted[similar.argmax(1)]] == targets[rows]
    return found


def share(kept: Array, targets: Array) -> float:  # noqa: ARG001 - the form of these steps
    """Return the share of rows with a class whose nearest row is of it, of `hits`, (rows,)."""
    known = kept[~np.isnan(kept)]
    return float(known.mean()) if known.size else float("nan")
