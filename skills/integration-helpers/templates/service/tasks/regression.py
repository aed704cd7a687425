"""Answers of a model that predicts numbers, in the units of its targets."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from predictor import finite


class Answers:
    """Words the program's outputs.

    Args:
        program: gives outputs for inputs.
        signature: of the model.
        folder: of the model's files; none is needed here.
    """

    runs_per_row = 1

    def __init__(self, program: Any, signature: dict[str, Any], folder: Path) -> None:  # noqa: ARG002
        self.program, self.numbers = program, signature["numbers"]

    def __call__(self, inputs: Mapping[str, np.ndarray[Any, Any]]) -> list[dict[str, Any]]:
        """Return for each row `{"value": number}`, or `{"values": [number, …]}` of several. Raises NotFiniteError."""
        found = finite(self.program(inputs))
        if self.numbers == 1:
            return [{"value": value} for value in found.reshape(-1).tolist()]
        return [{"values": values} for values in found.reshape(len(found), self.numbers).tolist()]
