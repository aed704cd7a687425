"""Slices and groups of a project's evaluation gate, as the clean room's order has them: columns, encoded values."""

from __future__ import annotations

import re
from datetime import date
from typing import Any, NamedTuple

from trainwright.tools.ledger.events import RunEvaluated
from trainwright.trainer.base.errors import ConfigurationError, near_matches
from trainwright.trainer.config import TrainingConfig
from trainwright.trainer.run.evidence import Data

JOIN = " & "
TEST = re.compile(r"\s*(?P<name>.+?)\s*(?P<test>!=|<=|>=|=|<|>)\s*(?P<value>.+?)\s*")
EQUAL = ("=", "!=")
DOCUMENT = "configs/pipeline.md"
EPOCH = date(1970, 1, 1).toordinal()
BOOLEANS = {"false": 0.0, "true": 1.0}
WORDS = {"true": ("true", "yes", "t", "y", "1"), "false": ("false", "no", "f", "n", "0")}
"""As `trainer/data/table/transform.py` reads the cells of a table, which is shipped by itself."""
VALUES = {
    "boolean": "The column holds true and false (or yes and no): give one.",
    "date": "The column holds dates: write one as 2026-11-23.",
}


class SliceColumn(NamedTuple):
    """A column that slices can name."""

    place: dict[str, Any]
    """Where its numbers are among the fixed rows, as the clean room's order has it."""
    codes: dict[str, float]
    """Code of each value that is text; empty where the column holds numbers."""
    kind: str = "number"
    """number, category, boolean or date."""


def slice_orders(config: TrainingConfig, data: Data) -> dict[str, list[dict[str, Any]]]:
    """Return `slices` and `groups` of the clean room's order; empty where the project bounds none.

    Raises:
        ConfigurationError: a slice names a column or a value that the data has not.
    """
    gate = config.evaluation_gate
    if gate is None or not (gate.slices or gate.groups):
        return {}
    columns = slice_columns(config, data)
    groups = []
    for name in gate.groups:
        column = _known(columns, name, f"evaluation_gate.groups.{name}")
        named = BOOLEANS if column.kind == "boolean" else column.codes
        values = {f"{code:g}": text for text, code in named.items()}
        groups.append({"name": name, **column.place, "values": values})
    return {"slices": [slice_order(name, columns) for name in gate.slices], "groups": groups}


def slice_columns(config: TrainingConfig, data: Data) -> dict[str, SliceColumn]:
    """Return the columns that slices can name, by name: the features, the target by its classes, several by name."""
    kinds = {column["name"]: column["kind"] for column in data.columns or []}
    found = {
        name: SliceColumn({"column": place}, _codes(data.categories.get(name, [])), kinds.get(name, "number"))
        for name, place in data.places.items()
    }
    target = config.data.args.get("target") if config.data is not None else None
    kind = "number" if data.class_names is None else "boolean"
    for place, name in enumerate(data.target_names or []):
        found[name] = SliceColumn({"of": "target", "column": place}, {}, kind)
    if data.class_names and not data.target_names:
        name = target if isinstance(target, str) else "target"
        found[name] = SliceColumn({"of": "target"}, _codes(data.class_names))
    return found


def metrics_of_targets(evaluated: RunEvaluated | None, split: str) -> dict[str, dict[str, float]]:
    """Return the certified metrics of each of several targets of a split by name; empty where none are known."""
    found = [] if evaluated is None or evaluated.problem else evaluated.splits.get(split, {}).get("targets", [])
    return {one["name"]: one["metrics"] for one in found}


def _codes(values: list[str]) -> dict[str, float]:
    return {value: float(code) for code, value in enumerate(values)}


def slice_order(text: str, columns: dict[str, SliceColumn]) -> dict[str, Any]:
    """Return {name, tests} of a slice as the clean room takes it. Raises ConfigurationError as `slice_orders`."""
    key = f"evaluation_gate.slices.{text}"
    tests = []
    for part in text.split(JOIN):
        read = TEST.fullmatch(part)
        if read is None:
            raise ConfigurationError(
                f"{key}: {part!r} is no test of a column.",
                remedy="Write plan=basic, age>=65, or several joined by ' & '.",
                document=DOCUMENT,
            )
        column = _known(columns, read["name"], key)
        value = _value(read["value"], column, key)
        if column.codes and read["test"] not in EQUAL:
            raise ConfigurationError(
                f"{key}: the values of {read['name']!r} have no order, so none is {read['test']} another.",
                remedy=f"Write {read['name']}={read['value']}, or != for all others.",
                document=DOCUMENT,
            )
        tests.append({"name": read["name"], **column.place, "test": read["test"], "value": value})
    return {"name": text, "tests": tests}


def _known(columns: dict[str, SliceColumn], name: str, key: str) -> SliceColumn:
    if name in columns:
        return columns[name]
    raise ConfigurationError(
        f"{key}: the fixed rows have no column {name!r}.{near_matches(name, list(columns))}",
        remedy=f"Columns: {', '.join(list(columns)[:20]) or 'none with a name: slices are for tables'}.",
        document=DOCUMENT,
    )


def _value(text: str, column: SliceColumn, key: str) -> float:
    try:
        return _read(text, column)
    except (ValueError, KeyError, StopIteration) as error:
        known = f"Values: {', '.join(list(column.codes)[:20])}."
        raise ConfigurationError(
            f"{key}: {text!r} is no value of the column.{near_matches(text, list(column.codes))}",
            remedy=known if column.codes else VALUES.get(column.kind, "The column holds numbers: give one."),
            document=DOCUMENT,
        ) from error


def _read(text: str, column: SliceColumn) -> float:
    """Return a value as the fixed rows hold it. Raises ValueError, KeyError or StopIteration for what is none."""
    if column.codes:
        return column.codes[text]
    if column.kind == "date":
        return float(date.fromisoformat(text).toordinal() - EPOCH)
    if column.kind == "boolean":
        return next(BOOLEANS[name] for name, words in WORDS.items() if text.lower() in words)
    return float(text)
