"""Passing a gate, and beginning the next release."""

from __future__ import annotations

import logging
from collections.abc import Iterable
from typing import Any, NoReturn

from pydantic import BaseModel, Field, computed_field
from sqlalchemy.orm import Session

from trainwright.tools import ledger
from trainwright.tools.answers import Answer, NextCall
from trainwright.tools.gates.decide import ENDING, GateReport, evaluate, record
from trainwright.tools.gates.evidence import Evidence
from trainwright.tools.gates.exits import verdict
from trainwright.tools.gates.next_call import next_of, opening
from trainwright.tools.gates.phase_status import PhaseStatus, phase_status_of
from trainwright.tools.gates.phases import Phase
from trainwright.tools.gates.searches import no_room, reopening_call, unmet_wish
from trainwright.tools.ledger import Inspection
from trainwright.tools.ledger.events import ReleaseBegun
from trainwright.tools.registry import register_model
from trainwright.tools.reports import draft_artifacts
from trainwright.tools.training_orchestrator import refresh_project
from trainwright.tools.workspace import Workspace
from trainwright.tools.workspace.records import get_project
from trainwright.trainer.base.errors import ConfigurationError, ConflictError, GateRefusedError
from trainwright.trainer.run.validation import Validation

# Lines of a gate's checks: how each comes out, which are met, and which no run has measured yet.


REASONED = frozenset({"baseline.independently_evaluated", "finalization.independently_evaluated"})
"""Checks whose reason is told where they have no meaning: what keeps a figure from being certified can be fixed."""
MAX_REASON = 160
MAX_PAIRS = 4
NO_SMOKE_RUN = "no smoke run of this configuration"


class CheckLineView(BaseModel):
    """One check of the present gate."""

    id: str
    status: str
    measured: str
    required: str
    was: str | None = None
    """Its status when the gate was last decided, where that was another."""


def is_met(check: CheckLineView) -> bool:
    """Return whether a check needs no action: passed in full, or without a meaning here."""
    return check.status in {"passed", "not_applicable"}


def met_still(checks: list[CheckLineView]) -> dict[int, bool]:
    """Return the places of the checks that are met and were not failed when their gate was last decided."""
    return {place: True for place, check in enumerate(checks) if is_met(check) and check.was != "failed"}


def not_yet(checks: list[CheckLineView]) -> dict[int, bool]:
    """Return the places of the checks that wait, as the first failed one does, for a smoke run of the configuration."""
    failed = [place for place, check in enumerate(checks) if check.status == "failed"]
    if not failed or checks[failed[0]].measured != NO_SMOKE_RUN:
        return {}
    return {place: True for place in failed[1:] if checks[place].measured.startswith(("no ", "not "))}


def check_lines(checks: Iterable[dict[str, Any]], before: dict[str, str]) -> list[CheckLineView]:
    """Return the lines of checks.

    Args:
        before: the statuses that an earlier decision on the same gate recorded, by check (`decided_before`).
    """
    return [
        CheckLineView(
            id=one["id"],
            status=one["status"],
            measured=one["measured"],
            required=one["required"],
            was=before[one["id"]] if before.get(one["id"], one["status"]) != one["status"] else None,
        )
        for one in checks
    ]


def decided_before(evidence: Evidence, phase: Phase, sequence: int | None = None) -> dict[str, str]:
    """Return the status of each check at the newest decision on a gate, or at the newest before a ledger entry."""
    decided = [
        body for at, body in evidence.decisions if body["phase"] == phase and (sequence is None or at < sequence)
    ]
    return {check["id"]: check["status"] for check in decided[-1]["checks"]} if decided else {}


log = logging.getLogger("trainwright")


class GateAnswer(Answer):
    """A gate that has passed."""

    project: str
    phase: str
    """The phase whose gate this is."""
    outcome: str
    """passed, skipped, accepted (by the owner) or concluded (below the goal)."""
    goal: str = ""
    """After optimization and finalization: the project's result, `Goal not reached: 0.81 of 0.9 …`."""
    now_in: str
    """The phase that the project is in now, or `finished`."""
    checks: list[CheckLineView]
    unsearched: str | None = None
    """That the phase was skipped though the intent asks for a search, and the call that opens it again."""
    same: list[str] = Field(default_factory=list)
    """Of planning: pairs of columns that say the same, `class and pclass`. No fault: importance is divided by them."""
    artifacts: list[str]
    """Files the server wrote in the project folder."""
    folder: str
    ledger_sequence: int

    @computed_field  # type: ignore[prop-decorator]
    @property
    def checks_met(self) -> int:
        """How many of the checks are met; those without a meaning here are counted apart."""
        return sum(is_met(check) and check.status != "not_applicable" for check in self.checks)

    @property
    def outcome_in_words(self) -> str:
        """Phase, outcome, and how many checks are met, exempted or not applicable, the last by name."""
        exempted = sum(check.status == "passed_with_exemption" for check in self.checks)
        without = [
            check.id.partition(".")[2] + (f": {str(check.measured)[:MAX_REASON]}" if check.id in REASONED else "")
            for check in self.checks if check.status == "not_applicable"
        ]  # fmt: skip
        parts = [f"{self.checks_met} of {len(self.checks)} checks met"]
        parts += [f"{exempted} by the owner's exemption"] if exempted else []
        parts += [f"{len(without)} not applicable ({', '.join(without)})"] if without else []
        more = [self.unsearched] if self.unsearched else []
        more += [f"columns that say the same: {', '.join(self.same)}"] if self.same else []
        return "; ".join([f"{self.phase} {self.outcome}", ", ".join(parts), *more])

    def unsaid(self) -> dict[str, Any]:
        """The checks that are met still, and their reports; the last gate's state the results."""
        checks = {} if self.now_in == "finished" else met_still(self.checks)
        later = {"folder": self.now_in != "finished", "same": not self.same}
        return {"checks": checks, "ledger_sequence": True, **later}


def pass_gate(workspace: Workspace, project: str, phase: str | None = None, *, conclude: bool = False) -> GateAnswer:
    """Ask for the gate that ends a phase; without one, the present phase.

    Args:
        conclude: end optimization below the goal, where a search has ended in vain or none can help.

    Raises:
        GateRefusedError: a check failed, or the phase is not the present one. The refusal is recorded too.
        NotFoundError: no such project.
        ConfigurationError: no such phase, or another than optimization is to be concluded.
    """
    wanted = _phase(phase) if phase is not None else None
    with workspace.session() as session:
        get_project(session, project)
    refresh_project(workspace, project)
    with workspace.session() as session:
        inspection = Inspection()  # a decision reads every file; its answer uses the same reading
        evidence = Evidence(session, workspace, project, inspection=inspection, concludes=conclude)
        decided = _decide(evidence, wanted)
    if isinstance(decided, GateRefusedError):
        raise decided
    with workspace.session() as session:  # the decision is committed: `phase_status_of` publishes its artifacts now
        evidence = Evidence(session, workspace, project, inspection=inspection)
        return _answer(evidence, *decided)


def _decide(evidence: Evidence, wanted: Phase | None) -> tuple[GateReport, dict[str, str], int] | GateRefusedError:
    """Evaluate the gate and record the result: report, artifacts and ledger sequence, or the refusal."""
    where, project = phase_status_of(evidence), evidence.name
    wanted = wanted or where.phase
    if evidence.concludes and wanted is not Phase.OPTIMIZATION:
        raise ConfigurationError(
            f"`conclude` ends optimization below the goal; the {wanted.value} gate has no such exit.",
            remedy=f"pass_gate(project={project!r}, phase={wanted.value!r})",
            document="phases/WORKFLOW.md",
        )
    if where.is_finished or wanted is not where.phase:
        return _out_of_turn(evidence, where, wanted)
    report = evaluate(evidence, wanted)
    if report.outcome == "refused":
        record(evidence, report, {})
        return refusal_of(evidence, report)
    artifacts = draft_artifacts(evidence, report)
    sequence = record(evidence, report, artifacts)
    if wanted is Phase.FINALIZATION and evidence.export is not None:
        register_model(evidence.session, evidence.workspace, evidence.export.id)
    return report, artifacts, sequence


def refusal_of(evidence: Evidence, report: GateReport) -> GateRefusedError:
    """Turn a refused report into the error that an agent reads: each failed check with measured beside required."""
    lines = [f"{r.id}: measured {r.measured}; required {r.required}" for r in report.blocking]
    call = opening(evidence, report.phase, report.blocking)
    return GateRefusedError(
        f"The {report.phase.value} gate of {evidence.name} stays closed. " + " | ".join(lines[:6]),
        remedy=str(call),
        document=report.phase.document,
        details={
            "phase": report.phase.value,
            "checks": [
                r.model_dump(mode="json", include={"id", "measured", "required", "next"}) for r in report.blocking
            ],
            "next": call.model_dump(mode="json"),
        },
    )


def _answer(evidence: Evidence, report: GateReport, artifacts: dict[str, str], sequence: int) -> GateAnswer:
    where = phase_status_of(evidence)
    return GateAnswer(
        project=evidence.name,
        phase=report.phase.value,
        outcome=report.outcome,
        goal=verdict(evidence, report.phase) if report.phase in ENDING else "",
        now_in="finished" if where.is_finished else where.phase.value,
        checks=check_lines(map(dict, report.checks), decided_before(evidence, report.phase, sequence)),
        unsearched=_unsearched(evidence) if report.outcome == "skipped" else None,
        same=_same(evidence) if report.phase is Phase.PLANNING else [],
        artifacts=sorted(artifacts),
        folder=str(evidence.folder),
        ledger_sequence=sequence,
        next=next_of(evidence),
    )


def _same(evidence: Evidence) -> list[str]:
    """Return the pairs of columns of which one is a renaming of the other, as the smoke run's validation found them."""
    found = evidence.smoke.part(Validation).report.checks if evidence.smoke is not None else []
    pairs = [f"{one.value} and {one.column}" for one in found if one.family == "twins"]
    more = [f"{len(pairs) - MAX_PAIRS} more"] if len(pairs) > MAX_PAIRS else []
    return pairs[:MAX_PAIRS] + more


def _unsearched(evidence: Evidence) -> str | None:
    """Return that the intent asks for a search that was not made, and what makes it still."""
    asked = unmet_wish(evidence)
    if asked is None:
        return None
    still = no_room(evidence) or f"{reopening_call(evidence)} before the export opens the phase again"
    return f"the intent asks for a search ({asked.words!r}), and none was made: {still}"


def _out_of_turn(evidence: Evidence, where: PhaseStatus, wanted: Phase) -> GateRefusedError:
    call = next_of(evidence)
    status = where.gate(wanted).status
    if where.is_finished:
        message = f"The project {evidence.name} is {where.finished_text}: every gate has passed."
    elif status not in {"stale", "open", "closed"}:
        said = "has passed" if status == "passed" else f"is {status}"
        message = f"The {wanted.value} gate {said} already; nothing it depends on has changed."
    else:
        message = f"The {wanted.value} gate is closed: the project is in {where.phase.value}."
    return GateRefusedError(
        message + where.stale_text,
        remedy=str(call) if call else f"project_status(project={evidence.name!r}): all gates have passed.",
        document="phases/WORKFLOW.md",
        details={"phase": where.phase.value, "next": call.model_dump(mode="json") if call else None},
    )


def _phase(name: str) -> Phase:
    try:
        return Phase(name)
    except ValueError:
        raise ConfigurationError(
            f"There is no phase {name[:40]!r}.", remedy=f"Use one of {', '.join(Phase)}.", document="phases/WORKFLOW.md"
        ) from None


def refuse_to_change(project: str, where: PhaseStatus, asked: dict[str, Any]) -> NoReturn:
    """Refuse a change of a finished project, with the call that makes the same change in its next release.

    Args:
        asked: the arguments of the refused call.

    Raises:
        ConflictError: always.
    """
    kept = {name: value for name, value in asked.items() if value}
    why = f"work on: every gate anew, and {where.release} stays"
    call = NextCall(tool="configure", arguments={"project": project, **kept, "begin_release": True}, why=why)
    raise ConflictError(
        f"Project {project} is {where.finished_text}. A change of its configuration would begin its next release.",
        remedy=f"{call} begins it; the finished release stays as it is. Nothing was changed.",
        document="phases/WORKFLOW.md",
        details={"next": call.model_dump(mode="json")},
    )


def begin(session: Session, project: str, where: PhaseStatus, reason: str) -> int | None:
    """Record that the next release is begun; return its number, or None where work on it has begun already."""
    if where.release is None:
        return None
    number = where.release.number + 1
    begun = ReleaseBegun(release=number, after=where.release.sequence, reason=reason, since=where.remarks)
    ledger.record(session, project, begun)
    return number
