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
        "environment": _environments(records),
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


def _environments(records: Mapping[str, RunRecord]) -> dict[str, str | None]:
    """Return the fingerprints; none where they differ by facts alone that an earlier version did not record."""
    first, *others = records.values()
    if all(_same_as_far_as_known(first, other) for other in others):
        return {}
    return {name: record.environment.fingerprint for name, record in records.items()}


def _same_as_far_as_known(first: RunRecord, other: RunRecord) -> bool:
    if not (first.environment.fingerprint_basis and other.environment.fingerprint_basis):
        return first.environment.fingerprint == other.environment.fingerprint
    return not {*_other_facts(first, other)} - {"driver"}  # which is no part of a fingerprint


def _other_facts(first: RunRecord, other: RunRecord) -> list[str]:
    old, new = first.environment.facts, other.environment.facts
    return sorted(fact for fact in old.keys() & new.keys() if old[fact] != new[fact])


def _hardware(first: RunRecord, other: RunRecord) -> list[str]:
    old, new = first.environment.facts, other.environment.facts
    return [f"{fact}: {_short(old[fact])} -> {_short(new[fact])}" for fact in _other_facts(first, other)]


def _short(value: Any) -> str:
    text = str(value)
    return text if len(text) <= 40 else f"{text[:39]}…"


def unequal(table: dict[str, dict[str, Any]]) -> dict[str, dict[str, Any]]:
    """Keep the rows whose values are not all the same."""
    rows = {key: list(row.values()) for key, row in table.items()}
    return {key: table[key] for key, row in rows.items() if any(value != row[0] for value in row)}
