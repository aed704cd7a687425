"""Moves of a model's aliases, derived again: each by its gate, by the owner's grant, or back."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from trainwright.tools.ledger.aliases import PRODUCTION, aliases_after
from trainwright.tools.ledger.events import ModelPromoted, ModelRegistered
from trainwright.tools.verification.findings import Case, Found, found

if TYPE_CHECKING:
    from trainwright.tools.ledger.aliases import Move


def verify_promotions(case: Case) -> Found:
    """Compare every move with the moves and versions before it, and with the checks or the grant that allowed it."""
    moved = [(entry, body) for entry, body in case.of(ModelPromoted.name) if body["outcome"] == "moved"]
    problems = []
    for entry, body in moved:
        before = [other for at, other in moved if at.project == entry.project and at.sequence < entry.sequence]
        known = _before(case, ModelRegistered.name, entry)
        faults = _faults(body, before, {one["version"] for one in known})
        if body.get("grant") and body["grant"] not in _granted(case, entry, body):
            faults.append("the owner's grant that it names was not given")
        problems += [f"ledger entry {entry.sequence}: {body['alias']} moved, and {fault}" for fault in faults]
    return len(moved), found("verdict", problems)


def _faults(body: Move, before: list[Move], known: set[int]) -> list[str]:
    held, version = aliases_after(before).get(body["alias"]), body["version"]
    faults = [] if version is None or version in known else [f"no version {version} was registered"]
    if body["before"] != held:
        faults.append(f"it was at {held} before, not at {body['before']}")
    is_back = version in {move["version"] for move in before if move["alias"] == body["alias"]}
    checks = body.get("checks", [])
    is_open = bool(checks) and all(check["passed"] for check in checks)
    if body["alias"] == PRODUCTION and not (is_back or is_open or body.get("grant")):
        faults.append("its gate had not passed")
    return faults


def _before(case: Case, kind: str, entry: Any) -> list[dict[str, Any]]:
    return [body for other, body in case.of(kind) if other.project == entry.project and other.sequence < entry.sequence]


def _granted(case: Case, entry: Any, body: Move) -> set[str]:
    asked = {"kind": "promotion", "name": body["alias"], "value": float(body["version"])}
    answers = _before(case, "owner_decision", entry)
    return {one["request"] for one in answers if one["granted"] is True and one["wish"] == asked}
