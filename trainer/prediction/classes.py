"""Answers that are a class: its name, its probability, and the likeliest others."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from trainwright.trainer.prediction.frame import Array, Batch, Option, Program, finite

MOST_SCORES = 20
"""Classes whose probabilities are answered, the likeliest first."""


class ClassAnswers:
    """The likeliest class of each input."""

    options: ClassVar[tuple[Option, ...]] = ()

    def __init__(self, schema: dict[str, Any], folder: Path, options: Mapping[str, Any]) -> None:  # noqa: ARG002
        self.classes, self.target = schema["answer"]["classes"], schema["answer"]["target"]
        self.are_shares = schema["answer"].get("are_probabilities", False)

    def __call__(self, program: Program, batch: Batch) -> tuple[list[dict[str, Any]], Array]:
        """Return each sample's `{"label", "probability", "scores"}`, and the outputs."""
        outputs = program(batch[1])
        scores = finite(outputs, batch[0])
        shares = scores if self.are_shares else probabilities(scores, len(self.classes))
        return [chosen(row, self.classes) for row in shares.tolist()], outputs

    def flat(self, answer: dict[str, Any]) -> list[dict[str, Any]]:
        """Return label and probability."""
        return [{f"predicted_{self.target}": answer["label"], "probability": answer["probability"]}]


def probabilities(scores: Array, classes: int) -> Array:
    """Return probabilities (rows, classes) of scores (rows, classes), or of one score a row between two classes."""
    scores = scores.reshape(len(scores), -1)
    if scores.shape[1] == 1 and classes == 2:
        scores = np.concatenate([np.zeros_like(scores), scores], axis=1)
    powers = np.exp(scores - scores.max(axis=1, keepdims=True))
    return np.asarray(powers / powers.sum(axis=1, keepdims=True))


def chosen(shares: Sequence[float], classes: Sequence[str]) -> dict[str, Any]:
    """Return the likeliest class with its probability, and those of the likeliest ones, of (classes,)."""
    order = sorted(range(len(shares)), key=lambda place: -shares[place])[:MOST_SCORES]
    scores = {classes[place]: shares[place] for place in order}
    return {"label": classes[order[0]], "probability": shares[order[0]], "scores": scores}
