"""The gate keeper: evaluates a phase's checks and records the decision."""

from __future__ import annotations

from typing import Any, Literal

import trainwright
from trainwright.tools import ledger
from trainwright.tools.answers import NextCall
from trainwright.tools.gates import checks as _registered  # noqa: F401 - importing registers the checks
from trainwright.tools.gates.checklist import CheckLine, checklist_digest
from trainwright.tools.gates.evidence import Evidence
from trainwright.tools.gates.exits import Exit, ending, exit_of, takes_best
from trainwright.tools.gates.outcomes import CHECKS, CheckResult, failed
from trainwright.tools.gates.phases import Phase
from trainwright.tools.gates.run_evidence import RunEvidence
from trainwright.tools.gates.staleness import whole_values
from trainwright.tools.ledger.events import GateDecided
from trainwright.tools.workspace.tables import now
from trainwright.trainer.base.errors import TrainwrightError
from trainwright.trainer.base.records import Frozen
from trainwright.trainer.config import apply_changes

Decision = Literal[Exit, "refused"]
ENDING = (Phase.OPTIMIZATION, Phase.FINALIZATION)
"""Phases whose decision records the project's result, beside both goals and the owner's acceptances."""


class GateReport(Frozen):
    """Results of a gate's checks, in the checklist's order."""

    phase: Phase
    outcome: Decision
    checks: list[CheckResult]

    @property
    def blocking(self) -> list[CheckResult]:
        """The checks that keep the gate closed."""
        return [result for result in self.checks if result.is_blocking()]


def evaluate(evidence: Evidence, phase: Phase) -> GateReport:
    """Compute every check of the phase's checklist from recorded evidence. Records nothing."""
    results = [evaluate_line(evidence, line) for line in evidence.lines(phase)]
    return GateReport(phase=phase, outcome=outcome_of(evidence, phase, results), checks=results)


def outcome_of(evidence: Evidence, phase: Phase, results: list[CheckResult]) -> Decision:
    """Return the outcome that a phase's results give."""
    if any(result.is_blocking() for result in results):
        return "refused"
    return (exit_of(evidence) or "passed") if phase is Phase.OPTIMIZATION else "passed"


def record(evidence: Evidence, report: GateReport, artifacts: dict[str, str]) -> int:
    """Write the decision into the ledger; return its sequence.

    Args:
        artifacts: digests of the files the server wrote for this decision, by name in the project folder.
    """
    is_accepted = report.outcome != "refused"
    decided = GateDecided(
        phase=report.phase.value,
        outcome=report.outcome,
        checks=[as_recorded(result) for result in report.checks],
        rested_on=dependencies_of(evidence, report.phase) if is_accepted else {},
        artifacts=artifacts,
        settings=evidence.settings.digest,
        circumstances=circumstances(evidence, report.phase),
        created_at=now(),
        **(settled(evidence, report.phase) if is_accepted else {}),
    )
    return ledger.record(evidence.session, evidence.name, decided).sequence


def settled(evidence: Evidence, phase: Phase) -> dict[str, Any]:
    """Return what accepting a phase settles: `final_values`, `ending` and `release`, those that it has."""
    found: dict[str, Any] = {"final_values": final_values(evidence)} if phase is Phase.OPTIMIZATION else {}
    if phase in ENDING:
        found["ending"] = ending(evidence, phase)
    return found | ({"release": sealed_release(evidence)} if phase is Phase.FINALIZATION else {})


def sealed_release(evidence: Evidence) -> dict[str, Any]:
    """Return the release that passing the last gate seals: its number, and the earlier decisions it depends on."""
    accepted = {body["phase"]: sequence for sequence, body in evidence.decisions if body["outcome"] != "refused"}
    accepted.pop(Phase.FINALIZATION.value, None)
    return {"number": 1 + len(evidence.begun), "decisions": accepted}


def circumstances(evidence: Evidence, phase: Phase) -> dict[str, Any]:
    """Return what a decision was made under and that may rightly change: `verify` derives the checks again with it.

    Checklist lines and the owner's settings, the program's version, and what of code, data and packages differed from
    the smoke run at that moment.
    """
    return {
        "version": trainwright.__version__,
        "checklist": checklist_digest(phase),
        "lines": [line.model_dump(mode="json") for line in evidence.lines(phase)],
        "settings": evidence.settings.model_dump(mode="json"),
        "surroundings": _surroundings(evidence),
        "served": _served(evidence, phase),
        **({"baseline": _baseline(evidence)} if phase is Phase.PLANNING else {}),
        **(
            {
                "concludes": evidence.concludes,
                "takes_separated": evidence.takes_separated,
                "trials_left": evidence.trials_left,
                "spent": evidence.spent,
            }
            if phase is Phase.OPTIMIZATION
            else {}
        ),
    }


def as_recorded(result: CheckResult) -> dict[str, Any]:
    """Return a check's result as the ledger keeps it."""
    return result.model_dump(mode="json", exclude={"text", "next"})


def final_values(evidence: Evidence) -> dict[str, Any]:
    """Return the configuration to finalize: the study's best where it is taken, else the baseline's."""
    values = evidence.version.values
    if takes_best(evidence):
        values = apply_changes(values, evidence.confirmation["best_parameters"])
    return {key: value for key, value in values.items() if key != "search"}


def evaluate_line(evidence: Evidence, line: CheckLine) -> CheckResult:
    """Compute one check. Damaged evidence is a failed check with its reason."""
    try:
        outcome = CHECKS[line.id](evidence, line)
    except TrainwrightError as error:
        remedy = NextCall(tool="project_status", arguments={"project": evidence.name}, why=error.remedy)
        outcome = failed(error.message, line.text, remedy)
    return CheckResult(id=line.id, text=line.text, counts=line.required, **dict(outcome))


def _foundations(evidence: Evidence, phase: Phase) -> list[RunEvidence | None]:
    """Return the runs of this phase's decision. Those of others are not read: they may be at work."""
    if phase is Phase.PLANNING:
        return [evidence.smoke]
    if phase is Phase.FINALIZATION:
        return [evidence.final, evidence.replay, evidence.export]
    return [evidence.baseline, *(_repetitions(evidence) if phase is Phase.OPTIMIZATION else [])]


def _repetitions(evidence: Evidence) -> list[RunEvidence | None]:
    confirmation = evidence.confirmation if takes_best(evidence) else {}
    return [evidence.run(run_id) for key in ("baseline_runs", "best_runs") for run_id in confirmation.get(key, [])]


def _surroundings(evidence: Evidence) -> list[str]:
    try:
        return evidence.surroundings(evidence.smoke) if evidence.smoke else []
    except TrainwrightError:  # a configuration or a record that cannot be read: its check reports it
        return []


def _baseline(evidence: Evidence) -> dict[str, str]:
    try:
        return evidence.named_baseline
    except TrainwrightError:  # a configuration that cannot be read: its check reports it
        return {}


def dependencies_of(evidence: Evidence, phase: Phase) -> dict[str, Any]:
    """Return what an accepted decision depends on: digests, versions and runs. A change of any makes it stale."""
    smoke = evidence.smoke
    return {
        "configuration": evidence.config_digest,
        "values": whole_values(evidence),
        "version": evidence.version.number,
        "smoke_run": smoke.id if smoke else "",
        "data": smoke.data.fingerprint if smoke else None,
        "code": smoke.code.digest if smoke else None,
        "environment": smoke.environment.packages_digest if smoke else None,
        "runs": [run.id for run in _foundations(evidence, phase) if run is not None],
        "study": evidence.study.id if phase is Phase.OPTIMIZATION and evidence.study else None,
    }


def _served(evidence: Evidence, phase: Phase) -> dict[str, list[str]]:
    """Return which functions that answer raw inputs changed since the smoke run or the export, by its id."""
    run = {Phase.PLANNING: evidence.smoke, Phase.FINALIZATION: evidence.export}.get(phase)
    try:
        changed = evidence.served_changes(run) if run is not None else []
    except TrainwrightError:  # its check reports it
        changed = []
    return {run.id: changed} if run is not None and changed else {}
