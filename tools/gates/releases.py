"""Releases: what passing the last gate seals for ever, and the explicit beginning of the next one (PHASE-11).

A release is its finalization decision: the ledger holds its number, its date, the earlier decisions that it was sealed
with and the digests of its files. Nothing that changes later takes it back; working on begins the next release, whose
decisions count from `release_begun` on.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from trainwright.tools.gates.phases import Phase

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

BEGUN = "release_begun"
"""Kind of the ledger entry with which a project is worked on after a release."""
CARRIED = "carried_over"
"""Kind of the entry that names the replay by which a plan's evidence holds under other surroundings."""
KEPT = "releases"
"""Folder of the project in which earlier releases stand, each under its number."""

Entry = tuple[int, dict[str, Any]]
"""Ledger sequence and body."""


class Release(NamedTuple):
    """One finished state of a project."""

    number: int
    sequence: int
    """Of the finalization decision in the ledger."""
    decision: dict[str, Any]
    """Its body."""

    @property
    def date(self) -> str:
        """The day on which it was sealed, in UTC; empty where an early version did not record it."""
        return str(self.decision.get("created_at", ""))[:10]

    @property
    def files(self) -> dict[str, str]:
        """Digest of every file of the final model, by its name in the project folder."""
        return dict(self.decision["artifacts"])

    def __str__(self) -> str:
        """In words: `release 1 of 2026-11-22`."""
        return f"release {self.number}{f' of {self.date}' if self.date else ''}"


def releases(decisions: Iterable[Entry], begun: Iterable[int]) -> list[Release]:
    """Return a project's releases in order.

    Args:
        decisions: its gate decisions.
        begun: sequences of its `release_begun` entries, by which releases are numbered.
    """
    starts = sorted(begun)
    found: dict[int, Release] = {}
    for sequence, body in decisions:
        if body["phase"] == Phase.FINALIZATION and body["outcome"] != "refused":
            number = 1 + sum(start < sequence for start in starts)
            found[number] = Release(number, sequence, body)
    return [found[number] for number in sorted(found)]


def folder_of(folder: Path, number: int) -> Path:
    """Return where an earlier release stands in the project folder once a later one has taken its place."""
    return folder / KEPT / str(number)
