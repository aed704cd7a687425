"""Differences of runs beside their configurations: packages by version, code by file, data by split, engine."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping

    from trainwright.tools.training_monitor.record import RunRecord

MOST_NAMED = 8
SHORT = 19
"""Characters of a digest that are shown."""


def identity_differences(records: Mapping[str, RunRecord]) -> dict[str, dict[str, str | None]]:
    """Return, by run, the digests (shortened) that must agree for results to be comparable, where they do not."""
    found: dict[str, dict[str, str | None]] = {
        "environment": {name: record.environment.fingerprint for name, record in records.items()},
        "data": {name: record.data.fingerprint for name, record in records.items()},
        "code": {name: record.code.digest for name, record in records.items()},
        "engine": {name: record.code.engine_digest for name, record in records.items()},
    }
    return unequal({what: {name: each and each[:SHORT] for name, each in one.items()} for what, one in found.items()})


def named_differences(records: Mapping[str, RunRecord]) -> dict[str, list[str]]:
    """Return what differs between the first run and any other, in words: packages, code files, data, hardware.

    At most a few of each are named, the rest is counted.
    """
    first, *others = records.values()
    found: dict[str, list[str]] = {"packages": [], "code": [], "data": [], "hardware": []}
    for other in others:
        found["packages"] += _packages(first, other)
        found["code"] += _files(_code(first), _code(other))
        found["data"] += _data(first, other)
        found["hardware"] += _hardware(first, other)
    distinct = {what: list(dict.fromkeys(lines)) for what, lines in found.items()}
    return {what: _bounded(lines) for what, lines in distinct.items() if lines}


def _bounded(lines: list[str]) -> list[str]:
    more = len(lines) - MOST_NAMED
    return lines if more <= 0 else [*lines[:MOST_NAMED], f"and {more} more"]


def _packages(first: RunRecord, other: RunRecord) -> list[str]:
    old, new = first.environment.packages, other.environment.packages
    if not (old and new):
        return []
    names = sorted(name for name in old.keys() | new.keys() if old.get(name) != new.get(name))
    return [f"{name} {old.get(name, 'absent')} -> {new.get(name, 'absent')}" for name in names]


def _code(record: RunRecord) -> dict[str, str]:
    return record.code.meanings or record.code.files


def _files(old: dict[str, str], new: dict[str, str]) -> list[str]:
    if not (old and new):
        return []
    words = {(True, True): "changed", (True, False): "gone", (False, True): "new"}
    names = sorted(name for name in old.keys() | new.keys() if old.get(name) != new.get(name))
    return [f"{name} {words[name in old, name in new]}" for name in names]


def _data(first: RunRecord, other: RunRecord) -> list[str]:
    lines = _files(first.data.files, other.data.files)
    old, new = first.data.splits, other.data.splits
    for name in old.keys() & new.keys():
        if old[name].fingerprint != new[name].fingerprint:
            lines.append(f"{name} {old[name].size} -> {new[name].size} rows, other content")
    if first.data.preprocessing_digest != other.data.preprocessing_digest:
        lines.append("preprocessing")
    return lines


def _hardware(first: RunRecord, other: RunRecord) -> list[str]:
    old, new = first.environment.fingerprint_basis, other.environment.fingerprint_basis
    keys = sorted(key for key in old.keys() | new.keys() if old.get(key) != new.get(key))
    return [f"{key}: {_short(old.get(key))} -> {_short(new.get(key))}" for key in keys if old and new]


def _short(value: Any) -> str:
    text = str(value)
    return text if len(text) <= 40 else f"{text[:39]}…"


def unequal(table: dict[str, dict[str, Any]]) -> dict[str, dict[str, Any]]:
    """Keep the rows whose values are not all the same."""
    rows = {key: list(row.values()) for key, row in table.items()}
    return {key: table[key] for key, row in rows.items() if any(value != row[0] for value in row)}
