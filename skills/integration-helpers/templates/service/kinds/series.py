"""Rows that are the past of a series, of which predict.py takes the last ones, as it does from a file."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any, NamedTuple

import numpy as np
from drift import Drift
from predictor import shipped
from pydantic import AfterValidator, BaseModel, ConfigDict, Field, create_model


class Window(NamedTuple):
    """What the model sees of a series."""

    sample: Any
    """What is known of it beside its numbers, its notes and times, as predict.py has it."""
    numbers: np.ndarray[Any, Any]
    """(rows, inputs) of float32, the oldest row first."""


class Rows:
    """What a past is, and how it becomes the program's input.

    Args:
        signature: of the model.
        folder: with predict.py and schema.json.
    """

    def __init__(self, signature: dict[str, Any], folder: Path) -> None:
        self.fields, self.statistics = signature["inputs"]["fields"], signature["inputs"]["statistics"]
        self.shipped = shipped(folder)
        schema = json.loads((folder / "schema.json").read_text(encoding="utf-8"))
        widths = [column["width"] for column in schema["columns"]]
        self.at = np.cumsum([0, *widths[:-1]]).tolist()
        self.shape = schema["series"]["window"], sum(widths)
        group, names = schema["series"]["group"], [column["name"] for column in schema["columns"]]

        def check(past: list[dict[str, Any]]) -> Window:
            if group is not None and len({str(row.get(group)) for row in past}) > 1:
                raise ValueError(f"it has rows of several {group!r}; give each a past of its own")
            return Window(*self.shipped["window_of"](past, schema, "it"))

        time = schema["series"]["time"]
        said = f"The last {self.shape[0]} rows or more, by column: {', '.join(names)}; {time} has their times"
        past = Annotated[list[dict[str, Any]], Field(description=said), AfterValidator(check)]
        self.Row: type[BaseModel] = create_model("Row", __config__=ConfigDict(extra="forbid"), past=(past, ...))

    def inputs(self, rows: Sequence[Any]) -> list[Window]:
        """Return what the model sees of each."""
        return [row.past for row in rows]

    def example(self) -> list[Window]:
        """Return an input on which the program must run before the service is ready."""
        sample = self.shipped["Sample"]({}, [], {"moments": None, "like": ""})
        return [Window(sample, np.zeros(self.shape, dtype=np.float32))]

    def notes(self, rows: Sequence[Any], inputs: Sequence[Window]) -> list[list[str]]:  # noqa: ARG002 - as of tables
        """Return what a reader of each forecast should know: gaps, doubled times, values not met in training."""
        return [window.sample.notes for window in inputs]

    def count(self, rows: Sequence[Any], inputs: Sequence[Window], drift: Drift) -> None:  # noqa: ARG002 - as of tables
        """Count what differs from the training data in the newest row of each; no value is kept."""
        for window in inputs:
            drift.row(self.fields, self.statistics, window.numbers[-1, self.at].tolist())
