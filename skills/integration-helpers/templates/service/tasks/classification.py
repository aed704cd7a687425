"""Answers of a model that chooses a class: its name, its probability, and the likeliest others."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from predictor import Predictor, finite

MOST_SCORES = 20
"""Classes whose scores are answered, the likeliest first."""


class Answers:
    """Words the program's outputs.

    Args:
        predictor: runs the program.
        signature: of the model.
        folder: of the model's files; none is needed here.
    """

    runs_per_row = 1

    def __init__(self, predictor: Predictor, signature: dict[str, Any], folder: Path) -> None:  # noqa: ARG002
        self.predictor, self.classes = predictor, signature["classes"]

    def __call__(self, inputs: Mapping[str, np.ndarray[Any, Any]]) -> list[dict[str, Any]]:
        """Return for each row `{"label", "probability", "scores"}`. Raises NotFiniteError."""
        scores = finite(self.predictor.outputs(inputs))
        return [_worded(row, self.classes) for row in probabilities(scores, len(self.classes)).tolist()]


def probabilities(scores: np.ndarray[Any, Any], classes: int) -> np.ndarray[Any, Any]:
    """Return probabilities (rows, classes) of scores (rows, classes), or of one score a row between two classes."""
    scores = scores.reshape(len(scores), -1)
    if scores.shape[1] == 1 and classes == 2:
        scores = np.concatenate([np.zeros_like(scores), scores], axis=1)
    powers = np.exp(scores - scores.max(axis=1, keepdims=True))
    shares: np.ndarray[Any, Any] = powers / powers.sum(axis=1, keepdims=True)
    return shares


def _worded(shares: Sequence[float], classes: Sequence[str]) -> dict[str, Any]:
    order = sorted(range(len(shares)), key=lambda place: -shares[place])[:MOST_SCORES]
    best = order[0]
    return {
        "label": classes[best],
        "probability": shares[best],
        "scores": {classes[place]: shares[place] for place in order},
    }
