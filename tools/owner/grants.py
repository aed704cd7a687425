"""Grants of the owner that hold, from ledger entries and the owner's settings alone.

`verify` derives old verdicts under the settings of their time, so nothing here looks at anything else.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from pydantic import ValidationError

from trainwright.tools.owner.grant import NO_OPERATIONS, Wish
from trainwright.tools.workspace.settings import LEAST

if TYPE_CHECKING:
    from trainwright.tools.workspace import Settings

DECISION = "owner_decision"
SETTINGS = "settings"
"""The way of a grant that stands in settings.yaml."""


def standing_grants(decisions: Iterable[dict[str, Any]], settings: Settings) -> list[Wish]:
    """Return the wishes that are granted and hold, from the bodies of a project's `owner_decision` entries in order."""
    return [wish for wish, _ in _standing(decisions, settings)]


def operations(grants: Iterable[Wish]) -> list[str]:
    """Return the non-deterministic operations among grants, sorted."""
    return sorted({wish.name for wish in grants if wish.kind == "exemption"} - NO_OPERATIONS)


def granting(decisions: Iterable[dict[str, Any]], settings: Settings, kind: str) -> dict[str, Any]:
    """Return who granted the newest wish of a kind that holds (way, user, terminal, …); empty where none does."""
    found = [by for wish, by in _standing(decisions, settings) if wish.kind == kind]
    return found[-1] if found else {}


def by_whom(by: dict[str, Any]) -> str:
    """Return who decided and where, with a space before: ` by ada at a terminal`."""
    who = f" by {by['user']}" if "user" in by else ""
    where = {SETTINGS: " in settings.yaml", "terminal": " at a terminal", "elicitation": " in the agent's client"}
    is_option = bool(who) and by.get("terminal") is None and by.get("way") == "terminal"
    return who + (" by an option of the command" if is_option else where.get(str(by.get("way")), ""))


def accepted_alerts(grants: Iterable[Wish]) -> set[str]:
    """Return the ids of the alerts that the owner accepts among grants."""
    return {wish.name for wish in grants if wish.kind == "alert"}


def accepted_values(grants: Iterable[Wish]) -> list[float]:
    """Return the values of the goal's metric from which on the owner accepts the result, in order of the grants."""
    return [wish.value for wish in grants if wish.kind == "acceptance" and wish.value is not None]


def goal_under(goal: dict[str, Any], grants: Iterable[Wish]) -> dict[str, Any]:
    """Return the goal that holds: the project's, with the target of the newest revision that the owner granted."""
    targets = [wish.value for wish in grants if wish.kind == "goal" and wish.value is not None]
    return {**goal, "target": targets[-1]} if targets else goal


def holds(body: dict[str, Any], wish: Wish, settings: Settings) -> bool:
    """Return whether a decision grants its wish now.

    It lapses when the owner accepts answers of its way no more, and a limit's when the owner has lowered the limit
    since.
    """
    by = body.get("by", {})
    way = by.get("way")
    accepted = body.get("request") in settings.grants if way == SETTINGS else way in settings.approvals
    return body.get("granted") is True and accepted and not _is_tightened(wish, by, settings)


def _is_tightened(wish: Wish, by: dict[str, Any], settings: Settings) -> bool:
    """Whether the owner's own limit has become stricter since it was granted."""
    if wish.kind != "limit":
        return False
    present = getattr(settings.limits, wish.name)
    before = by.get("above", present)
    return bool(present > before if wish.name in LEAST else present < before)


def _standing(decisions: Iterable[dict[str, Any]], settings: Settings) -> list[tuple[Wish, dict[str, Any]]]:
    """Return the wishes that hold, each with who granted it."""
    first: dict[str, dict[str, Any]] = {}
    for body in decisions:
        first.setdefault(str(body.get("request")), body)  # a second answer changes nothing
    read = [(_wish(body), body) for body in first.values()]
    return [(wish, dict(body.get("by", {}))) for wish, body in read if wish and holds(body, wish, settings)]


def _wish(body: dict[str, Any]) -> Wish | None:
    try:
        return Wish.model_validate(body["wish"])
    except (KeyError, ValidationError):
        return None
