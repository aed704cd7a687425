"""Answers of a model that forecasts: a row for each step of its horizon, in the units of its targets."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from predictor import finite, shipped


class Answers:
    """Words the program's outputs as predict.py does.

    Args:
        program: gives outputs for inputs.
        signature: of the model.
        folder: with predict.py and schema.json.
    """

    runs_per_row = 1

    def __init__(self, program: Any, signature: dict[str, Any], folder: Path) -> None:
        self.program, self.targets = program, len(signature["names"])
        self.schema = json.loads((folder / "schema.json").read_text(encoding="utf-8"))
        self.forecast_of = shipped(folder)["forecast_of"]

    def __call__(self, inputs: Sequence[Any]) -> list[dict[str, Any]]:
        """Return for each series `{"forecast": [{"step", time, target: number, …}, …]}`. Raises NotFiniteError."""
        outputs = finite(self.program({"input": np.stack([window.numbers for window in inputs])}))
        rows = outputs.reshape(len(inputs), -1, self.targets).tolist()
        return [self.forecast_of(window.sample, each, self.schema) for window, each in zip(inputs, rows, strict=True)]
