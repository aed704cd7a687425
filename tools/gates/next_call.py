"""Next call of a project: the fix of the first failing check, unless it failed on the same digests before."""

from __future__ import annotations

from typing import TYPE_CHECKING

from trainwright.tools.answers import NextCall
from trainwright.tools.gates.decide import GateReport, evaluate
from trainwright.tools.gates.evidence import Evidence
from trainwright.tools.gates.leak_prices import removal, unpriced
from trainwright.tools.gates.memory import failed_alike, in_vain
from trainwright.tools.gates.phase_status import phase_status_of
from trainwright.tools.gates.phases import Phase
from trainwright.tools.ledger import Inspection, Look
from trainwright.trainer.base.errors import TrainwrightError
from trainwright.trainer.run import RunKind

if TYPE_CHECKING:
    from collections.abc import Iterator

    from sqlalchemy.orm import Session

    from trainwright.tools.gates.outcomes import CheckResult
    from trainwright.tools.workspace import Workspace

YOUR_CODE = "configs/your_code.md"
MOST_CHARACTERS = 400


def next_call(
    session: Session, workspace: Workspace, project: str, *, after: NextCall | None = None
) -> NextCall | None:
    """Return the project's next call, or None when all gates have passed.

    Args:
        after: the call being answered, where it changes nothing: it is not named again.
    """
    evidence = Evidence(session, workspace, project, inspection=Look())
    return next_of(evidence, after=after)


def next_of(evidence: Evidence, *, report: GateReport | None = None, after: NextCall | None = None) -> NextCall | None:
    """Return the project's next call from evidence that was read already.

    Args:
        report: the results of the present phase's checks, where they have been evaluated.
        after: the call being answered, where it changes nothing.
    """
    where = phase_status_of(evidence)
    if where.is_finished:
        return None
    if where.phase is not Phase.PLANNING and (without := removal(evidence)) is not None:
        return without
    blocking = (report or evaluate(evidence, where.phase)).blocking
    if not blocking and _was_refused_just_now(evidence, where.phase):  # by files that only a decision reads again
        anew = Evidence(evidence.session, evidence.workspace, evidence.name, inspection=Inspection())
        blocking = evaluate(anew, where.phase).blocking
    if blocking:
        return proposal(evidence, where.phase, blocking, after=after)
    if where.phase is Phase.BASELINE and (price := unpriced(evidence)) is not None:
        return price
    return evidence.call("pass_gate", "every check of the phase passes", phase=where.phase.value)


def proposal(
    evidence: Evidence, phase: Phase, blocking: list[CheckResult], *, after: NextCall | None = None
) -> NextCall:
    """Return the first call that may open a gate, naming those that failed before.

    Where none is left it names the document to follow: the rest is work on files, or a question to a person.
    """
    passed_over = ""
    for call in _candidates(evidence, phase, blocking):
        if after is not None and (call.tool, call.arguments) == (after.tool, after.arguments):
            continue
        why = in_vain(evidence, call)
        if not why:
            return call.model_copy(update={"why": f"{call.why} ({passed_over})"}) if passed_over else call
        passed_over = passed_over or why
    return _to_read(evidence, phase, blocking[0], passed_over)


def _candidates(evidence: Evidence, phase: Phase, blocking: list[CheckResult]) -> Iterator[NextCall]:
    """Give the possible calls, the best first: the failing checks' remedies, then alternatives."""
    yield from (check.next for check in blocking if check.next is not None)
    try:
        failed = _failed(evidence, phase)
        if failed is not None:
            arguments = {"project": evidence.name, "run_id": failed}
            yield NextCall(tool="diagnose_run", arguments=arguments, why="it reads why the run failed")
    except TrainwrightError:
        return  # a configuration or record that cannot be read: the check's own remedy says what to do


def _failed(evidence: Evidence, phase: Phase) -> str | None:
    kinds = {Phase.PLANNING: RunKind.SMOKE, Phase.BASELINE: RunKind.BASELINE, Phase.FINALIZATION: RunKind.FINAL}
    run = evidence.final if phase is Phase.FINALIZATION else evidence.baseline
    run = evidence.smoke if phase is Phase.PLANNING else run
    if phase not in kinds or run is None:
        return None
    found = failed_alike(evidence, kinds[phase], run.row.config_digest)
    return found.id if found is not None else None


def _to_read(evidence: Evidence, phase: Phase, check: CheckResult, passed_over: str) -> NextCall:
    """Name the document about a problem that only the files' owner can fix."""
    run = evidence.smoke if phase is Phase.PLANNING and evidence.has_valid_config else None
    failure = run.status.failure if run is not None else None
    if failure is not None:
        document, what = failure.document or YOUR_CODE, f"{failure.message} {failure.remedy}"
    else:
        advice = f"; {check.next.why}" if check.next is not None and check.next.why else ""
        document, what = phase.document, f"{check.id} measured {check.measured}{advice}"
    why = f"{what[:MOST_CHARACTERS]} ({passed_over})" if passed_over else what[:MOST_CHARACTERS]
    return NextCall(tool="read_document", arguments={"path": document}, why=why)


def _was_refused_just_now(evidence: Evidence, phase: Phase) -> bool:
    """Whether the newest thing that happened to the project is that this gate refused."""
    decisions = evidence.decisions
    if not decisions or (decisions[-1][1]["phase"], decisions[-1][1]["outcome"]) != (phase.value, "refused"):
        return False
    kinds = ("run_started", "run_sealed", "run_resumed", "config_version", "diagnosis", "study")
    return all(sequence < decisions[-1][0] for kind in kinds for sequence, _ in evidence.entries(kind)[-1:])
