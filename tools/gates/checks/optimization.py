"""Optimization: skipped when the baseline meets the goal, otherwise an improvement that holds over several seeds."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from trainwright.tools.answers import NextCall
from trainwright.tools.gates.attempts import told
from trainwright.tools.gates.improvement import measure_improvement
from trainwright.tools.gates.outcomes import Outcome, check, failed, judged, not_applicable, passed
from trainwright.tools.gates.searched import study_differences
from trainwright.trainer.config import SearchSection
from trainwright.trainer.run import RunKind

if TYPE_CHECKING:
    from trainwright.tools.gates.checklist import CheckLine
    from trainwright.tools.gates.evidence import Evidence

MOST_REPEATS = 20
MOST_NAMED = 3


def baseline_meets_goal(evidence: Evidence) -> bool:
    """Return whether the baseline's best validation value reaches the project's target."""
    return evidence.baseline is not None and evidence.reaches_goal(evidence.baseline.best_value(evidence.goal_metric))


def improvement_validated(evidence: Evidence) -> bool:
    """Return whether the study's improvement over the baseline lies above the spread over seeds."""
    if evidence.study is None or evidence.study.state != "completed":
        return False
    measured, _ = measure_improvement(evidence)
    return measured.get("validated") is True


def is_skipped(evidence: Evidence) -> bool:
    """Return whether the phase may be skipped: the goal is met, and no search has proved to be better."""
    return baseline_meets_goal(evidence) and not improvement_validated(evidence)


@check("optimization.needed")
def needed(evidence: Evidence, line: CheckLine) -> Outcome:
    """Whether the baseline already meets the goal is recorded with its value, and among what it was chosen."""
    if evidence.baseline is None:
        return failed("no baseline", evidence.goal_text, evidence.start(RunKind.BASELINE))
    value = evidence.baseline.best_value(evidence.goal_metric)
    shown = "not measured" if value is None else f"{value:.6g}"
    verdict = "met: optimization may be skipped" if baseline_meets_goal(evidence) else "not met: a search is needed"
    measured = f"baseline {evidence.goal_metric} {shown} ({verdict})"
    return passed("; ".join(filter(None, [measured, told(evidence)])), evidence.goal_text)


@check("optimization.study_completed")
def study_completed(evidence: Evidence, line: CheckLine) -> Outcome:
    """A study on this configuration came to its end."""
    if is_skipped(evidence):
        return not_applicable("skipped: the baseline meets the goal", line.text)
    study = evidence.study
    if study is None:
        return failed("no study on this configuration", line.text, evidence.search("search for better"))
    return judged(study.state == "completed", f"{study.id} is {study.state}", line.text, _study_next(evidence))


@check("optimization.best_configuration")
def best_configuration(evidence: Evidence, line: CheckLine) -> Outcome:
    """The study names one best configuration."""
    if is_skipped(evidence):
        return not_applicable("skipped: the baseline's configuration stands", line.text)
    if differences := study_differences(evidence):
        return failed("; ".join(differences[:MOST_NAMED]), line.text, _search_anew(evidence))
    best = evidence.confirmation.get("best_parameters")
    return judged(bool(best), best or "none yet", line.text, _study_next(evidence))


@check("optimization.improvement_validated")
def improvement_above_spread(evidence: Evidence, line: CheckLine) -> Outcome:
    """The improvement's confidence interval over repeated seeds lies above zero."""
    required = f"over at least {line.threshold:.0f} seeds: interval above zero, mean above the baseline's spread"
    if is_skipped(evidence):
        return not_applicable("skipped: the baseline meets the goal", required)
    found, problems = measure_improvement(evidence)
    if problems:
        return failed("; ".join(problems[:MOST_NAMED]), required, _study_next(evidence))
    interval = f"{100 * found['confidence']:.4g} % [{found['improvement_low']:+.4g}, {found['improvement_high']:+.4g}]"
    seeds = f"over {len(found['seeds'])} seeds, spread {found['baseline_spread']:.4g}"
    measured = f"{found['improvement_mean']:+.4g}, {interval} {seeds}, look {found['look']}"
    if found["validated"]:
        return passed(measured, required)
    return failed(measured, required, _search_on(evidence, found))


def _search_on(evidence: Evidence, found: dict[str, Any]) -> NextCall:
    """Name the search after one that was not validated: more seeds for a gain above the noise, else more trials."""
    assert evidence.study is not None, "what was measured was measured on its repetitions"  # noqa: S101
    search = SearchSection.model_validate(evidence.study.search)
    repeats = min(2 * search.confirmation_repeats, MOST_REPEATS)
    if found["improvement_mean"] > found["baseline_spread"] and repeats > search.confirmation_repeats:
        changes: dict[str, Any] = {"confirmation_repeats": repeats}
        why = "the gain exceeds the spread, and so few seeds give a wide interval"
    else:
        changes = {"trials": 2 * search.trials}
        why = "the gain lies within the noise: more trials, and other keys or wider ranges"
    wanted = search.model_copy(update=changes).model_dump(mode="json", exclude_defaults=True)
    return evidence.call("start_tuning", why, search=wanted)


def _search_anew(evidence: Evidence) -> NextCall:
    """Name a study of its own: the same search would find the one whose record does not hold."""
    told = next(body["search"] for _, body in reversed(evidence.entries("study")) if "search" in body)
    search = SearchSection.model_validate(told)
    wanted = search.model_copy(update={"seed": search.seed + 1}).model_dump(mode="json", exclude_defaults=True)
    return evidence.call("start_tuning", "a new study: the record of that one does not hold", search=wanted)


def _study_next(evidence: Evidence) -> NextCall:
    if evidence.study is None or evidence.study.state in {"completed", "failed", "stopped"}:
        return evidence.search("search for a better configuration")
    arguments = {"study_id": evidence.study.id, "wait_seconds": 50}
    return NextCall(tool="tuning_status", arguments=arguments, why=f"the study is {evidence.study.state}")
