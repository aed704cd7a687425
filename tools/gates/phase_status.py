"""Phase of a project, derived from the ledger's decisions every time and stored nowhere (PHASE-1)."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any, Literal

from pydantic import Field

from trainwright.tools.gates.artifacts import publish
from trainwright.tools.gates.evidence import Evidence
from trainwright.tools.gates.phases import PERMITTED, Phase
from trainwright.tools.gates.records import RunRecords
from trainwright.tools.gates.releases import CARRIED, Release, witnesses
from trainwright.tools.gates.staleness import changes_since, changes_without_effect
from trainwright.trainer.base.errors import TrainwrightError
from trainwright.trainer.base.records import Frozen
from trainwright.trainer.run import RunKind, RunState

GateStatus = Literal["passed", "skipped", "accepted", "concluded", "stale", "open", "closed"]


class GateState(Frozen):
    """One gate: passed, skipped, accepted or concluded (and fresh); stale; open (the present one) or closed (later)."""

    phase: Phase
    status: GateStatus
    reasons: list[str] = Field(default_factory=list)
    """What made it stale."""
    ledger_sequence: int | None = None


class PhaseStatus(Frozen):
    """The project's phase and all its gates."""

    phase: Phase
    is_finished: bool
    gates: list[GateState]
    release: Release | None = None
    """Of a finished project: its last gate's release. It stays finished, whatever changes."""
    remarks: list[str] = Field(default_factory=list)
    """Changes that make nothing stale: of a finished project any, of another one code rewritten with the same meaning,
    and packages that no run imported."""

    def gate(self, phase: Phase) -> GateState:
        """Return one gate's state."""
        return next(gate for gate in self.gates if gate.phase is phase)

    @property
    def stale_text(self) -> str:
        """Why the present phase's gate is stale, as sentences with a space before; empty where it is not."""
        reasons = self.gate(self.phase).reasons
        if not reasons:
            return ""
        return f" The {self.phase.value} gate is stale: {'; '.join(reasons[:3])}. With that put back it is fresh again."

    @property
    def finished_text(self) -> str:
        """The date of the release and the changes since: `finished on 2026-11-22 (release 1)`."""
        if self.release is None:
            return ""
        on = f" on {self.release.date}" if self.release.date else ""
        since = f"; since then: {'; '.join(self.remarks[:3])}" if self.remarks else ""
        return f"finished{on} (release {self.release.number}){since}"


def accepted_decisions(evidence: Evidence) -> dict[Phase, tuple[int, dict[str, Any]]]:
    """Return the present release's latest accepted decision of each phase as (ledger sequence, body)."""
    found: dict[Phase, tuple[int, dict[str, Any]]] = {}
    for sequence, body in evidence.decisions:
        if body["outcome"] != "refused":
            found[Phase(body["phase"])] = (sequence, body)
    return found


def phase_status_of(evidence: Evidence) -> PhaseStatus:
    """Derive the project's phase status: finished once its last gate has passed, until the next release is begun.

    Before, the phase is the first whose gate is not passed and fresh. First it publishes the drafts of the last
    decision, so within a session that has recorded no decision itself. From one evidence it is derived once.
    """
    return evidence.once("phase status", partial(_derived, evidence))


def barred(evidence: Evidence, run: RunRecords) -> str:
    """Return why a run that ended early is not resumed now; empty where it may be."""
    where = phase_status_of(evidence)
    if run.status.state is RunState.COMPLETED:
        return f"{run.id} is complete"
    if where.is_finished or RunKind(run.row.kind) not in PERMITTED[where.phase]:
        now = "finished" if where.is_finished else f"in {where.phase.value}"
        return f"a {run.row.kind} run is not resumed: the project is {now}"
    root = Path(run.directory.specification().code_root)
    evidence.inspection.sources.note(root)
    return "" if root.is_dir() else f"the folder {root.name!r} that {run.id} was planned in is not there"


def _derived(evidence: Evidence) -> PhaseStatus:
    publish(evidence.session, evidence.name, evidence.folder)
    decisions = accepted_decisions(evidence)
    return (_sealed if Phase.FINALIZATION in decisions else _by_freshness)(evidence, decisions)


def _sealed(evidence: Evidence, decisions: dict[Phase, tuple[int, dict[str, Any]]]) -> PhaseStatus:
    """Return a release's phase status: nothing re-opens it, and later differences are remarks."""
    gates = [
        GateState(phase=phase, status=body["outcome"], ledger_sequence=sequence)
        for phase, (sequence, body) in sorted(decisions.items(), key=lambda decided: decided[0].number)
    ]
    remarks: list[str] = []
    try:
        for _, body in decisions.values():
            remarks += changes_since(evidence, body["rested_on"], body["artifacts"])
        remarks += _without_effect(evidence, decisions)
    except TrainwrightError as error:  # a record that cannot be read any more: `verify` names it too
        remarks.append(error.message)
    return PhaseStatus(
        phase=Phase.FINALIZATION,
        is_finished=True,
        gates=gates,
        release=evidence.releases[-1],
        remarks=list(dict.fromkeys(remarks)),
    )


def _asked_since(evidence: Evidence, decision: dict[str, Any]) -> list[str]:
    """Return what re-opens a skipped phase: a search that the configuration asks for since, before any export."""
    if decision["outcome"] != "skipped" or evidence.config.search is None:
        return []
    before = evidence.facts.configurations.get(decision["rested_on"].get("version", 0))
    is_new = before is not None and before.values.get("search") != evidence.version.values.get("search")
    return ["configuration: a search is asked for"] if is_new and evidence.export is None else []


def _by_freshness(evidence: Evidence, decisions: dict[Phase, tuple[int, dict[str, Any]]]) -> PhaseStatus:
    gates: list[GateState] = []
    present: Phase | None = None
    for phase in Phase:
        sequence, body = decisions.get(phase, (None, None))
        status: GateStatus = "closed"
        reasons: list[str] = []
        if present is None and body is not None:
            reasons = changes_since(evidence, body["rested_on"], body["artifacts"]) + _asked_since(evidence, body)
            status = "stale" if reasons else body["outcome"]
        elif present is None:
            status = "open"
        if present is None and status in {"open", "stale"}:
            present = phase
        gates.append(GateState(phase=phase, status=status, reasons=reasons, ledger_sequence=sequence))
    finished = present is None
    return PhaseStatus(
        phase=present or Phase.FINALIZATION,
        is_finished=finished,
        gates=gates,
        release=evidence.releases[-1] if finished else None,
        remarks=_without_effect(evidence, decisions),
    )


def _without_effect(evidence: Evidence, decisions: dict[Phase, tuple[int, dict[str, Any]]]) -> list[str]:
    planned = decisions.get(Phase.PLANNING)
    smoke = evidence.run(planned[1]["rested_on"].get("smoke_run", "")) if planned else None
    if smoke is None:
        return []
    carried = [body for _, body in evidence.entries(CARRIED) if body["smoke_run"] == smoke.id]
    remarks = [
        f"carried over by {body['replay']}, {body['steps']} steps alike: {'; '.join(body['changes'])}"
        for body in carried
    ]
    seen = witnesses(evidence, smoke)[-1]
    return remarks + changes_without_effect(evidence.project.code_root, seen, evidence.inspection)
