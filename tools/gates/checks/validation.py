"""Validation: the verdicts on the data that planning's smoke run recorded (PIPE-2)."""

from __future__ import annotations

from trainwright.tools.gates.checklist import CheckLine
from trainwright.tools.gates.evidence import Evidence
from trainwright.tools.gates.outcomes import Outcome, check, failed, not_applicable, passed
from trainwright.tools.gates.run_evidence import RunEvidence
from trainwright.tools.gates.staleness import loosened_before
from trainwright.trainer.run import RunKind
from trainwright.trainer.run.artifacts import FixedRows
from trainwright.trainer.run.validation import Validation

MAX_NAMED = 3


@check("planning.data_validated")
def data_validated(evidence: Evidence, line: CheckLine) -> Outcome:
    """The data keeps every expectation of error severity, and something can be learned from it."""
    run = evidence.smoke
    if run is None:
        return failed("no smoke run of this configuration", line.text, evidence.start(RunKind.SMOKE))
    found = run.part(Validation)
    if not found:
        if run.is_complete:
            return failed("the smoke run's verdicts are gone", line.text, evidence.start(RunKind.SMOKE))
        return failed("the smoke run ended before it validated the data", line.text, run.next_call())
    return _verdicts(evidence, line, run, found)


def _verdicts(evidence: Evidence, line: CheckLine, run: RunEvidence, found: Validation) -> Outcome:
    report = found.report
    if run.part(FixedRows).validation != found.digest():
        return failed(
            "the verdicts are not those of the process that fixed the rows", line.text, evidence.start(RunKind.SMOKE)
        )
    if stopping := report.stopping:
        named = "; ".join(f"{one.place}: {one.text}" for one in stopping[:MAX_NAMED])
        why = f"{stopping[0].remedy} Then start the smoke run again"
        return failed(f"{len(stopping)} failed. {named}", line.text, evidence.call("validate_data", why))
    is_exempt = found.is_exempt or (evidence.config.data is None and found.family is not None)  # a task leaves none out
    if found.problem and not is_exempt:
        why = found.remedy or "it validates again and shows the cause"
        return failed(f"not validated: {found.problem}", line.text, evidence.call("validate_data", why))
    if found.problem:
        return not_applicable(f"not validated: {found.problem}", line.text)
    warned = [one.place for one in report.worst_first() if one.severity == "warning"]
    measured = f"{len(report.checks)} checks of {report.rows_read} rows"
    measured += f"; warnings: {', '.join(warned[:MAX_NAMED])}{' …' * (len(warned) > MAX_NAMED)}" if warned else ""
    measured += "".join(f"; {sentence}" for sentence in loosened_before(evidence, run)[:MAX_NAMED])
    return passed(measured, line.text)
