"""Rows of a table: one value for each column, prepared by predict.py, the very code that training shipped."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from itertools import chain
from pathlib import Path
from typing import Annotated, Any

import numpy as np
from drift import Drift, odd
from predictor import shipped
from pydantic import BaseModel, ConfigDict, Field, PlainValidator, WithJsonSchema, create_model

Inputs = dict[str, np.ndarray[Any, Any]]
JSON_TYPES = {"number": "number", "boolean": "boolean"}


class Rows:
    """What one row is, and how it becomes the program's input.

    Args:
        signature: of the model.
        folder: with predict.py and schema.json.
    """

    def __init__(self, signature: dict[str, Any], folder: Path) -> None:
        self.fields = signature["inputs"]["fields"]
        self.statistics = signature["inputs"]["statistics"]
        ours = shipped(folder)
        schema = json.loads((folder / "schema.json").read_text(encoding="utf-8"))
        columns = {column["name"]: column for column in schema["columns"]}
        self.width = sum(column["width"] for column in schema["columns"])
        self.keys = [f"column_{place}" for place in range(len(self.fields))]
        cells: dict[str, Any] = {
            key: (_cell(field, columns[field["name"]], ours["encode"]), Field(alias=field["name"]))
            for key, field in zip(self.keys, self.fields, strict=True)
        }
        self.Row: type[BaseModel] = create_model("Row", __config__=ConfigDict(extra="forbid"), **cells)

    def inputs(self, rows: Sequence[BaseModel]) -> Inputs:
        """Return the program's input, (rows, inputs) of float32."""
        numbers = [list(chain.from_iterable(row.__dict__[key] for key in self.keys)) for row in rows]
        return {"input": np.array(numbers, dtype=np.float32).reshape(len(rows), self.width)}

    def example(self) -> Inputs:
        """Return an input on which the program must run before the service is ready."""
        return {"input": np.zeros((1, self.width), dtype=np.float32)}

    def notes(self, rows: Sequence[BaseModel], inputs: Inputs) -> list[list[str]]:  # noqa: ARG002 - as of texts
        """Return what a reader of each answer should know: values that training did not meet."""
        return [
            [
                f"{field['name']}: not in the training data"
                for field, what in odd(self.fields, self.statistics, self._firsts(row))
                if what == "unseen"
            ]
            for row in rows
        ]

    def count(self, rows: Sequence[BaseModel], inputs: Inputs, drift: Drift) -> None:  # noqa: ARG002 - as of texts
        """Count what differs from the training data; no value is kept."""
        for row in rows:
            drift.row(self.fields, self.statistics, self._firsts(row))

    def _firsts(self, row: BaseModel) -> list[float]:
        return [row.__dict__[key][0] for key in self.keys]


def _cell(field: dict[str, Any], column: dict[str, Any], encode: Any) -> Any:
    """Return the type of a column's value: anything that the shipped code reads, as the numbers that it becomes."""

    def read(value: Any) -> list[float]:
        if isinstance(value, list | dict):
            raise ValueError("one value is needed, no list and no object")
        try:
            numbers: list[float] = encode(value, column)
        except (ValueError, OverflowError) as error:
            raise ValueError(f"it is {error}") from None
        if math.isnan(numbers[0]) and not field["may_be_empty"]:
            raise ValueError("it is empty; no row of training was")
        return numbers

    kind = JSON_TYPES.get(field["kind"], "string")
    described: dict[str, Any] = {"type": [kind, "null"] if field["may_be_empty"] else kind}
    if field["choices"]:
        described["examples"] = field["choices"][:20]
    if field["format"]:
        described["description"] = field["format"] + (" hour:minute" if field["has_time"] else "")
    return Annotated[Any, PlainValidator(read), WithJsonSchema(described)]
