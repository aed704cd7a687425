"""Answers of a model that chooses a class: its name, its probability, and the likeliest others."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from predictor import finite, shipped


class Answers:
    """Words the program's outputs as predict.py does.

    Args:
        program: gives outputs for inputs.
        signature: of the model.
        folder: of the model's files.
    """

    runs_per_row = 1

    def __init__(self, program: Any, signature: dict[str, Any], folder: Path) -> None:
        self.program, self.classes, self.shipped = program, signature["classes"], shipped(folder)

    def __call__(self, inputs: Mapping[str, np.ndarray[Any, Any]]) -> list[dict[str, Any]]:
        """Return for each row `{"label", "probability", "scores"}`. Raises NotFiniteError."""
        scores = finite(self.program(inputs))
        rows = self.shipped["probabilities"](scores, len(self.classes)).tolist()
        return [self.shipped["chosen"](row, self.classes) for row in rows]
