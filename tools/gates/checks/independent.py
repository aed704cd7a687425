"""Independent evaluation: rows fixed at planning, and what exported programs alone give on them (GATE-6).

What cannot be evaluated apart passes with its reason, which the model card repeats at its head.
"""

from __future__ import annotations

from trainwright.tools.answers import NextCall
from trainwright.tools.gates.checklist import CheckLine
from trainwright.tools.gates.evidence import Evidence
from trainwright.tools.gates.figures import SPLITS, evaluation_text, rows_text, without
from trainwright.tools.gates.outcomes import Outcome, check, failed, not_applicable, passed
from trainwright.tools.gates.run_evidence import RunEvidence
from trainwright.trainer.run import RunKind
from trainwright.trainer.run.artifacts import FixedRows

LOOK_AT = (
    "the two figures should agree: look for a `collate` that changes inputs (move it into the model or the data), a "
    "model that reads labels or keeps state between calls, and code that differs between train and eval mode; then "
    "plan anew"
)


@check("planning.rows_fixed")
def rows_fixed(evidence: Evidence, line: CheckLine) -> Outcome:
    """The rows of validation and test were written before any user code was imported."""
    run = evidence.smoke
    if run is None or not run.is_complete:
        remedy = run.next_call() if run is not None else evidence.start(RunKind.SMOKE)
        return failed("no completed smoke run", line.text, remedy)
    record = run.part(FixedRows)
    if not fixes_rows(evidence):
        return not_applicable("another launcher's worker has no key that signs fixed rows", line.text)
    if not record:
        return failed("the smoke run ended without fixing them", line.text, evidence.start(RunKind.SMOKE))
    if record.problem:
        return not_applicable(f"not fixed: {record.problem} {record.remedy or ''}".strip(), line.text)
    if lost := [name for name in SPLITS if run.data.sizes.get(name) and name not in record.splits]:
        what = f"the run had a {lost[0]} split, and its rows were not fixed: the data was built twice, differently"
        return failed(what, line.text, evidence.start(RunKind.SMOKE))
    digest = (run.sealed or {}).get(f"artifacts/{FixedRows.file}.json", "")
    counted = ", ".join(f"{name} {rows_text(split.rows, split.size)}" for name, split in record.splits.items())
    return passed(f"{counted}; {digest[:19]}…", line.text)


@check("baseline.independently_evaluated")
def baseline_evaluated(evidence: Evidence, line: CheckLine) -> Outcome:
    """The program that the baseline exported gives on the fixed rows what its process reported."""
    return _evaluated(evidence, line, evidence.baseline, evidence.start(RunKind.BASELINE))


@check("finalization.independently_evaluated")
def export_evaluated(evidence: Evidence, line: CheckLine) -> Outcome:
    """The exported model gives on the fixed rows of validation and test what the export reported."""
    again = evidence.call("export_model", "its program is what is evaluated")
    return _evaluated(evidence, line, evidence.export, again)


def fixes_rows(evidence: Evidence) -> bool:
    """Return whether planning's smoke run was to fix rows: its start recorded the key that signs them."""
    start = evidence.facts.started.get(evidence.smoke.id) if evidence.smoke is not None else None
    return start is not None and start.rows_key is not None


def _evaluated(evidence: Evidence, line: CheckLine, run: RunEvidence | None, start: NextCall) -> Outcome:
    if run is None or not run.is_complete:
        state = f"{run.id} is {run.status.state.value}" if run is not None else "no run"
        return failed(state, line.text, run.next_call() if run is not None else start)
    found, metric = run.evaluation, evidence.goal_metric
    if found is None:
        missing = "it exported no program: its process ended past the engine's end"
        return failed(f"{run.id} is no evidence: {run.untrusted}" if run.untrusted else missing, line.text, start)
    if found.differs:
        remedy = evidence.call("start_training", LOOK_AT, kind=RunKind.SMOKE.value)
        return failed(evaluation_text(found), line.text, remedy)
    if metric in run.certified():
        return passed(evaluation_text(found, metric), line.text)
    return not_applicable(evaluation_text(found) if found.problem else without(found, metric), line.text)
