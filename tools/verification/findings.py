"""Findings of verification, and the case that its parts share."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Literal, TypeVar

from sqlalchemy import select
from sqlalchemy.orm import Session

from trainwright.tools.ledger.events import (
    GoalChanged,
    OwnerAnswered,
    ProjectCreated,
    ProjectDeleted,
    read_body,
    read_event,
)
from trainwright.tools.ledger.projection import ProjectFacts
from trainwright.tools.ledger.rows import Rows
from trainwright.tools.ledger.seals import Inspection
from trainwright.tools.workspace import Workspace
from trainwright.tools.workspace.signing import PublicKey
from trainwright.tools.workspace.tables import LedgerEntry
from trainwright.trainer.base.errors import TrainwrightError
from trainwright.trainer.base.records import Frozen

T = TypeVar("T")
Tell = Callable[[str, int, int], None]
"""Called with the kind of comparison, the number done, and their total."""
Where = Literal[
    "ledger", "JSONL", "database", "verdict", "configuration", "run record", "event log", "metrics", "checkpoint",
    "artifact", "checklist", "signature", "release", "version",
    "evaluation", "study",
]  # fmt: skip


class Finding(Frozen):
    """One difference."""

    where: Where
    """The difference from the record."""
    what: str
    """A sentence."""
    counts: bool = True
    """Whether nothing explains the difference; otherwise it is reported, and verification succeeds."""


DELETING = (OwnerAnswered.name, ProjectDeleted.name)
"""Kinds of the entries that delete a project."""
Found = tuple[int, list[Finding]]
"""How many things a part has compared, and its findings."""


def found(where: Where, sentences: list[str]) -> list[Finding]:
    """Return a finding for each sentence."""
    return [Finding(where=where, what=what) for what in sentences]


def derived_again(
    recorded: Collection[tuple[LedgerEntry, dict[str, Any]]],
    what: str,
    differ: Callable[[LedgerEntry, dict[str, Any]], list[str]],
) -> Found:
    """Return what differs between entries and their derivation; one that cannot be derived again is a difference."""
    findings = []
    for entry, body in recorded:
        try:
            said = differ(entry, body)
        except (TrainwrightError, LookupError, ValueError, TypeError, AttributeError, AssertionError) as error:
            said = [f"it cannot be derived again: {error}"]
        head = f"project {entry.project}: {what} (ledger {entry.sequence})"
        findings += found("verdict", [f"{head}: {one}" for one in said])
    return len(recorded), findings


def deleted_projects(entries: Iterable[LedgerEntry]) -> set[str]:
    """Return the projects whose deletion the owner granted and that were deleted after it."""
    granted: set[tuple[str, str]] = set()
    deleted: set[str] = set()
    for entry in entries:
        event = read_event(entry.kind, read_body(entry.body)) if entry.kind in DELETING else None
        if isinstance(event, OwnerAnswered) and event.granted and event.wish.get("kind") == "deletion":
            granted.add((str(event.wish.get("name")), event.request))
        elif isinstance(event, ProjectDeleted) and (str(entry.project), event.request) in granted:
            deleted.add(str(entry.project))
    return deleted


def _nothing(*_: object) -> None:
    return None


@dataclass
class Case:
    """A workspace under verification. The ledger's entries are read once, by kind."""

    session: Session
    workspace: Workspace
    public: PublicKey | None = None
    """The key with which the ledger should be signed."""
    inspection: Inspection = field(default_factory=Inspection)
    tell: Tell = _nothing
    """Called with the kind of comparison, the number done, and their total."""
    evaluates: bool = False
    """Whether the evaluations of releases are computed again."""
    _projects: dict[str, ProjectFacts] = field(default_factory=dict)

    @cached_property
    def entries(self) -> list[LedgerEntry]:
        """All entries in order."""
        return list(self.session.scalars(select(LedgerEntry).order_by(LedgerEntry.sequence)))

    @cached_property
    def bodies(self) -> list[tuple[LedgerEntry, dict[str, Any]]]:
        """All entries of projects that were not deleted; one whose body is not JSON any more counts as missing."""
        deleted = deleted_projects(self.entries)
        return [(entry, body) for entry, body in self.everything if entry.project not in deleted]

    @cached_property
    def everything(self) -> list[tuple[LedgerEntry, dict[str, Any]]]:
        """All entries, deleted projects' too."""
        pairs = ((entry, read_body(entry.body)) for entry in self.entries)
        return [(entry, body) for entry, body in pairs if isinstance(body, dict)]

    @cached_property
    def rows(self) -> Rows:
        """The rows of all projects that were not deleted, derived from the ledger."""
        rows = Rows()
        for project in dict.fromkeys(str(entry.project) for entry, _ in self.bodies if entry.project is not None):
            rows.update(self.project(project).rows)
        return rows

    def each(self, what: str, items: Collection[T]) -> Iterator[T]:
        """Give the items one after another, and report how many are compared."""
        for done, item in enumerate(items):
            self.tell(what, done, len(items))
            yield item

    def of(self, kind: str) -> list[tuple[LedgerEntry, dict[str, Any]]]:
        """Return the entries of a kind in order."""
        return [(entry, body) for entry, body in self.bodies if entry.kind == kind]

    def goal_before(self, entry: LedgerEntry) -> dict[str, Any]:
        """Return the goal that the entry's project had when it was written."""
        kinds = {ProjectCreated.name, GoalChanged.name}
        of_project = ((one, body) for one, body in self.bodies if one.project == entry.project and one.kind in kinds)
        return next(dict(body["goal"]) for one, body in reversed([*of_project]) if one.sequence < entry.sequence)

    def project(self, name: str) -> ProjectFacts:
        """Return the ledger's projection for one project."""
        if name not in self._projects:
            self._projects[name] = ProjectFacts(self.session, name)
        return self._projects[name]
