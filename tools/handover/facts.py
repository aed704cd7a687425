"""Facts of a hand-over, derived from the ledger's entries up to one of them: always the same ones."""

from __future__ import annotations

from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Any

from trainwright.tools.gates.artifacts import NAMING
from trainwright.tools.handover.document import MATERIAL, Facts, GateFact, RunFact, Standing
from trainwright.tools.ledger import ProjectFacts

if TYPE_CHECKING:
    from collections.abc import Iterator

    from sqlalchemy.orm import Session

    from trainwright.tools.answers import NextCall
    from trainwright.tools.gates.phase_status import PhaseStatus

MOST_RUNS = 20


def recorded_facts(session: Session, project: str, entry: int, to: str) -> Facts:
    """Return what the project's entries up to this one say.

    Args:
        to: the role that takes over, which decides on the files.
    """
    facts = ProjectFacts(session, project, before=entry + 1)
    created = next((body for _, body in facts.entries.get("project_created", [])), {})
    number = max(facts.configurations, default=0)
    return Facts(
        intent=str(created.get("intent", "")),
        goal=dict(created.get("goal", {})),
        configuration=number,
        configuration_digest=facts.configurations[number].digest if number else "",
        gates=_gates(facts),
        runs=list(_runs(facts))[-MOST_RUNS:],
        studies={str(body.get("study_id")): str(body.get("state")) for _, body in facts.entries.get("study", [])},
        owner=list(_owner(facts)),
        files=_files(facts, to),
    )


def standing_of(where: PhaseStatus, following: NextCall | None) -> Standing:
    """Return how a project stands by its phase status."""
    return Standing(
        phase=where.phase.value,
        finished=where.is_finished,
        gates={
            gate.phase.value: f"stale: {'; '.join(gate.reasons[:3])}" if gate.reasons else gate.status
            for gate in where.gates
        },
        next=following.model_dump(mode="json", exclude_none=True) if following else None,
    )


def _gates(facts: ProjectFacts) -> list[GateFact]:
    newest = {str(body.get("phase")): (sequence, body) for sequence, body in facts.entries.get("gate", [])}
    return [
        GateFact(phase=phase, outcome=str(body.get("outcome")), entry=sequence)
        for phase, (sequence, body) in newest.items()
    ]


def _runs(facts: ProjectFacts) -> Iterator[RunFact]:
    started = {str(body.get("run_id")): sequence for sequence, body in facts.entries.get("run_started", [])}
    sealed = {str(body.get("run_id")): sequence for sequence, body in facts.entries.get("run_sealed", [])}
    for run_id, start in facts.started.items():
        seal, evaluation = facts.seals.get(run_id), facts.evaluations.get(run_id)
        yield RunFact(
            id=run_id,
            kind=start.kind,
            state=seal.state if seal else "under way",
            entry=sealed[run_id] if seal else started[run_id],
            certified=evaluation.certified() if evaluation else {},
        )


def _owner(facts: ProjectFacts) -> Iterator[str]:
    answers = [body for _, body in facts.entries.get("owner_decision", [])]
    for sequence, body in facts.entries.get("owner_request", []):
        asked = body.get("wish")
        values: dict[str, Any] = asked if isinstance(asked, dict) else {}
        answer = next((one for one in reversed(answers) if one.get("wish") == asked), None)
        state = "open" if answer is None else "granted" if answer.get("granted") else "denied"
        named = " ".join(str(value) for value in values.values() if value is not None)
        yield f"entry {sequence}: {named} ({state})"


def _files(facts: ProjectFacts, to: str) -> dict[str, str]:
    """Return the newest digests of the recorded files that a role works from."""
    bodies = sorted((entry for kind in NAMING for entry in facts.entries.get(kind, [])), key=lambda entry: entry[0])
    newest = {name: digest for _, body in bodies for name, digest in (body.get("artifacts") or {}).items()}
    wanted = MATERIAL.get(to, ())
    return {name: newest[name] for name in sorted(newest) if any(fnmatchcase(name, one) for one in wanted)}
