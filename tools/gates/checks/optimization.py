"""Optimization: an improvement over seeds; or the goal is met, the owner accepts, or it is concluded."""

from __future__ import annotations

from trainwright.tools.answers import NextCall
from trainwright.tools.gates.attempts import describe_attempts
from trainwright.tools.gates.checklist import CheckLine
from trainwright.tools.gates.evidence import Evidence
from trainwright.tools.gates.exits import exit_of, grounds, takes_best
from trainwright.tools.gates.figures import NOT_EVALUATED
from trainwright.tools.gates.improvement import told_separated
from trainwright.tools.gates.outcomes import Outcome, check, failed, not_applicable, passed, passed_if
from trainwright.tools.gates.searches import (
    conclude,
    first_search,
    is_baseline,
    next_search,
    resumed_search,
    search_anew,
)
from trainwright.tools.gates.studies import studies_of, studies_under_way
from trainwright.tools.gates.study_check import study_differences
from trainwright.trainer.run import RunKind

MAX_NAMED = 3
ENDS_WITHOUT = {
    "skipped": "skipped: the baseline meets the goal",
    "accepted": "accepted: the owner accepts the baseline's result",
    "concluded": "concluded below the goal: the baseline's configuration stands",
}
"""Exits by which nothing of a study is finalized."""


@check("optimization.needed")
def needed(evidence: Evidence, line: CheckLine) -> Outcome:
    """Whether the baseline meets the goal is recorded with its value and the attempts that it was chosen from."""
    if evidence.baseline is None:
        return failed("no baseline", evidence.goal_text, evidence.start(RunKind.BASELINE))
    value = evidence.baseline.best_value(evidence.goal_metric)
    shown = "not measured" if value is None else f"{value:.6g}"
    is_met = evidence.reaches_goal(value)
    verdict = "met: optimization may be skipped" if is_met else "not met"
    measured = f"baseline {evidence.goal_metric} {shown} ({verdict})"
    return passed("; ".join(filter(None, [measured, describe_attempts(evidence)])), evidence.goal_text)


@check("optimization.study_completed")
def study_completed(evidence: Evidence, line: CheckLine) -> Outcome:
    """A study on this configuration has ended."""
    if without := _without(evidence):
        return not_applicable(without, line.text)
    study = evidence.study
    if study is None:
        beside = "; an ablation study opens no gate" if evidence.entries("ablation") else ""
        return failed(f"no study on this configuration{beside}", line.text, first_search(evidence))
    return passed_if(study.state == "completed", f"{study.id} is {study.state}", line.text, _study_next(evidence))


@check("optimization.best_configuration")
def best_configuration(evidence: Evidence, line: CheckLine) -> Outcome:
    """The study names one best configuration."""
    without = _without(evidence)
    if without and not evidence.concludes:
        return not_applicable(without, line.text)
    if differences := study_differences(evidence):
        why = "the record of that one does not hold"
        return failed("; ".join(differences[:MAX_NAMED]), line.text, search_anew(evidence, why))
    if without:
        return not_applicable(without, line.text)
    best = evidence.confirmation.get("best_parameters")
    own = f"{best}: the baseline's own, nothing better was found" if is_baseline(evidence.confirmation) else best
    return passed_if(bool(best), own or "none yet", line.text, _study_next(evidence))


@check("optimization.improvement_validated")
def improvement_above_spread(evidence: Evidence, line: CheckLine) -> Outcome:
    """The improvement's confidence interval over repeated seeds is above zero."""
    required = f"over at least {line.threshold:.0f} seeds: interval above zero, mean above the baseline's spread"
    if without := _without(evidence):
        return not_applicable(without, required)
    found, problems = evidence.improvement
    if problems:
        return failed("; ".join(problems[:MAX_NAMED]), required, _study_next(evidence, problems[0]))
    interval = f"{100 * found['confidence']:.4g} % [{found['improvement_low']:+.4g}, {found['improvement_high']:+.4g}]"
    seeds = f"over {len(found['seeds'])} seeds, spread {found['baseline_spread']:.4g}"
    measured = f"{found['improvement_mean']:+.4g}, {interval} {seeds}, look {found['look']}"
    measured += f"; {NOT_EVALUATED}: values as reported" if found.get("certified") is False else ""
    if found["validated"]:
        return passed(measured, required)
    return failed(measured, required, next_search(evidence, found))


@check("optimization.conclusion_grounded")
def conclusion_grounded(evidence: Evidence, line: CheckLine) -> Outcome:
    """Ending below the goal has a ground: a search that ended, limits or fixes used up, or nothing to search."""
    required = (
        "a study on this configuration that has ended, a used-up limit, fixes tried in vain, or nothing to search"
    )
    if not evidence.concludes or exit_of(evidence) in {"passed", "skipped", "accepted"}:
        return not_applicable("not concluded below the goal", required)
    found = grounds(evidence)
    return passed_if(bool(found), found or "no study has ended", required, _study_next(evidence))


def _without(evidence: Evidence) -> str:
    """Return why the phase ends without a search's result; empty where it needs one."""
    if exit_of(evidence) == "concluded" and takes_best(evidence):
        return f"concluded without a settled gain: {told_separated(evidence.improvement[0])}; the best is taken"
    return ENDS_WITHOUT.get(str(exit_of(evidence)), "")


def _study_next(evidence: Evidence, why: str = "") -> NextCall:
    """Name the call that ends the study, or the one after it."""
    under_way = studies_under_way(evidence)
    if under_way:
        arguments = {"study_id": under_way[-1], "wait_seconds": 50}
        return NextCall(tool="tuning_status", arguments=arguments, why="the study is under way")
    study = evidence.study
    entry = studies_of(evidence).get(study.id) if study is not None else None
    if study is None or entry is None:  # a row without an entry in the ledger is no study
        return first_search(evidence)
    if study.state == "stopped":
        return resumed_search(evidence, entry)
    if "same weights" in why:
        return conclude(evidence, f"another search could show no more: {why}")
    failure = entry.get("failure") or {}
    remedy = (failure.get("details") or {}).get("next") or {}
    if study.state == "failed" and remedy.get("tool") == "start_tuning" and not evidence.spent:
        # the failure itself says which search would not fail so
        return NextCall(tool="start_tuning", arguments=remedy["arguments"], why=str(failure.get("message", "")))
    cause = failure.get("message", "")
    return search_anew(evidence, why or f"{study.id} {study.state}{f': {cause}' if cause else ''}")
