"""Sentence on what rivals score beside a model: on the test rows where they were evaluated, else on validation."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

from trainwright.tools.gates.bounds import is_smaller_better
from trainwright.tools.gates.shown import grouped_by
from trainwright.trainer.run.rivals import Rivals

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from trainwright.tools.gates.evidence import Evidence
    from trainwright.tools.gates.run_evidence import RunEvidence
    from trainwright.trainer.run import RunDirectory

BETTER, WORSE, ALIKE = "better", "worse", "not told apart"
WORDS = {BETTER: "the model is better", WORSE: "the model is worse", ALIKE: ALIKE}


def rivals_text(evidence: Evidence) -> str:
    """Return what rivals score beside the model, on the test rows; else beside the baseline on validation's; or ''."""
    tested = compared_text(evidence, evidence.export, "test") if evidence.export is not None else ""
    return tested or baseline_text(evidence)


def baseline_text(evidence: Evidence) -> str:
    """Return what rivals score beside the baseline on validation; '' where there are none."""
    run, metric = evidence.baseline, evidence.goal_metric
    if run is None:
        return ""
    fitted = validation_text(run.directory, metric, run.best_value(metric))
    return " ".join(filter(None, (fitted, compared_text(evidence, run, "validation"))))


def validation_text(run: RunDirectory, metric: str, value: float | None) -> str | None:
    """Return what a baseline's strongest rival scores on validation; None where there is none.

    Args:
        run: of the baseline.
        metric: the goal's; the rival's first one where it has no such value.
        value: the model's on the validation split.
    """
    part = run.part(Rivals)
    if part.not_fitted is not None:
        return f"No rival was fitted for comparison: {part.not_fitted}."
    scored = {one.told: one.metrics for one in part.rivals if one.metrics}
    if not scored:
        return None
    told, name = _strongest(scored, metric, is_smaller_better)
    of_model = f"the model {value:.4g}, whose epoch was chosen by them; " * (name == metric and value is not None)
    return f"{name} on the same {part.validation_rows} validation rows: {of_model}{told} {scored[told][name]:.4g}."


def compared_text(evidence: Evidence, run: RunEvidence, split: str) -> str:
    """Return what the strongest fitted rival, and the user's reference, score beside a run's program; or ''."""
    evaluated = run.evaluation
    if evaluated is None or evaluated.problem:
        return ""
    record, own = evaluated.splits.get(split, {}), evidence.config.reference
    rivals = {name: one for name, one in record.get("rivals", {}).items() if one.get("metrics")}
    reference = [rivals.pop(own)] if own in rivals else []
    others: list[dict[str, Any]] = []
    if rivals:
        metrics = {name: one["metrics"] for name, one in rivals.items()}
        strongest = _strongest(metrics, evidence.goal_metric, partial(_is_minimized, evidence))[0]
        reference = [rivals.pop(strongest), *reference]
        others = list(rivals.values())
    told = [_compared(evidence, record, split, one) for one in reference]
    told += [_compared(evidence, record, split, one, is_brief=True) for one in others]
    problems = [one for one in record.get("rivals", {}).values() if "problem" in one]
    return " ".join([*filter(None, told), *(f"No figure of {one['told']}: {one['problem']}." for one in problems)])


def word_of(interval: Sequence[float] | None, *, is_minimized: bool) -> str:
    """Return `better`, `worse`, or `not told apart`, by the interval of model minus rival."""
    if interval is None or interval[0] <= 0 <= interval[1]:
        return ALIKE
    return BETTER if (interval[0] > 0) != is_minimized else WORSE


def _is_minimized(evidence: Evidence, metric: str) -> bool:
    """Return whether the least value of a metric is the best: the goal's as the goal says."""
    is_goals = metric == evidence.goal_metric
    return evidence.goal["direction"] == "minimize" if is_goals else is_smaller_better(metric)


def _strongest(
    scored: dict[str, dict[str, float]], metric: str, is_minimized: Callable[[str], bool]
) -> tuple[str, str]:
    """Return whose score is the best, and by which metric: the one asked for, or the first where one has it not."""
    name = metric if all(metric in scores for scores in scored.values()) else next(iter(next(iter(scored.values()))))
    known = {who: scores[name] for who, scores in scored.items() if name in scores}
    best = min if is_minimized(name) else max
    return best(known, key=lambda who: known[who]), name


def _compared(
    evidence: Evidence, record: dict[str, Any], split: str, rival: dict[str, Any], *, is_brief: bool = False
) -> str:
    """Return figures, difference, its interval and the word, or figure and word; '' where no metric is of both."""
    shared = [name for name in rival["metrics"] if name in record["metrics"]]
    if not shared:
        return ""
    name = evidence.goal_metric if evidence.goal_metric in shared else shared[0]
    ours, theirs = record["metrics"][name], rival["metrics"][name]
    interval = rival.get("paired", {}).get("intervals", {}).get(name)
    played = record.get("episodes", {}).get(name)
    on = f"{played['count']} episodes" if played else f"{record['rows']} {split} rows"
    over = f" over {record['groups']} {grouped_by(record)}" if record.get("groups") and not played else ""
    between = f"95 % interval{over} {interval[0]:.3g} to {interval[1]:.3g}" if interval else "too few rows to tell"
    word = WORDS[word_of(interval, is_minimized=_is_minimized(evidence, name))]
    if is_brief:
        return f"{rival['told'].capitalize()}: {theirs:.4g}, {word}."
    return (
        f"{name} on the same {on}: the model {ours:.4g}, {rival['told']} {theirs:.4g}; "
        f"difference {ours - theirs:+.3g} ({between}): {word}."
    )
