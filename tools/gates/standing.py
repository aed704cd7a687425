"""Where a project stands: derived from the ledger's decisions every time, stored nowhere (PHASE-1)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

from pydantic import BaseModel, ConfigDict

from trainwright.tools.gates.phases import Phase
from trainwright.tools.gates.publication import publish
from trainwright.tools.gates.staleness import changes_since

if TYPE_CHECKING:
    from trainwright.tools.gates.evidence import Evidence

GateStatus = Literal["passed", "skipped", "accepted", "concluded", "stale", "open", "closed"]


class GateStanding(BaseModel):
    """One gate: passed, skipped, accepted or concluded (and fresh); stale; open (the present one) or closed (later)."""

    model_config = ConfigDict(frozen=True)

    phase: Phase
    status: GateStatus
    reasons: list[str] = []
    """What made it stale."""
    ledger_sequence: int | None = None


class Standing(BaseModel):
    """The project's phase and all its gates."""

    model_config = ConfigDict(frozen=True)

    phase: Phase
    is_finished: bool
    gates: list[GateStanding]

    def gate(self, phase: Phase) -> GateStanding:
        """Return one gate's standing."""
        return next(gate for gate in self.gates if gate.phase is phase)

    @property
    def stale_text(self) -> str:
        """What made the present phase's gate stale, as sentences with a space before; empty where nothing did."""
        reasons = self.gate(self.phase).reasons
        if not reasons:
            return ""
        return f" The {self.phase.value} gate is stale: {'; '.join(reasons[:3])}. With that put back it stands again."


def accepted_decisions(evidence: Evidence) -> dict[Phase, tuple[int, dict[str, Any]]]:
    """Return the latest accepted decision of each phase as (ledger sequence, body)."""
    found: dict[Phase, tuple[int, dict[str, Any]]] = {}
    for sequence, body in evidence.entries("gate"):
        if body["outcome"] != "refused":
            found[Phase(body["phase"])] = (sequence, body)
    return found


def standing(evidence: Evidence) -> Standing:
    """Derive where the project stands: the phase is the first whose gate is not passed and fresh.

    First it publishes what a decision has left as drafts, so within a session that has recorded no decision itself.
    """
    publish(evidence.session, evidence.name, evidence.folder)
    decisions = accepted_decisions(evidence)
    gates: list[GateStanding] = []
    present: Phase | None = None
    for phase in Phase:
        sequence, body = decisions.get(phase, (None, None))
        status: GateStatus = "closed"
        reasons: list[str] = []
        if present is None and body is not None:
            reasons = changes_since(evidence, body["rested_on"], body["artifacts"])
            status = "stale" if reasons else body["outcome"]
        elif present is None:
            status = "open"
        if present is None and status in {"open", "stale"}:
            present = phase
        gates.append(GateStanding(phase=phase, status=status, reasons=reasons, ledger_sequence=sequence))
    return Standing(phase=present or Phase.FINALIZATION, is_finished=present is None, gates=gates)
