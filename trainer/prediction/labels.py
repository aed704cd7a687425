"""Answers that are labels, of which none, one or several hold."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from trainwright.trainer.prediction.frame import Array, Batch, Option, Program, finite


class LabelAnswers:
    """The labels of each input that are likelier than not."""

    options: ClassVar[tuple[Option, ...]] = ()

    def __init__(self, schema: dict[str, Any], folder: Path, options: Mapping[str, Any]) -> None:  # noqa: ARG002
        self.names = schema["answer"]["classes"]

    def __call__(self, program: Program, batch: Batch) -> tuple[list[dict[str, Any]], Array]:
        """Return each sample's `{"labels", "probabilities"}`, and the outputs."""
        outputs = program(batch[1])
        scores = finite(outputs, batch[0]).reshape(len(outputs), len(self.names))
        shares = 1.0 / (1.0 + np.exp(-np.clip(scores, -700.0, 700.0)))
        rows = [dict(zip(self.names, row, strict=True)) for row in shares.tolist()]
        return [{"labels": [one for one in row if row[one] > 0.5], "probabilities": row} for row in rows], outputs

    def flat(self, answer: dict[str, Any]) -> list[dict[str, Any]]:
        """Return the labels in one cell, and each one's probability."""
        return [{"predicted": "; ".join(answer["labels"]), **answer["probabilities"]}]
