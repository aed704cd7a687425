"""Aliases of a model's versions, `production` the first of them, as the ledger's moves leave them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from sqlalchemy.orm import Session

from trainwright.tools.ledger.chain import entries
from trainwright.tools.ledger.events import ModelPromoted

PRODUCTION = "production"
ARCHIVED = "archived"
"""A mark rather than an alias: any number of versions have it."""


def moves_of(session: Session, project: str) -> list[ModelPromoted]:
    """Return every move of an alias in order."""
    return moves_among(body for _, body in entries(session, project, ModelPromoted.name))


def moves_among(bodies: Iterable[dict[str, Any]]) -> list[ModelPromoted]:
    """Return the moves among the ledger's entries on them: refused ones moved nothing."""
    return [ModelPromoted.model_validate(body) for body in bodies if body["outcome"] == "moved"]


def aliases_after(moves: list[ModelPromoted]) -> dict[str, int]:
    """Return the version that each alias names: of one alias it is one, by construction."""
    named: dict[str, int] = {}
    for move in moves:
        if move.alias == ARCHIVED:
            continue
        named.pop(move.alias, None)
        if move.version is not None:
            named[move.alias] = move.version
    return named


def in_production(moves: Iterable[tuple[int, dict[str, Any]]]) -> int | None:
    """Return the version in production after the ledger's entries on moves; None for none."""
    return aliases_after(moves_among(body for _, body in moves)).get(PRODUCTION)


def way_back(moves: list[ModelPromoted], alias: str) -> int | None:
    """Return the version to which an alias goes back freely: what its last move replaced, unless that was a way back.

    What was taken back may be put there again through the gate alone: it was taken back for a reason.
    """
    last = next((move for move in reversed(moves) if move.alias == alias), None)
    return last.before if last is not None and not last.back else None


def archived_after(moves: list[ModelPromoted]) -> set[int]:
    """Return the versions that are archived: those put there, until another alias takes them back."""
    found: set[int] = set()
    for move in moves:
        if move.version is not None:
            (found.add if move.alias == ARCHIVED else found.discard)(move.version)
    return found
