"""Projection of the ledger for one project, read once. Rows are only an index: where they differ, this holds."""

from __future__ import annotations

import json
from collections import defaultdict
from contextlib import suppress
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, NamedTuple

from sqlalchemy import select

from trainwright.tools.workspace.tables import LedgerEntry

if TYPE_CHECKING:
    from collections.abc import Iterable

    from sqlalchemy.orm import Session

    from trainwright.tools.workspace.tables import ConfigVersion, Project, Run

MOVED = "code_root_moved"
"""Kind of the entry that points a project to the folder that its code was moved to."""
PROJECT_COLUMNS = ("goal", "limits", "intent", "code_root")
SINCE_CREATED = ("created_at",)
"""Columns that entries of earlier releases do not tell; where one does, they are compared as well."""
RUN_COLUMNS = ("kind", "label", "seed", "config_digest", "base_config_digest", "source_run", "study")
RUN_LATER = (*SINCE_CREATED, "idempotency_key")
CONFIGURATION_LATER = (*SINCE_CREATED, "reason")


def as_told(value: Any) -> Any:
    """Return a column's value as the ledger keeps it: a moment in ISO 8601, UTC, which SQLite leaves out."""
    if not isinstance(value, datetime):
        return value
    return (value.astimezone(UTC) if value.tzinfo else value.replace(tzinfo=UTC)).isoformat()


def changed_columns(row: Any, body: dict[str, Any], names: Iterable[str], later: Iterable[str] = ()) -> list[str]:
    """Return the names of the row's columns that an entry tells otherwise; of `later` only those that it tells."""
    told = [*names, *(name for name in later if name in body)]
    return [name for name in told if as_told(getattr(row, name)) != body.get(name)]


PRUNED = "pruned"
"""Kind of the entry that keeps digest and size of weights which were deleted to make room: their tombstone."""


class Tombstone(NamedTuple):
    """What is left of a checkpoint whose weights were deleted."""

    digest: str
    """Of its manifest."""
    sequence: int
    """The ledger entry."""


class ProjectFacts:
    """The project's own entries: what it was made with, its configurations, its runs and their seals."""

    def __init__(self, session: Session, project: str, *, before: int | None = None) -> None:
        self._before = before
        self.created: dict[str, Any] = {}
        """Goal, limits, intent, code_root."""
        self.configurations: dict[int, dict[str, Any]] = {}
        """Version number to {digest, values}."""
        self.started: dict[str, dict[str, Any]] = {}
        """Run id to what it was started as, in order."""
        self.seals: dict[str, dict[str, Any]] = {}
        """Run id to its seal; a resumed run has none until it has ended again."""
        self.run_keys: dict[str, list[str | None]] = defaultdict(list)
        """Run id to the public key of each of its attempts; None where another launcher started the worker."""
        self.resumed: dict[str, dict[str, Any]] = {}
        """Run id to its latest resuming: the attempt, and the limits that it reserved (None: it tells of none)."""
        self.resealed: list[str] = []
        """Runs sealed twice without having been resumed: someone wanted an edit to count."""
        self.pruned: dict[str, dict[str, Tombstone]] = defaultdict(dict)
        """Run id to the tombstones of its checkpoints by name. Those written after `before` count too: the weights
        were compared with their digests before they were deleted, so an earlier decision found them whole."""
        self.entries: dict[str, list[tuple[int, dict[str, Any]]]] = defaultdict(list)
        """Kind to (sequence, body) of the entries before `before`, in order; without those that were damaged."""
        self.damaged: set[str] = set()
        """Kinds of the entries that are no JSON."""
        query = select(LedgerEntry.sequence, LedgerEntry.kind, LedgerEntry.body).where(LedgerEntry.project == project)
        if before is not None:  # as it stood when that entry was written
            query = query.where((LedgerEntry.sequence < before) | (LedgerEntry.kind == PRUNED))
        for sequence, kind, text in session.execute(query.order_by(LedgerEntry.sequence)):
            try:
                body = json.loads(text)
            except (ValueError, TypeError, RecursionError):
                self.damaged.add(kind)
                continue  # an entry that was damaged says nothing; `broken_links` names it
            if self.is_past(sequence):
                self.entries[kind].append((sequence, body))
            with suppress(ValueError, KeyError, TypeError, AttributeError, RecursionError):  # nor does such a one
                self._take(kind, body, sequence)

    def _take(self, kind: str, body: dict[str, Any], sequence: int) -> None:
        if kind == "project_created" and not self.created:
            self.created = body
        elif kind == MOVED:
            self.created = self.created | {"code_root": body["code_root"]}
        elif kind == "config_version":
            self.configurations.setdefault(body["number"], body)
        elif kind == "run_started":
            self.started.setdefault(body["run_id"], body)
            self.run_keys[body["run_id"]].append(body.get("run_key"))
        elif kind == "run_resumed":
            self.seals.pop(body["run_id"], None)
            self.pruned.pop(body["run_id"], None)  # what it writes from now on is not what was deleted
            self.run_keys[body["run_id"]].append(body.get("run_key"))
            limits = body.get("permit", {}).get("reserved", {}).get("limits")
            self.resumed[body["run_id"]] = {"attempt": body.get("attempt", 0), "limits": limits}
        elif kind == "run_sealed" and body["run_id"] in self.seals:
            self.resealed.append(body["run_id"])
        elif kind == "run_sealed":
            self.seals[body["run_id"]] = body
        elif kind == PRUNED:
            for gone in body["checkpoints"]:
                self.pruned[gone["run_id"]][gone["name"]] = Tombstone(gone["digest"], sequence)

    def is_past(self, sequence: int) -> bool:
        """Return whether an entry stood in the ledger at the moment that these facts are of."""
        return self._before is None or sequence < self._before

    def project_differences(self, row: Project) -> list[str]:
        """Return one sentence for everything in the project's row that the ledger tells otherwise."""
        if not self.created:
            return [f"project {row.name} has no ledger entry"]
        changed = changed_columns(row, self.created, PROJECT_COLUMNS, SINCE_CREATED)
        return [f"project {row.name}: {name} was changed in the database" for name in changed]

    def configuration_differences(self, row: ConfigVersion) -> list[str]:
        """Return one sentence if the version's row is not what the ledger recorded."""
        body = self.configurations.get(row.number)
        what = f"project {row.project}: configuration version {row.number}"
        if body is None:
            return [f"{what} has no ledger entry"]
        changed = changed_columns(row, body, ("values", "digest"), CONFIGURATION_LATER)
        return [f"{what} was changed in the database: {', '.join(changed)}"] if changed else []

    def run_differences(self, row: Run) -> list[str]:
        """Return one sentence for every column of a run's row that the ledger tells otherwise."""
        body = self.started.get(row.id)
        if body is None:
            return [f"run {row.id} has no ledger entry of its start"]
        seal = self.seals.get(row.id)
        changed = changed_columns(row, body, RUN_COLUMNS, RUN_LATER)
        changed += changed_columns(row, seal or {"ended_at": None}, (), ("ended_at",))
        problems = [f"run {row.id}: {name} was changed in the database" for name in changed]
        if row.sealed != (seal is not None):
            problems.append(f"run {row.id}: sealed was changed in the database")
        elif seal is not None and row.state != seal["state"]:
            problems.append(f"run {row.id}: state was changed in the database")
        return problems
