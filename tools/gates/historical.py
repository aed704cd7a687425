"""Historical evidence: as of a recorded decision, so that `verify` can derive it again (GATE-3).

The ledger orders the entries before it; files are read as they are now. Things that may rightly change (checklist, the
owner's settings, the user's code, data and packages) are taken from the decision's `circumstances`.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from functools import cached_property
from typing import Any

from sqlalchemy import select
from sqlalchemy.orm import Session

from trainwright.tools.gates.checklist import CheckLine
from trainwright.tools.gates.evidence import Evidence
from trainwright.tools.gates.phases import Phase
from trainwright.tools.gates.records import RunRecords
from trainwright.tools.gates.run_evidence import RunEvidence
from trainwright.tools.ledger import Inspection
from trainwright.tools.workspace import Settings, Workspace
from trainwright.tools.workspace.tables import LedgerEntry
from trainwright.trainer.run import RunStatus
from trainwright.trainer.run.evidence import P


class MovedOnError(Exception):
    """A run had not ended when the decision was made, or was resumed after it: its record of that time is gone."""


class PastRun(RunEvidence):
    """One run's record as it was sealed before a decision."""

    moved_on = False
    """Whether the record has rightly changed since: the run had not ended, or was resumed."""

    @cached_property
    def status(self) -> RunStatus:
        """The run's state at that time. Raises MovedOnError."""
        self._check_still_there()
        return self.directory.status()

    @cached_property
    def differences(self) -> list[str]:
        """Changes since the run was sealed. Raises MovedOnError."""
        self._check_still_there()
        return super().differences

    def part(self, kind: type[P]) -> P:
        """Return one part of the evidence. Raises MovedOnError."""
        self._check_still_there()
        return super().part(kind)

    def _check_still_there(self) -> None:
        if self.moved_on:
            raise MovedOnError(self.id)


class PastEvidence(Evidence):
    """The evidence as of a gate decision, an entry of the ledger with this body."""

    def __init__(
        self, session: Session, workspace: Workspace, decision: LedgerEntry, body: dict[str, Any],
        inspection: Inspection,
    ) -> None:  # fmt: skip
        super().__init__(session, workspace, str(decision.project), before=decision.sequence, inspection=inspection)
        self._phase = body["phase"]
        self._circumstances: dict[str, Any] = body.get("circumstances", {})
        self.concludes = self._circumstances.get("concludes") is True
        self.takes_separated = self._circumstances.get("takes_separated") is True

    @property
    def settings(self) -> Settings:
        """The owner's settings under which it was decided."""
        recorded = self._circumstances.get("settings")
        return Settings.model_validate(recorded) if recorded else super().settings

    @cached_property
    def trials_left(self) -> int:
        """How many trials the limits left when it was decided."""
        return int(self._circumstances.get("trials_left", 0))

    @cached_property
    def spent(self) -> str:
        """Which limit left no room for another trial when it was decided."""
        recorded = self._circumstances.get("spent")
        return super().spent if recorded is None and self.trials_left < 1 else str(recorded or "")

    def lines(self, phase: Phase) -> list[CheckLine]:
        """Return the checklist's lines at that time: of its phase as it records them, of others as documented now."""
        recorded = self._circumstances.get("lines")
        if phase != self._phase or recorded is None:
            return super().lines(phase)
        return [CheckLine.model_validate(line) for line in recorded]

    def surroundings(self, run: RunRecords) -> list[str]:  # noqa: ARG002 - the same for every run
        """Return the differences of code, data and packages from the smoke run at the decision."""
        return list(self._circumstances.get("surroundings", []))

    def served_changes(self, run: RunRecords) -> list[str]:
        """Return which of the functions that answer raw inputs had changed since the run, at the decision."""
        return list(self._circumstances.get("served", {}).get(run.id, []))

    @cached_property
    def named_baseline(self) -> dict[str, str]:
        """The baseline as it stood at the decision: it may be another project's, which goes its own way."""
        recorded = self._circumstances.get("baseline")
        return dict(recorded) if recorded is not None else super().named_baseline

    def run(self, run_id: str) -> RunEvidence | None:
        """Return a run as it was sealed before the decision."""
        found = super().run(run_id)
        if found is None or run_id not in self.facts.started:
            return None
        past = PastRun(found.row, found.directory, self)
        past.moved_on = past.sealed is None or run_id in self._resumed_later
        return past

    def artifact_digest(self, name: str) -> str | None:
        """Return a file's digest at that time: by the ledger, where the server itself has rewritten the file since."""
        if name in self._written_later:
            return _artifacts(self.entries("diagnosis")).get(name)
        return super().artifact_digest(name)

    @cached_property
    def _resumed_later(self) -> set[str]:
        return {str(body.get("run_id")) for body in self._later("run_resumed")}

    @cached_property
    def _written_later(self) -> dict[str, str]:
        return _artifacts(enumerate(self._later("diagnosis")))

    def _later(self, kind: str) -> list[dict[str, Any]]:
        query = select(LedgerEntry.body).where(LedgerEntry.project == self.name, LedgerEntry.kind == kind)
        after = query.where(LedgerEntry.sequence > (self.before or 0)).order_by(LedgerEntry.sequence)
        return [json.loads(body) for body in self.session.scalars(after)]


def _artifacts(written: Iterable[tuple[int, dict[str, Any]]]) -> dict[str, str]:
    """Return the newest digest of every artifact that these entries record."""
    return {name: digest for _, body in written for name, digest in body.get("artifacts", {}).items()}
