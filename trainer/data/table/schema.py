"""Schema of a table: which kind each column is of, why, and how its cells become numbers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, Literal

Kind = Literal["number", "category", "boolean", "date", "text", "ignore"]
ROWS = 10_000
"""First rows, from which kinds are inferred."""
BUCKETS = 64
"""Inputs among which the words of a text are spread by their hash."""

MARKS = ("decimal", "thousands", "unit", "values")
"""How a number is written, and which number each of a label's two values is."""


@dataclass
class Column:
    """A column of a table."""

    name: str
    kind: Kind
    reason: str
    width: int = 1
    """Inputs that it becomes."""
    format: str | None = None
    """Of dates, by its name in `transform.DATES`."""
    decimal: str | None = "."
    """None: its first cells are whole and below 1,000, so that 1.234 may be a thousand."""
    thousands: str | None = None
    unit: str | None = None
    """Sign or unit at a number, which is left off."""
    values: dict[str, int] = field(default_factory=dict)
    """Number of each category, by appearance."""
    takes_numbers: bool = False
    """Whether a reader may parse its cells as numbers itself."""

    def plan(self) -> dict[str, Any]:
        """Return what `transform` needs to encode a cell."""
        return {key: value for key, value in asdict(self).items() if key not in {"reason", "takes_numbers"}}


@dataclass
class TableSchema:
    """The columns of a table, of which those that are not ignored are inputs, in order."""

    columns: list[Column]
    target_columns: list[Column]
    """Those to predict; `values` of one of several labels says which of its two values is 1."""
    reading: dict[str, Any] = field(default_factory=dict)
    """How a text file is read: delimiter, encoding."""
    takes_missing: bool = False

    @property
    def targets(self) -> list[str]:
        """Names of the columns to predict."""
        return [column.name for column in self.target_columns]

    @property
    def features(self) -> list[Column]:
        """The columns to predict from."""
        return [column for column in self.columns if column.kind != "ignore"]

    @property
    def width(self) -> int:
        """Inputs of a row."""
        return sum(column.width for column in self.features)

    @property
    def kinds(self) -> dict[str, str]:
        """Kind by column, as `data.args.columns` takes it."""
        return {column.name: column.kind for column in self.columns}

    def record(self) -> list[dict[str, str]]:
        """Return name, kind and reason of each column, for the evidence."""
        return [{"name": one.name, "kind": one.kind, "reason": one.reason} for one in self.columns]

    def shipped(self, known: Mapping[str, set[int]]) -> dict[str, Any]:
        """Return what `predict.py` needs, as JSON; of categories those that the train split had."""
        plans = [column.plan() for column in self.features]
        for plan in plans:
            met = known.get(plan["name"], set())
            plan["values"] = {name: code for name, code in plan["values"].items() if code in met}
        marks = {one.name: {key: getattr(one, key) for key in MARKS} for one in self.target_columns}
        found = {**self.reading, "targets": self.targets, "target_marks": marks}
        return {**found, "takes_missing": self.takes_missing, "columns": plans}
