"""Lines of a gate's checks: how each comes out, which are met, and which no run has measured yet."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pydantic import BaseModel

if TYPE_CHECKING:
    from collections.abc import Iterable

    from trainwright.tools.gates.evidence import Evidence
    from trainwright.tools.gates.phases import Phase


class CheckLineView(BaseModel):
    """One check of the present gate."""

    id: str
    status: str
    measured: str
    required: str
    was: str | None = None
    """Its status when the gate was last decided, where that was another."""


def is_met(check: CheckLineView) -> bool:
    """Return whether a check needs no action: passed in full, or without a meaning here."""
    return check.status in {"passed", "not_applicable"}


def met_still(checks: list[CheckLineView]) -> dict[int, bool]:
    """Return the places of the checks that are met and were not failed when their gate was last decided."""
    return {place: True for place, check in enumerate(checks) if is_met(check) and check.was != "failed"}


def not_yet(checks: list[CheckLineView]) -> dict[int, bool]:
    """Return the places of the checks behind the first failed one: without a run, nothing has measured them."""
    failed = [place for place, check in enumerate(checks) if check.status == "failed"]
    return dict.fromkeys(failed[1:], True)


def check_lines(checks: Iterable[dict[str, Any]], before: dict[str, str]) -> list[CheckLineView]:
    """Return the lines of checks.

    Args:
        before: the statuses that an earlier decision on the same gate recorded, by check (`decided_before`).
    """
    return [
        CheckLineView(
            id=one["id"],
            status=one["status"],
            measured=one["measured"],
            required=one["required"],
            was=before[one["id"]] if before.get(one["id"], one["status"]) != one["status"] else None,
        )
        for one in checks
    ]


def decided_before(evidence: Evidence, phase: Phase, sequence: int | None = None) -> dict[str, str]:
    """Return the status of each check at the newest decision on a gate, or at the newest before a ledger entry."""
    decided = [
        body for at, body in evidence.decisions if body["phase"] == phase and (sequence is None or at < sequence)
    ]
    return {check["id"]: check["status"] for check in decided[-1]["checks"]} if decided else {}
