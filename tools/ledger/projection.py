"""Projection of the ledger for one project, read once. Rows are only an index: where they differ, this counts."""

from __future__ import annotations

from collections import defaultdict
from contextlib import suppress
from datetime import datetime
from typing import Any, NamedTuple

from sqlalchemy import select
from sqlalchemy.orm import Session

from trainwright.tools.ledger.events import (
    ConfigurationKept,
    Event,
    Pruned,
    RunEvaluated,
    RunResumed,
    RunSealed,
    RunStarted,
    read_body,
    read_event,
)
from trainwright.tools.ledger.rows import Rows
from trainwright.tools.workspace.tables import LedgerEntry


class Tombstone(NamedTuple):
    """What is left of a checkpoint whose weights were deleted."""

    digest: str
    """Of its manifest."""
    sequence: int
    """The ledger entry."""


class ProjectFacts:
    """The project's entries: its creation, its configurations, its runs and their seals."""

    def __init__(self, session: Session, project: str, *, before: int | None = None) -> None:
        self._before = before
        self.rows = Rows()
        """The project's rows as the ledger records them."""
        self.configurations: dict[int, ConfigurationKept] = {}
        """By version number."""
        self.started: dict[str, RunStarted] = {}
        """By run id, in order."""
        self.seals: dict[str, RunSealed] = {}
        """By run id; a resumed run has none until it has ended again."""
        self.evaluations: dict[str, RunEvaluated] = {}
        """By run id: the independent evaluation of what the run exported, of its latest attempt."""
        self.run_keys: dict[str, list[str | None]] = defaultdict(list)
        """Run id to the public key of each of its attempts; None where another launcher started the worker."""
        self.resumed: dict[str, RunResumed] = {}
        """Run id to its latest resuming."""
        self.resealed: list[str] = []
        """Runs sealed twice without having been resumed: someone wanted an edit to count."""
        self.pruned: dict[str, dict[str, Tombstone]] = defaultdict(dict)
        """Run id to the tombstones of its checkpoints by name. Those written after `before` count too: the weights
        were compared with their digests before they were deleted, so an earlier decision found them intact."""
        self.entries: dict[str, list[tuple[int, dict[str, Any]]]] = defaultdict(list)
        """Kind to (sequence, body) of the entries before `before`, in order; without those that were damaged."""
        self.damaged: set[str] = set()
        """Kinds of the entries that are no JSON."""
        columns = (LedgerEntry.sequence, LedgerEntry.time, LedgerEntry.kind, LedgerEntry.body)
        query = select(*columns).where(LedgerEntry.project == project)
        if before is not None:  # as it was when that entry was written
            query = query.where((LedgerEntry.sequence < before) | (LedgerEntry.kind == Pruned.name))
        for sequence, time, kind, text in session.execute(query.order_by(LedgerEntry.sequence)):
            body = read_body(text)
            if body is None:
                self.damaged.add(kind)
                continue  # a damaged entry has no event; `broken_links` names it
            if self.is_past(sequence):
                self.entries[kind].append((sequence, body))
            if (event := read_event(kind, body)) is not None:
                with suppress(ValueError, KeyError, TypeError, AttributeError):  # nor does such a one
                    self._take(event, sequence)
                    self.rows.take(project, datetime.fromisoformat(time), event)

    def _take(self, event: Event, sequence: int) -> None:
        match event:
            case ConfigurationKept():
                self.configurations.setdefault(event.number, event)
            case RunStarted():
                self.started.setdefault(event.run_id, event)
                self.run_keys[event.run_id].append(event.run_key)
            case RunResumed():
                self.seals.pop(event.run_id, None)
                self.evaluations.pop(event.run_id, None)
                self.pruned.pop(event.run_id, None)  # what it writes from now on is not what was deleted
                self.run_keys[event.run_id].append(event.run_key)
                self.resumed[event.run_id] = event
            case RunSealed() if event.run_id in self.seals:
                self.resealed.append(event.run_id)
            case RunSealed():
                self.seals[event.run_id] = event
            case RunEvaluated():
                self.evaluations.setdefault(event.run_id, event)
            case Pruned():
                for gone in event.checkpoints:
                    self.pruned[gone["run_id"]][gone["name"]] = Tombstone(gone["digest"], sequence)

    def attempt(self, run_id: str) -> RunStarted | RunResumed | None:
        """Return the entry of the run's latest attempt; None of a run that never started."""
        return self.resumed.get(run_id) or self.started.get(run_id)

    def permit(self, run_id: str) -> dict[str, Any]:
        """Return the permit of the run's latest attempt; empty of a run that never started."""
        latest = self.attempt(run_id)
        return latest.permit if latest else {}

    def rows_run(self, run_id: str) -> str:
        """Return the smoke run of the planning decision that permitted the run; empty without one."""
        planned = self.permit(run_id).get("decisions", {}).get("planning")
        decided = (body for sequence, body in self.entries.get("gate", []) if sequence == planned)
        return next((str(body.get("rested_on", {}).get("smoke_run", "")) for body in decided), "")

    def overlay(self, run_id: str | None) -> dict[str, Any]:
        """Return a final run's overlay on the final configuration; empty for any other run."""
        start = self.started.get(run_id or "")
        return dict(start.overlay) if start else {}

    def is_past(self, sequence: int) -> bool:
        """Return whether an entry was in the ledger at the moment of this projection."""
        return self._before is None or sequence < self._before
