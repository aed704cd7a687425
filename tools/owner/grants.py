"""Grants of the owner that are in force, from ledger entries and the owner's settings alone.

`verify` derives old verdicts under the settings of their time, so nothing here reads anything else.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from pydantic import ValidationError

from trainwright.tools.owner.grant import NO_OPERATIONS, Grant
from trainwright.tools.workspace import Settings
from trainwright.tools.workspace.settings import LEAST

DECISION = "owner_decision"
SETTINGS = "settings"
"""The way of a grant given in settings.yaml."""


def standing_grants(decisions: Iterable[dict[str, Any]], settings: Settings) -> list[Grant]:
    """Return the grants in force, from the bodies of a project's `owner_decision` entries in order."""
    return [grant for grant, _ in _standing(decisions, settings)]


def operations(grants: Iterable[Grant]) -> list[str]:
    """Return the non-deterministic operations among grants, sorted."""
    return sorted({grant.name for grant in grants if grant.kind == "exemption"} - NO_OPERATIONS)


def granting(decisions: Iterable[dict[str, Any]], settings: Settings, kind: str) -> dict[str, Any]:
    """Return who gave the newest grant of a kind in force (way, user, terminal, …); empty if there is none."""
    found = [by for grant, by in _standing(decisions, settings) if grant.kind == kind]
    return found[-1] if found else {}


def by_whom(by: dict[str, Any]) -> str:
    """Return who decided and where, with a space before: ` by ada at a terminal`."""
    who = f" by {by['user']}" if "user" in by else ""
    where = {SETTINGS: " in settings.yaml", "terminal": " at a terminal", "elicitation": " in the agent's client"}
    is_option = bool(who) and by.get("terminal") is None and by.get("way") == "terminal"
    return who + (" by an option of the command" if is_option else where.get(str(by.get("way")), ""))


def accepted_alerts(grants: Iterable[Grant]) -> set[str]:
    """Return the ids of the alerts that the owner accepts among grants."""
    return {grant.name for grant in grants if grant.kind == "alert"}


def accepted_values(grants: Iterable[Grant]) -> list[float]:
    """Return the values of the goal's metric from which the owner accepts the result, in order of the grants."""
    return [grant.value for grant in grants if grant.kind == "acceptance" and grant.value is not None]


def goal_under(goal: dict[str, Any], grants: Iterable[Grant]) -> dict[str, Any]:
    """Return the goal in force: the project's, with the target of the newest revision that the owner granted."""
    targets = [grant.value for grant in grants if grant.kind == "goal" and grant.value is not None]
    return {**goal, "target": targets[-1]} if targets else goal


def holds(body: dict[str, Any], grant: Grant, settings: Settings) -> bool:
    """Return whether a decision's grant is in force.

    It lapses when the owner no longer accepts answers of its way, and a limit's when the owner has lowered the limit
    since.
    """
    by = body.get("by", {})
    way = by.get("way")
    accepted = body.get("request") in settings.grants if way == SETTINGS else way in settings.approvals
    return body.get("granted") is True and accepted and not _is_tightened(grant, by, settings)


def _is_tightened(grant: Grant, by: dict[str, Any], settings: Settings) -> bool:
    """Whether the owner's own limit has become stricter since it was granted."""
    if grant.kind != "limit":
        return False
    present = getattr(settings.limits, grant.name)
    before = by.get("above", present)
    return bool(present > before if grant.name in LEAST else present < before)


def _standing(decisions: Iterable[dict[str, Any]], settings: Settings) -> list[tuple[Grant, dict[str, Any]]]:
    """Return the grants in force, each with who gave it."""
    first: dict[str, dict[str, Any]] = {}
    for body in decisions:
        first.setdefault(str(body.get("request")), body)  # a second answer changes nothing
    read = [(grant_of(body), body) for body in first.values()]
    return [(grant, dict(body.get("by", {}))) for grant, body in read if grant and holds(body, grant, settings)]


def grant_of(body: dict[str, Any]) -> Grant | None:
    """Return what a request, or an answer to one, is about; None where that cannot be read."""
    try:
        return Grant.model_validate(body["wish"])
    except (KeyError, ValidationError):
        return None
