"""Passing a gate: evaluate, write the phase's artifacts, record the decision, all under one write lock."""

from __future__ import annotations

from typing import TYPE_CHECKING

from trainwright.tools.answers import Answer
from trainwright.tools.checkpoint_manager import register_model
from trainwright.tools.gates.evidence import Evidence
from trainwright.tools.gates.keeper import GateReport, evaluate, record
from trainwright.tools.gates.next_call import next_call
from trainwright.tools.gates.phases import Phase
from trainwright.tools.gates.standing import Standing, standing
from trainwright.tools.projects.status import CheckLineView
from trainwright.tools.reports import write_artifacts
from trainwright.tools.training_orchestrator import refresh_project
from trainwright.tools.workspace.records import get_project
from trainwright.trainer.errors import ConfigurationError, GateRefusedError

if TYPE_CHECKING:
    from trainwright.tools.workspace import Workspace


class GateAnswer(Answer):
    """A gate that has passed."""

    project: str
    phase: str
    """The phase whose gate this is."""
    outcome: str
    """passed or skipped."""
    now_in: str
    """The phase that the project is in now, or `finished`."""
    checks: list[CheckLineView]
    artifacts: list[str]
    """Files the server wrote in the project folder."""
    folder: str
    ledger_sequence: int


def pass_gate(workspace: Workspace, project: str, phase: str) -> GateAnswer:
    """Ask for the gate that ends a phase.

    Raises:
        GateRefusedError: a check failed, or the phase is not the present one. The refusal is recorded too.
        NotFoundError: no such project.
        ConfigurationError: no such phase.
    """
    wanted = _phase(phase)
    with workspace.session() as session:
        get_project(session, project)
    refresh_project(workspace, project)
    with workspace.session() as session:
        evidence = Evidence(session, workspace, project)
        where = standing(evidence)
        report = evaluate(evidence, wanted)
        out_of_turn = where.is_finished or wanted is not where.phase
        refused = out_of_turn or report.outcome == "refused"
        if not refused:
            artifacts = write_artifacts(evidence, report)
            sequence = record(evidence, report, artifacts)
            if wanted is Phase.FINALIZATION and evidence.export is not None:
                register_model(session, workspace, evidence.export.id)
            return _answer(evidence, report, artifacts, sequence)
        if not out_of_turn:
            record(evidence, report, {})
        refusal = _out_of_turn(evidence, where, wanted) if out_of_turn else refusal_of(report, project)
    raise refusal


def refusal_of(report: GateReport, project: str) -> GateRefusedError:
    """Turn a refused report into the error that an agent reads: each failed check with measured beside required."""
    lines = [f"{r.id}: measured {r.measured}; required {r.required}" for r in report.blocking]
    first = report.blocking[0].next
    return GateRefusedError(
        f"The {report.phase.value} gate of {project} stays closed. " + " | ".join(lines[:6]),
        remedy=str(first) if first else f"project_status(project={project!r})",
        document=report.phase.document,
        details={
            "phase": report.phase.value,
            "checks": [
                r.model_dump(mode="json", include={"id", "measured", "required", "next"}) for r in report.blocking
            ],
            "next": first.model_dump(mode="json") if first else None,
        },
    )


def _answer(before: Evidence, report: GateReport, artifacts: dict[str, str], sequence: int) -> GateAnswer:
    evidence = Evidence(before.session, before.workspace, before.name)  # read anew, decision included
    where = standing(evidence)
    return GateAnswer(
        project=evidence.name,
        phase=report.phase.value,
        outcome=report.outcome,
        now_in="finished" if where.is_finished else where.phase.value,
        checks=[CheckLineView(**r.model_dump(include=set(CheckLineView.model_fields))) for r in report.checks],
        artifacts=sorted(artifacts),
        folder=str(evidence.folder),
        ledger_sequence=sequence,
        next=next_call(evidence.session, evidence.workspace, evidence.name),
    )


def _out_of_turn(evidence: Evidence, where: Standing, wanted: Phase) -> GateRefusedError:
    call = next_call(evidence.session, evidence.workspace, evidence.name)
    status = where.gate(wanted).status
    if status in {"passed", "skipped"}:
        message = f"The {wanted.value} gate has {status} already; nothing it rested on has changed."
    else:
        message = f"The {wanted.value} gate is closed: the project is in {where.phase.value}."
    reasons = where.gate(where.phase).reasons
    stale = f" The {where.phase.value} gate is stale: {'; '.join(reasons[:3])}." if reasons else ""
    return GateRefusedError(
        message + stale,
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
