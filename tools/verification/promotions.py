"""Moves of a model's aliases, derived again: each by its gate, by the owner's grant, or back."""

from __future__ import annotations

from typing import Any

from trainwright.tools.ledger.aliases import PRODUCTION, aliases_after, moves_among
from trainwright.tools.ledger.events import ModelPromoted, ModelRegistered
from trainwright.tools.verification.findings import Case, Found, found


def verify_promotions(case: Case) -> Found:
    """Compare every move with the moves and versions before it, and with the checks or the grant that allowed it."""
    moved = [(entry, move) for entry, body in case.of(ModelPromoted.name) for move in moves_among([body])]
    problems = []
    for entry, move in moved:
        before = [other for at, other in moved if at.project == entry.project and at.sequence < entry.sequence]
        known = _before(case, ModelRegistered.name, entry)
        faults = _faults(move, before, {one["version"] for one in known})
        if move.grant and move.grant not in _granted(case, entry, move):
            faults.append("the owner's grant that it names was not given")
        problems += [f"ledger entry {entry.sequence}: {move.alias} moved, and {fault}" for fault in faults]
    return len(moved), found("verdict", problems)


def _faults(move: ModelPromoted, before: list[ModelPromoted], known: set[int]) -> list[str]:
    held, version = aliases_after(before).get(move.alias), move.version
    faults = [] if version is None or version in known else [f"no version {version} was registered"]
    if move.before != held:
        faults.append(f"it was at {held} before, not at {move.before}")
    is_back = version in {one.version for one in before if one.alias == move.alias}
    is_open = bool(move.checks) and all(check["passed"] for check in move.checks)
    if move.alias == PRODUCTION and not (is_back or is_open or move.grant):
        faults.append("its gate had not passed")
    return faults


def _before(case: Case, kind: str, entry: Any) -> list[dict[str, Any]]:
    return [body for other, body in case.of(kind) if other.project == entry.project and other.sequence < entry.sequence]


def _granted(case: Case, entry: Any, move: ModelPromoted) -> set[str]:
    asked = {"kind": "promotion", "name": move.alias, "value": float(move.version or 0)}
    answers = _before(case, "owner_decision", entry)
    return {one["request"] for one in answers if one["granted"] is True and one["wish"] == asked}
