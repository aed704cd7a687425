"""Facts of a project that decide its next call (`decision.py`)."""

from __future__ import annotations

import math
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import Any

from sqlalchemy.orm import Session

from trainwright.tools.answers import NextCall
from trainwright.tools.gates.attempts import better_ablation
from trainwright.tools.gates.call_history import failed_alike, in_vain
from trainwright.tools.gates.checks.diagnostics import diagnosis
from trainwright.tools.gates.decide import GateReport, evaluate
from trainwright.tools.gates.decision import About, Facts, Option, decide
from trainwright.tools.gates.evidence import Evidence
from trainwright.tools.gates.exits import baseline_value, exit_of, is_improved_below_goal, takes_best, verdict
from trainwright.tools.gates.ideas import research_call
from trainwright.tools.gates.improvement import validation_rows
from trainwright.tools.gates.later import later_call
from trainwright.tools.gates.leak_prices import removal, unpriced
from trainwright.tools.gates.outcomes import CheckResult
from trainwright.tools.gates.phase_status import barred, phase_status_of
from trainwright.tools.gates.phases import Phase
from trainwright.tools.gates.records import Records
from trainwright.tools.gates.repeats import owed_repeats
from trainwright.tools.gates.searches import (
    conclude,
    first_search,
    moved_search,
    no_room,
    resumed_search,
    search_anew,
    search_seconds,
    unmet_wish,
)
from trainwright.tools.gates.studies import studies_of
from trainwright.tools.gates.trying import options_against, waiting_call
from trainwright.tools.ledger import Inspection, Look
from trainwright.tools.workspace import Workspace
from trainwright.tools.workspace.query_cache import Sources
from trainwright.trainer.base.errors import TrainwrightError
from trainwright.trainer.run import RunKind

YOUR_CODE = "configs/your_code.md"
MAX_CHARACTERS = 400


def next_call(
    session: Session, workspace: Workspace, project: str, *, after: NextCall | None = None,
    sources: Sources | None = None,
) -> NextCall | None:  # fmt: skip
    """Return the project's next call; None when all gates have passed, and the intent names no later step.

    Args:
        sources: of the answer that it is part of.
        after: the call being answered, where it changes nothing: it is not named again.
    """
    evidence = Evidence(session, workspace, project, inspection=Look(sources))
    return next_of(evidence, after=after)


def next_of(evidence: Evidence, *, report: GateReport | None = None, after: NextCall | None = None) -> NextCall | None:
    """Return the project's next call from evidence that was read already.

    Args:
        report: the results of the present phase's checks, where they have been evaluated.
        after: the call being answered, where it changes nothing.
    """
    facts = facts_of(evidence, report=report, after=after)
    call = decide(facts)
    if call is None or call is not facts.idea or call.tool != "read_document":
        return call
    other = decide(facts.model_copy(update={"idea": None}))
    return call if other is None else call.model_copy(update={"why": f"{call.why}. Or leave the ideas: {other}"})


def opening(evidence: Evidence, phase: Phase, blocking: list[CheckResult]) -> NextCall:
    """Return the call that may open a closed gate; where none is left, the document to follow.

    The rest is work on files, or a question to a person.
    """
    call = decide(Facts(**_closed(evidence, phase, blocking)))
    assert call is not None, "a closed gate has a document"  # noqa: S101
    return call


def facts_of(
    evidence: Evidence,
    *,
    report: GateReport | None = None,
    after: NextCall | None = None,
    about: Callable[[], About] = About,
) -> Facts:
    """Gather the facts that decide a project's next call, in the order in which they may be needed.

    Args:
        about: of the run that is asked about.
    """
    where = phase_status_of(evidence)
    facts: dict[str, Any] = {"about": about(), "is_finished": where.is_finished, "after": after}
    if where.is_finished:
        return Facts(**facts, later=_option(evidence, later_call(evidence)))
    if (judged := evidence.baseline or evidence.smoke) is not None:
        waiting = waiting_call(evidence, judged)
        facts["trial"] = _option(evidence, waiting if waiting is not None and waiting.tool == "run_status" else None)
    if where.phase is not Phase.PLANNING:
        facts["leak"] = _option(evidence, removal(evidence))
    if (
        where.phase is Phase.DIAGNOSTICS
        and evidence.baseline is not None
        and (found := diagnosis(evidence)) is not None
    ):
        sick = [alert for alert in found["alerts"] if alert["severity"] != "info"]
        value = evidence.baseline.best_value(evidence.goal_metric)  # certified, whatever its process reported
        is_met = value is not None and evidence.reaches_goal(value)
        facts["cures"] = [] if is_met else options_against(evidence, evidence.baseline, sick, proven=True)
    facts["better"] = _better(evidence, where.phase)
    facts["idea"] = research_call(evidence, where.phase)
    blocking = (report or evaluate(evidence, where.phase)).blocking
    if not blocking and _was_refused_just_now(evidence, where.phase):  # by files that only a decision reads again
        anew = Evidence(evidence.session, evidence.workspace, evidence.name, inspection=Inspection())
        blocking = evaluate(anew, where.phase).blocking
    if blocking:
        return Facts(**facts, **_closed(evidence, where.phase, blocking))
    if where.phase is Phase.BASELINE:
        facts["price"] = _option(evidence, unpriced(evidence))
    if where.phase is Phase.OPTIMIZATION:
        wanted = owed_search(evidence) or (moved_search(evidence) if is_improved_below_goal(evidence) else None)
        repeats = owed_repeats(evidence) if exit_of(evidence) == "skipped" else None
        facts |= {"search": _option(evidence, wanted) or repeats, "seconds_left": evidence.seconds_left}
        if is_improved_below_goal(evidence):  # what follows reads the test split: that is a decision
            return Facts(**facts, gate=Option(call=conclude(evidence, verdict(evidence, where.phase))))
    return Facts(**facts, gate=Option(call=_passing(evidence, where.phase)))


def _better(evidence: Evidence, phase: Phase) -> Option | None:
    """Return the change to a better ablation where it is decided what to release: the baseline, or a study's best."""
    is_chosen = phase is not Phase.OPTIMIZATION or takes_best(evidence)
    return None if is_chosen else _option(evidence, better_ablation(evidence))


def _passing(evidence: Evidence, phase: Phase) -> NextCall:
    """Name the gate, which no check keeps closed, and the search that it is passed without."""
    why = "every check of the phase passes"
    if phase is Phase.OPTIMIZATION and (asked := unmet_wish(evidence)) and (hindered := no_room(evidence)):
        why += f"; the intent asks for a search ({asked.words!r}), and none is proposed: {hindered}"
    return evidence.call("pass_gate", why, phase=phase.value)


def option_of(evidence: Evidence, call: NextCall) -> Option:
    """Return a call with what is known of its result and its price."""
    vain: str = evidence.once(("in vain", str(call)), partial(in_vain, evidence, call))
    if call.tool == "resume_training" and (run := evidence.run(call.arguments["run_id"])) is not None:
        vain = barred(evidence, run)
    seconds = search_seconds(evidence, call.arguments) if call.tool == "start_tuning" else None
    return Option(call=call, vain=vain, seconds=seconds)


def _option(evidence: Evidence, call: NextCall | None) -> Option | None:
    return None if call is None else option_of(evidence, call)


def _closed(evidence: Evidence, phase: Phase, blocking: list[CheckResult]) -> dict[str, Any]:
    """Return the facts of a closed gate: the failing checks' remedies, alternatives, what to read, the time left."""
    document = _to_read(evidence, phase, blocking[0])
    no_call = "no call helps: it is work on the code"
    closed = [
        Option(call=document, vain=no_call) if check.next is None else option_of(evidence, check.next)
        for check in blocking
    ]
    with suppress(TrainwrightError):  # a record that cannot be read: the check's own remedy says what to do
        if (failed := _failed(evidence, phase)) is not None:
            own = {"project": evidence.name, "run_id": failed}
            call = NextCall(tool="diagnose_run", arguments=own, why="it reads why the run failed")
            closed.append(option_of(evidence, call))
    left = evidence.seconds_left if phase is Phase.OPTIMIZATION else None
    return {"closed": closed, "document": document, "seconds_left": left}


def _failed(evidence: Evidence, phase: Phase) -> str | None:
    kinds = {Phase.PLANNING: RunKind.SMOKE, Phase.BASELINE: RunKind.BASELINE, Phase.FINALIZATION: RunKind.FINAL}
    run = evidence.final if phase is Phase.FINALIZATION else evidence.baseline
    run = evidence.smoke if phase is Phase.PLANNING else run
    if phase not in kinds or run is None:
        return None
    found = failed_alike(evidence, kinds[phase], run.row.config_digest)
    return found.id if found is not None else None


def _to_read(evidence: Evidence, phase: Phase, check: CheckResult) -> NextCall:
    """Name the document about a problem that only the files' owner can fix."""
    run = evidence.smoke if phase is Phase.PLANNING else None
    failure = run.status.failure if run is not None else None
    if failure is not None:
        document, what = failure.document or YOUR_CODE, f"{failure.message} {failure.remedy}"
    else:
        advice = f"; {check.next.why}" if check.next is not None and check.next.why else ""
        document, what = phase.document, f"{check.id} measured {check.measured}{advice}"
    return NextCall(tool="read_document", arguments={"path": document}, why=what[:MAX_CHARACTERS])


def _was_refused_just_now(evidence: Evidence, phase: Phase) -> bool:
    """Whether the newest thing that happened to the project is that this gate refused."""
    decisions = evidence.decisions
    if not decisions or (decisions[-1][1]["phase"], decisions[-1][1]["outcome"]) != (phase.value, "refused"):
        return False
    kinds = ("run_started", "run_sealed", "run_resumed", "config_version", "diagnosis", "study")
    return all(sequence < decisions[-1][0] for kind in kinds for sequence, _ in evidence.entries(kind)[-1:])


# Searches that would be lost if optimization were skipped: asked for, begun, or needed by a goal met by a hair.
#
# A search is asked for by the configuration's `search`, at any time before the export, or by the project's intent.

SHARES = frozenset({"accuracy", "balanced_accuracy", "f1_micro", "top_3_accuracy", "top_5_accuracy"})
"""Metrics that count rows: their chance follows from the number of rows."""
HAIR = 0.25
"""Of the standard error of a share; or a single row, where that is more."""


def owed_search(evidence: Records) -> NextCall | None:
    """Return the search to make before optimization is skipped; None where nothing is lost by skipping it.

    Its reason says what is lost, and names the call that goes on without it.
    """
    if exit_of(evidence) != "skipped" or evidence.spent:
        return None
    studies = studies_of(evidence)
    if any(body["state"] == "completed" for body in studies.values()):
        return None
    stopped, failed = ([(name, body) for name, body in studies.items() if body["state"] == state]
                       for state in ("stopped", "failed"))  # fmt: skip
    if stopped:
        name, body = stopped[-1]
        ended = sum(trial["state"] != "running" for trial in body.get("trials") or [])
        reason = f"{name} was stopped after {ended} trials, which passing the gate discards"
        call = resumed_search(evidence, {"study_id": name, **body})
    else:
        reason, call = _wish(evidence) or _by_a_hair(evidence), None
        again = f"{failed[-1][0]} failed" if failed else ""
        call = (search_anew(evidence, again) if again else first_search(evidence)) if reason else None
    if call is None or call.tool == "pass_gate":
        return None
    without = f"pass_gate(project={evidence.name!r}, phase='optimization') goes on without it"
    return call.model_copy(update={"why": f"the goal is met, and {reason}; {without}. {call.why}"})


def _wish(evidence: Records) -> str:
    if evidence.config.search is not None:
        return "the configuration asks for a search"
    asked = unmet_wish(evidence)
    return f"the intent asks for a search ({asked.words!r})" if asked else ""


def _by_a_hair(evidence: Records) -> str:
    """Return by how little the baseline meets the goal where that is chance; empty where it is more, or unknown."""
    value, metric = baseline_value(evidence), evidence.goal_metric
    rows = validation_rows(evidence)
    if value is None or metric not in SHARES or not rows or not 0 < value < 1:
        return ""
    margin = abs(value - float(evidence.goal["target"]))
    if margin * rows >= max(1.0, HAIR * math.sqrt(value * (1 - value) * rows)):
        return ""
    return f"by {margin:.2g} only: one of the {rows} validation rows, or another seed, may decide it"
