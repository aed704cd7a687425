"""Goal of a project: a metric, its direction, and a target that can be reached."""

from __future__ import annotations

import math
from collections.abc import Collection
from typing import Any

from trainwright.trainer.base.errors import folded, near
from trainwright.trainer.config.goal_words import spoken_goals
from trainwright.trainer.config.key_aliases import OF_VALIDATION, our_name, renamed
from trainwright.trainer.config.plain_values import equal, shown
from trainwright.trainer.config.value_coercion import from_text, number_in
from trainwright.trainer.metrics.built_in import BUILT_IN

MAXIMIZE, MINIMIZE = "maximize", "minimize"
DIRECTIONS = (MAXIMIZE, MINIMIZE)
MEASURED = {
    **{name: (MINIMIZE if metric.minimize else MAXIMIZE, *metric.bounds) for name, metric in BUILT_IN.items()},
    **dict.fromkeys(("linear_probe_accuracy", "neighbour_accuracy", "robust_accuracy"), (MAXIMIZE, 0.0, 1.0)),
    **dict.fromkeys(("loss", "robust_loss"), (MINIMIZE, -math.inf, math.inf)),
}
"""Each metric that Trainwright measures itself, with its better direction, lowest and highest value."""
KEYS = {
    "metric": ("name", "measure", "metric_name", "monitor", "key", "score_name"),
    "direction": ("mode", "optimize", "objective", "aim", "dir", "goal_direction"),
    "target": ("value", "threshold", "target_value", "at_least", "score", "goal", "min_value", "level"),
}
EXAMPLE = {"metric": "accuracy", "direction": MAXIMIZE, "target": 0.95}


def corrected_goal(given: Any, config: Any = None) -> tuple[Any, list[str]]:
    """Return the goal that is meant, and a sentence for each part read in another form; unclear parts stay.

    Args:
        given: the goal, or its text.
        config: the configuration beside it, whose own metrics keep their names.
    """
    read = from_text(given) if isinstance(given, str) else given
    if not isinstance(read, dict):
        return given, []
    goal = _our_keys({key: value for key, value in read.items() if value not in (None, "")})
    if isinstance(goal.get("metric"), str):
        goal["metric"] = corrected_metric(goal["metric"], _own_metrics(config))
    if isinstance(goal.get("direction"), str):
        goal["direction"] = our_name(goal["direction"], DIRECTIONS) or goal["direction"]
    if isinstance(goal.get("target"), str):
        number = number_in(goal["target"])
        goal["target"] = goal["target"] if number is None else number
    known = MEASURED.get(str(goal.get("metric")))
    if "direction" not in goal and known is not None:
        goal["direction"] = known[0]
    is_same = goal.keys() == read.keys() and all(equal(goal[key], read[key]) for key in goal)
    return goal, [] if is_same else [f"goal {shown(given)} taken as {shown(goal)}"]


def _own_metrics(config: Any) -> set[str]:
    """Return the names of a configuration's metrics that are functions of the user's: `finder.py:iou` is iou."""
    read = from_text(config) if isinstance(config, str) else config
    metrics = read.get("metrics") if isinstance(read, dict) else None
    named = metrics if isinstance(metrics, list) else []
    uses = [one.get("use") if isinstance(one, dict) else one for one in named]
    return {str(use).rpartition(":")[2] for use in uses if ":" in str(use)}


def corrected_metric(given: str, own: Collection[str] = ()) -> str:
    """Return our name of a metric, without the prefix that says that it is measured on validation.

    Args:
        given: the metric's name.
        own: names of the user's metrics, which no built-in one takes.
    """
    bare = given.strip()
    stripped = next((bare[len(prefix) :] for prefix in OF_VALIDATION if bare.lower().startswith(prefix)), bare)
    if stripped in own:
        return stripped
    found = our_name(bare, MEASURED) or our_name(stripped, MEASURED) or stripped
    is_turned_round = folded(stripped).endswith("loss") and MEASURED.get(found, (MINIMIZE,))[0] == MAXIMIZE
    return stripped if is_turned_round else found  # dice_loss falls as dice rises


def nearest_goal(given: Any, config: Any = None) -> dict[str, Any] | None:
    """Return the nearest valid goal to one that makes no sense: for a remedy, never used silently.

    Arguments as of `corrected_goal`.
    """
    read = _from_words(given) if isinstance(given, str) else given
    if not isinstance(read, dict):
        return None
    goal, _ = corrected_goal(read, config)
    goal = {next(iter(near(key, KEYS)), key) if key not in KEYS else key: value for key, value in goal.items()}
    goal, _ = corrected_goal(goal, config)
    metric = goal.get("metric")
    if not isinstance(metric, str) or not metric:
        return None
    known = MEASURED.get(metric) or MEASURED.get(metric.rpartition("_")[2])
    direction = known[0] if known else goal.get("direction")
    target = goal.get("target")
    if direction not in DIRECTIONS or isinstance(target, bool) or not isinstance(target, int | float):
        return None
    return {"metric": metric, "direction": direction, "target": _reachable(target, known)}


def is_raised(before: dict[str, Any], after: dict[str, Any]) -> bool:
    """Return whether a goal is the one before, or harder to reach in the same metric."""
    same = all(before[key] == after[key] for key in ("metric", "direction"))
    sign = 1 if before["direction"] == MAXIMIZE else -1
    return same and bool(sign * after["target"] >= sign * before["target"])


def goal_problem(goal: dict[str, Any]) -> str | None:
    """Return why a complete goal makes no sense; None where it does."""
    known, target = MEASURED.get(goal["metric"]), goal["target"]
    if not math.isfinite(target):
        return f"goal.target {target} is not a finite number"
    if known is None:
        return None
    better = "more" if known[0] == MAXIMIZE else "less"
    if goal["direction"] != known[0]:
        return f"the goal is to {goal['direction']} {goal['metric']}, of which {better} is better"
    if not known[1] <= target <= known[2]:
        reach = f"lies in {known[1]:g} to {known[2]:g}".replace("-inf to", "any to").replace("to inf", "and above")
        return f"the goal is to {goal['direction']} {goal['metric']} to {target:g}; {goal['metric']} {reach}"
    if target == known[1 if known[0] == MAXIMIZE else 2]:
        return f"no {goal['metric']} is worse than {target:g}, so every model meets it"
    return None


def _reachable(target: float, known: tuple[str, float, float] | None) -> float:
    if known is None or not math.isfinite(target) or known[1] <= target <= known[2]:
        return target
    if known[2] == 1.0 and 1.0 < target <= 100.0:  # in percent
        return round(target / 100, 12)
    return min(max(target, known[1]), known[2])


def _from_words(given: str) -> Any:
    """Read `97 % accuracy` and `loss below 0.1`; a metric that is not measured here stays as it is named."""
    spoken = spoken_goals(given).named
    if not spoken or spoken[0].target is None:
        return from_text(given)
    first = spoken[0]
    return {"metric": first.word.metric or first.words, "target": first.target}


def _our_keys(given: dict[str, Any]) -> dict[str, Any]:
    if len(given) == 1:
        (name, value), *_ = given.items()
        if corrected_metric(name) in MEASURED:
            return {"metric": name, "target": value}
    goal = renamed(given, KEYS)
    metric = goal.get("metric")
    return {**goal, "metric": metric[0]} if isinstance(metric, list) and len(metric) == 1 else goal
