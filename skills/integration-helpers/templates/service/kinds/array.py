"""Rows of numbers, given as the model's samples are: nested lists of one shape."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import numpy as np
from drift import Drift
from pydantic import AfterValidator, BaseModel, ConfigDict, create_model

Inputs = dict[str, np.ndarray[Any, Any]]


class Rows:
    """What one row is, and how it becomes the program's input.

    Args:
        signature: of the model.
        folder: of the model's files; none is needed here.
    """

    def __init__(self, signature: dict[str, Any], folder: Path) -> None:  # noqa: ARG002 - as of the other kinds
        self.shape = tuple(signature["inputs"]["shape"])

        def check(values: Any) -> np.ndarray[Any, Any]:
            try:
                found = np.asarray(values, dtype=np.float64)
            except (ValueError, TypeError):
                raise ValueError("it holds something that is no number, or rows of different length") from None
            except OverflowError:
                raise ValueError("it holds a number that is too large") from None
            if found.shape != self.shape:
                raise ValueError(f"its shape is {list(found.shape)}; the model takes {list(self.shape)}")
            if not np.isfinite(found).all():
                raise ValueError("it holds a number that is not finite")
            return found

        numbers: Any = list[Any] if self.shape else float
        kind: Any = Annotated[numbers, AfterValidator(check)]
        self.Row: type[BaseModel] = create_model("Row", __config__=ConfigDict(extra="forbid"), values=(kind, ...))

    def inputs(self, rows: Sequence[Any]) -> Inputs:
        """Return the program's input, (rows, ...)."""
        return {"input": np.stack([row.values for row in rows])}

    def example(self) -> Inputs:
        """Return an input on which the program must run before the service is ready."""
        return {"input": np.zeros((1, *self.shape))}

    def notes(self, rows: Sequence[Any], inputs: Inputs) -> list[list[str]]:  # noqa: ARG002 - as of the other kinds
        """Return nothing for each row: training left no statistics of such inputs."""
        return [[] for _ in rows]

    def count(self, rows: Sequence[Any], inputs: Inputs, drift: Drift) -> None:
        """Count rows alone: there is nothing to compare them with."""
