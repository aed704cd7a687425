"""Releases, and the surroundings of a plan: those of its smoke run, and those that a short replay carried it over to.

A release is its finalization decision: the ledger holds its number, its date, the earlier decisions that it was sealed
with and the digests of its files. No later change revokes it; working on begins the next release, whose
decisions count from `release_begun` on.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any, NamedTuple

from trainwright.tools.gates.phases import Phase
from trainwright.tools.gates.records import Records, RunRecords
from trainwright.tools.gates.staleness import inherited, unplanned_files
from trainwright.trainer.run import RunKind

BEGUN = "release_begun"
"""Kind of the ledger entry with which a project is worked on after a release."""
CARRIED = "carried_over"
"""Kind of the entry that names the replay by which a plan's evidence holds under other surroundings."""
KEPT = "releases"
"""Folder of the project with its earlier releases, each under its number."""

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
        """The day on which it was sealed, in UTC."""
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
    """Return the path of an earlier release in the project folder once a later one has replaced it."""
    return folder / KEPT / str(number)


def witnesses(evidence: Records, smoke: RunRecords) -> list[RunRecords]:
    """Return the runs under whose surroundings a plan's evidence is valid: its smoke run, and the replays."""
    carried = [body["replay"] for _, body in evidence.entries(CARRIED) if body["smoke_run"] == smoke.id]
    return [smoke, *(run for run_id in carried if (run := evidence.run(run_id)) is not None)]


def other_than_planned(evidence: Records, run: RunRecords) -> list[str]:
    """Return a run's differences from the evidence that planning depends on, or was carried over to."""
    if evidence.smoke is None:
        return ["the plan's smoke run"]
    different = min((inherited(run, witness) for witness in witnesses(evidence, evidence.smoke)), key=len)
    files = unplanned_files(evidence, run, evidence.smoke)
    return different + [f"{name} (new or changed since planning)" for name in files if name not in different]


def holds_now(evidence: Records, run: RunRecords) -> bool:
    """Return whether a run saw the present files, or those of a plan that was carried over to the present."""
    if not evidence.surroundings(run):
        return True
    smoke = evidence.smoke
    carried = smoke is not None and len(witnesses(evidence, smoke)) > 1 and not evidence.surroundings(smoke)
    return carried and not other_than_planned(evidence, run)


def is_short_replay(run: RunRecords) -> bool:
    """Return whether a run's plan was to repeat its source's first steps alone."""
    return run.row.kind == RunKind.REPLAY and run.directory.specification().permit.get("is_short") is True
