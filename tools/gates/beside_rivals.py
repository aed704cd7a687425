"""Rivals beside a model, typed and in sentences: on the test rows where they were evaluated, else on validation."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from trainwright.tools.evaluation.told_apart import shown_by
from trainwright.tools.gates.bounds import is_smaller_better
from trainwright.tools.gates.records import Records, RunRecords
from trainwright.tools.ledger.events import RunEvaluated
from trainwright.tools.training_monitor.outdone import ALIKE, BETTER, WORSE, BesideRival, Shown, outdoing
from trainwright.trainer.run import RunDirectory
from trainwright.trainer.run.rivals import Rivals

NAMES = ("the model", "the rival")
WORDS = {BETTER: "the model is better", WORSE: "the model is worse", ALIKE: ALIKE}
VALIDATION = "validation"


def rivals_text(evidence: Records) -> str:
    """Return what rivals score beside the model, on the test rows; else beside the baseline on validation's; or ''."""
    tested = compared_text(evidence, evidence.export, "test") if evidence.export is not None else ""
    return tested or baseline_text(evidence)


def baseline_text(evidence: Records) -> str:
    """Return what rivals score beside the baseline on validation; '' where there are none."""
    run, metric = evidence.baseline, evidence.goal_metric
    if run is None:
        return ""
    return beside_text(run.evaluation, run.directory, evidence.goal, (metric, run.best_value(metric)))


def beside_text(
    evaluated: RunEvaluated | None, run: RunDirectory, goal: Mapping[str, Any], best: tuple[str, float | None]
) -> str:
    """Return what rivals score beside a baseline on validation: as evaluated, else as its process scored them; or ''.

    Args:
        evaluated: the baseline's evaluation.
        run: the baseline's.
        goal: {metric, direction}.
        best: a metric, and the model's value of it, for a rival that was not evaluated.
    """
    reference = run.specification().config.reference
    fitted = None if _has_fitted(evaluated, reference) else validation_text(run, *best)
    return " ".join(filter(None, (fitted, evaluated_text(evaluated, goal, reference))))


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


def beside_baseline(evidence: Records) -> list[BesideRival]:
    """Return the present baseline beside its strongest rival and the user's reference, on validation."""
    run = evidence.baseline
    return beside_rivals(run.evaluation, evidence.goal, run_reference(run)) if run is not None else []


def baseline_outdone(evidence: Records) -> BesideRival | None:
    """Return the rival that is better than the present baseline beyond chance; None: there is none."""
    return outdoing(beside_baseline(evidence), evidence.goal_metric)


def run_reference(run: RunRecords) -> str | None:
    """Return the reference under which a run was started."""
    return run.directory.specification().config.reference


def beside_rivals(
    evaluated: RunEvaluated | None, goal: Mapping[str, Any], reference: str | None, split: str = VALIDATION
) -> list[BesideRival]:
    """Return an evaluated program beside the strongest fitted rival, and after it beside the user's reference.

    Args:
        goal: {metric, direction}.
        reference: its name.
    """
    record, told = _record(evaluated, split), _told_at_length(evaluated, goal, reference, split)[0]
    return [one for rival in told if (one := _beside(record, goal, *rival)) is not None]


def compared_text(evidence: Records, run: RunRecords, split: str) -> str:
    """Return what the strongest fitted rival, and the user's reference, score beside a run's program; or ''."""
    return evaluated_text(run.evaluation, evidence.goal, evidence.config.reference, split)


def evaluated_text(
    evaluated: RunEvaluated | None, goal: Mapping[str, Any], reference: str | None, split: str = VALIDATION
) -> str:
    """Return the sentences of an evaluation on its rivals, those at length first; '' where it has none.

    Args:
        goal: {metric, direction}.
        reference: the user's, by its name.
    """
    record, (first, others) = _record(evaluated, split), _told_at_length(evaluated, goal, reference, split)
    found = [
        _sentence(record, split, one) + _by_others(record, goal, one, rival)
        for name, rival in first
        if (one := _beside(record, goal, name, rival)) is not None
    ]
    brief = [one for rival in others if (one := _beside(record, goal, *rival)) is not None]
    found += [f"{one.told[0].upper()}{one.told[1:]}: {one.theirs:.4g}; {_apart(record, one)}" for one in brief]
    problems = [one for one in record.get("rivals", {}).values() if "problem" in one]
    return " ".join([*found, *(f"No figure of {one['told']}: {one['problem']}." for one in problems)])


def _record(evaluated: RunEvaluated | None, split: str) -> dict[str, Any]:
    return {} if evaluated is None or evaluated.problem else dict(evaluated.splits.get(split, {}))


def _has_fitted(evaluated: RunEvaluated | None, reference: str | None) -> bool:
    """Return whether an evaluation has figures of a rival that a worker fitted, beside the user's reference."""
    rivals = _record(evaluated, VALIDATION).get("rivals", {})
    return any(one.get("metrics") for name, one in rivals.items() if name != reference)


Named = tuple[str, dict[str, Any]]


def _told_at_length(
    evaluated: RunEvaluated | None, goal: Mapping[str, Any], reference: str | None, split: str
) -> tuple[list[Named], list[Named]]:
    """Return the strongest fitted rival and the user's reference, and apart from them the others."""
    rivals = {name: one for name, one in _record(evaluated, split).get("rivals", {}).items() if one.get("metrics")}
    own = [(reference, rivals.pop(reference))] if reference is not None and reference in rivals else []
    if not rivals:
        return own, []
    metrics = {name: one["metrics"] for name, one in rivals.items()}
    strongest = _strongest(metrics, goal["metric"], partial(_is_minimized, goal))[0]
    return [(strongest, rivals.pop(strongest)), *own], list(rivals.items())


def _is_minimized(goal: Mapping[str, Any], metric: str) -> bool:
    """Return whether the least value of a metric is the best: the goal's as the goal says."""
    return bool(goal["direction"] == "minimize") if metric == goal["metric"] else is_smaller_better(metric)


def _strongest(
    scored: dict[str, dict[str, float]], metric: str, is_minimized: Callable[[str], bool]
) -> tuple[str, str]:
    """Return whose score is the best, and by which metric: the one asked for, or the first where one has it not."""
    name = metric if all(metric in scores for scores in scored.values()) else next(iter(next(iter(scored.values()))))
    known = {who: scores[name] for who, scores in scored.items() if name in scores}
    best = min if is_minimized(name) else max
    return best(known, key=lambda who: known[who]), name


def _by_others(record: dict[str, Any], goal: Mapping[str, Any], one: BesideRival, rival: dict[str, Any]) -> str:
    """Return what each other metric says of a model and its rival, where it says another thing; '' where none does."""
    said: dict[str, list[str]] = {}
    told = {one.metric, *record.get("own", []), *record.get("episodes", {})}  # of a function nobody said what is better
    for metric in rival.get("paired", {}).get("intervals", {}):
        shown = _shown(goal, metric, rival)
        if metric in record["metrics"] and metric not in told and shown.word != one.word and shown.interval:
            between = f"{metric} ({shown.interval[0]:.3g} to {shown.interval[1]:.3g})"
            said.setdefault(shown.told(WORDS), []).append(between)
    others = [f"by {' and '.join(metrics)}: {words}" for words, metrics in said.items()]
    return f" But {', '.join(others)}." if others else ""


def _shown(goal: Mapping[str, Any], metric: str, rival: dict[str, Any]) -> Shown:
    return shown_by(rival.get("paired", {}), metric, NAMES, is_minimized=_is_minimized(goal, metric))


def _beside(record: dict[str, Any], goal: Mapping[str, Any], name: str, rival: dict[str, Any]) -> BesideRival | None:
    """Return the program beside a rival by the goal's metric, else the first of both; None where no metric is."""
    shared = [metric for metric in rival["metrics"] if metric in record["metrics"]]
    if not shared:
        return None
    metric = goal["metric"] if goal["metric"] in shared else shared[0]
    return BesideRival(
        name=name,
        told=rival["told"],
        metric=metric,
        ours=record["metrics"][metric],
        theirs=rival["metrics"][metric],
        shown=_shown(goal, metric, rival),
    )


def _sentence(record: dict[str, Any], split: str, one: BesideRival) -> str:
    """Return both figures, the difference, its interval and the word."""
    played = record.get("episodes", {}).get(one.metric)
    on = f"{played['count']} episodes" if played else f"{record['rows']} {split} rows"
    chosen = ", whose epoch was chosen by them" * (split == VALIDATION and not played)
    return (
        f"{one.metric} on the same {on}: the model {one.ours:.4g}{chosen}, {one.told} {one.theirs:.4g}; "
        f"{_apart(record, one)}"
    )


def _apart(record: dict[str, Any], one: BesideRival) -> str:
    """Return the difference, its interval and the word."""
    is_over = record.get("groups") and one.metric not in record.get("episodes", {})
    over, ends = f" over {record['groups']} {record['grouped_by']}" if is_over else "", one.shown.interval
    between = f"95 % interval{over} {ends[0]:.3g} to {ends[1]:.3g}" if ends else "too few rows to tell"
    return f"difference {one.ours - one.theirs:+.3g} ({between}): {one.shown.told(WORDS)}."
