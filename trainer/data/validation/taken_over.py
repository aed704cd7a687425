"""Expectations taken over from a Great Expectations suite (JSON) or a pandera schema (YAML), without their libraries.

What has no counterpart here is listed, and reported as not checked.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

Columns = dict[str, dict[str, Any]]


def is_suite(values: Any) -> bool:
    """Return whether these are the values of a Great Expectations suite."""
    return isinstance(values, dict) and isinstance(values.get("expectations"), list)


def is_pandera(values: Any) -> bool:
    """Return whether these are the values of a pandera schema, as it writes them."""
    return isinstance(values, dict) and "schema_type" in values and isinstance(values.get("columns"), dict)


def taken_over(values: Any) -> Any:
    """Return the values as ours, where another library wrote them; else as they are."""
    if is_suite(values):
        return from_suite(values)
    return from_pandera(values) if is_pandera(values) else values


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
    return _whole(columns, rows, left)


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


def from_pandera(values: dict[str, Any]) -> dict[str, Any]:
    """Return the expectations of a pandera schema, with what was not taken over under `not_taken_over`."""
    columns: Columns = {}
    left: list[str] = []
    for name, one in values["columns"].items():
        own: dict[str, Any] = {}
        kind = KINDS.get(str(one.get("dtype")))
        if kind is not None:
            own["kind"] = kind
        elif one.get("dtype") is not None:
            left.append(f"dtype {one['dtype']} of {name}")
        if not one.get("nullable", False):
            own["nulls_at_most"] = 0.0
        if one.get("unique"):
            own["unique"] = True
        if one.get("required") is False:
            own["required"] = False
        left += _add_checks(own, name, one.get("checks"))
        columns[name] = own
    if values.get("index"):
        left.append("the index")
    left += [f"check {name} of the table" for name in _named(values.get("checks"))]
    rows = {"unique_together": [values["unique"]]} if isinstance(values.get("unique"), list) else {}
    strict = {"other_columns": "refused"} if values.get("strict") is True else {}
    return _whole(columns, rows, left) | strict


def _add_checks(own: dict[str, Any], column: str, checks: Any) -> list[str]:
    left = []
    for name, given in _named(checks).items():
        found = _check(name, given if isinstance(given, dict) else {}) if name in RANGED else _single(name, given)
        if found is None:
            left.append(f"check {name} of {column}")
        else:
            own.update(found)
    return left


RANGED = {"in_range": ("min", "max"), "str_length": ("length_at_least", "length_at_most")}
SINGLE = {
    "greater_than_or_equal_to": ("min", "min_value"),
    "less_than_or_equal_to": ("max", "max_value"),
    "isin": ("one_of", "allowed_values"),
    "notin": ("none_of", "forbidden_values"),
    "str_contains": ("pattern", "pattern"),
    "str_matches": ("pattern", "pattern"),
}


def _check(name: str, given: dict[str, Any]) -> dict[str, Any] | None:
    if given.get("include_min") is False or given.get("include_max") is False:
        return None
    found = dict(zip(RANGED[name], (given.get("min_value"), given.get("max_value")), strict=True))
    return {key: value for key, value in found.items() if value is not None}


def _single(name: str, given: Any) -> dict[str, Any] | None:
    if name not in SINGLE:
        return None
    key, argument = SINGLE[name]
    value = given.get(argument) if isinstance(given, dict) else given
    if value is None:
        return None
    return {key: f"^(?:{value})" if name == "str_matches" else value}


def _named(checks: Any) -> dict[str, Any]:
    """Return checks by name: pandera writes a mapping, and since 0.24 a list of mappings with `options.check_name`."""
    if isinstance(checks, dict):
        return checks
    found = {}
    for one in checks or []:
        options = one.get("options") or {}
        rest = {key: value for key, value in one.items() if key != "options"}
        found[str(options.get("check_name"))] = rest.get("value", rest) if set(rest) <= {"value"} else rest
    return found


def _whole(columns: Columns, rows: dict[str, Any], left: list[str]) -> dict[str, Any]:
    found: dict[str, Any] = {"columns": columns}
    return found | ({"rows": rows} if rows else {}) | ({"not_taken_over": left} if left else {})
