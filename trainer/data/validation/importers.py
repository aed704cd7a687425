"""Expectations taken over from a Great Expectations suite (JSON), without its library.

What has no counterpart here is listed, and reported as not checked.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

Columns = dict[str, dict[str, Any]]


def is_suite(values: Any) -> bool:
    """Return whether these are the values of a Great Expectations suite."""
    return isinstance(values, dict) and isinstance(values.get("expectations"), list)


def taken_over(values: Any) -> Any:
    """Return a suite's values as ours; other values as they are."""
    return from_suite(values) if is_suite(values) else values


def _between(low: str, high: str) -> Callable[[dict[str, Any]], dict[str, Any]]:
    def read(given: dict[str, Any]) -> dict[str, Any]:
        found = {low: given.get("min_value"), high: given.get("max_value")}
        return {name: value for name, value in found.items() if value is not None}

    return read


def _mean(given: dict[str, Any]) -> dict[str, Any]:
    return {name: float(value) for name, value in _between("mean_at_least", "mean_at_most")(given).items()}


KINDS = {
    "int": "integer", "int8": "integer", "int16": "integer", "int32": "integer", "int64": "integer",
    "INTEGER": "integer", "uint8": "integer", "uint64": "integer",
    "float": "number", "float32": "number", "float64": "number", "FLOAT": "number", "double": "number",
    "str": "text", "string": "text", "object": "text", "STRING": "text", "string[python]": "text",
    "bool": "boolean", "boolean": "boolean", "BOOLEAN": "boolean", "category": "category",
    "datetime64[ns]": "date", "datetime64": "date", "date": "date", "TIMESTAMP": "date", "DATE": "date",
}  # fmt: skip
COLUMN_EXPECTATIONS: dict[str, Callable[[dict[str, Any]], dict[str, Any]]] = {
    "expect_column_to_exist": lambda _: {},
    "expect_column_values_to_not_be_null": lambda given: {"nulls_at_most": round(1.0 - given.get("mostly", 1.0), 6)},
    "expect_column_values_to_be_unique": lambda _: {"unique": True},
    "expect_column_values_to_be_between": _between("min", "max"),
    "expect_column_values_to_be_in_set": lambda given: {"one_of": given["value_set"]},
    "expect_column_values_to_not_be_in_set": lambda given: {"none_of": given["value_set"]},
    "expect_column_values_to_match_regex": lambda given: {"pattern": given["regex"]},
    "expect_column_values_to_be_of_type": lambda given: {"kind": KINDS[given["type_"]]},
    "expect_column_values_to_be_in_type_list": lambda given: {"kind": KINDS[given["type_list"][0]]},
    "expect_column_value_lengths_to_be_between": _between("length_at_least", "length_at_most"),
    "expect_column_value_lengths_to_equal": lambda given: {
        "length_at_least": given["value"], "length_at_most": given["value"],
    },
    "expect_column_unique_value_count_to_be_between": _between("distinct_at_least", "distinct_at_most"),
    "expect_column_mean_to_be_between": _mean,
}  # fmt: skip
WITH_MOSTLY = ("min", "max", "one_of", "none_of", "pattern", "length_at_least", "length_at_most")
STRICT = ("strict_min", "strict_max", "condition_parser", "row_condition", "parse_strings_as_datetimes")


def from_suite(values: dict[str, Any]) -> dict[str, Any]:
    """Return the expectations of a Great Expectations suite, with what was not taken over under `not_taken_over`."""
    columns: Columns = {}
    rows: dict[str, Any] = {}
    left: list[str] = []
    for one in values["expectations"]:
        name = str(one.get("expectation_type") or one.get("type"))
        given = dict(one.get("kwargs") or {})
        told = f"{name} of {given.get('column', 'the table')}"
        if any(given.get(key) for key in STRICT):
            left.append(f"{told}: {', '.join(key for key in STRICT if given.get(key))}")
        elif not (_add_column(columns, name, given) or _add_rows(rows, name, given)):
            left.append(told)
    found: dict[str, Any] = {"columns": columns}
    return found | ({"rows": rows} if rows else {}) | ({"not_taken_over": left} if left else {})


def _add_column(columns: Columns, name: str, given: dict[str, Any]) -> bool:
    read, column = COLUMN_EXPECTATIONS.get(name), given.get("column")
    if read is None or not isinstance(column, str):
        return False
    try:
        found = read(given)
    except (KeyError, IndexError, TypeError, ValueError):
        return False
    own = columns.setdefault(column, {})
    mostly = float(given.get("mostly", 1.0))
    if any(key in own for key in found) or (mostly < 1.0 and not set(found) <= {*WITH_MOSTLY, "nulls_at_most"}):
        return False
    if mostly < 1.0 and set(found) & set(WITH_MOSTLY):
        if own.get("mostly", mostly) != mostly or set(own) & set(WITH_MOSTLY):
            return False  # one share holds for all bounds of a column
        found["mostly"] = mostly
    elif "mostly" in own and set(found) & set(WITH_MOSTLY):
        return False
    own.update(found)
    return True


def _add_rows(rows: dict[str, Any], name: str, given: dict[str, Any]) -> bool:
    if name == "expect_table_row_count_to_be_between":
        rows.update(_between("at_least", "at_most")(given))
    elif name == "expect_table_row_count_to_equal":
        rows.update(at_least=given["value"], at_most=given["value"])
    elif name == "expect_compound_columns_to_be_unique":
        rows.setdefault("unique_together", []).append(given["column_list"])
    elif name.lower() == "expect_column_pair_values_a_to_be_greater_than_b" and given.get("or_equal"):
        rows.setdefault("ordered", []).append([given["column_B"], given["column_A"]])
    else:
        return False
    return True
