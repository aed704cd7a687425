"""Figures that a goal is held to: the mean over the seeds, else the certified figure, and the test rows beside it.

Each figure has its 95 % interval. A goal is reached where the worse end of every interval meets it; a figure that meets
it alone has not shown it. Nothing here closes a gate: gates decide by the figure, and the head says what it shows.
"""

from __future__ import annotations

import math
from typing import Any

from trainwright.tools.gates.figures import counted
from trainwright.tools.gates.improvement import seeds_interval, validation_rows
from trainwright.tools.gates.records import Records, RunRecords

MAX_TIMES = 1000.0
"""As many rows as it would take to show a goal are told up to so many times those that there are."""
TWO_DIGITS = 2
MIN_EPISODES = 30
"""From which a mean says something where all gave the same, or where it differs from another by chance."""


def certified_figure(run: RunRecords | None, split: str, metric: str) -> dict[str, Any]:
    """Return {value, interval, rows, unit, of} of a metric that the clean room computed; empty where there is none.

    `rows` are the units that an interval draws: rows where `unit` is left out, else groups, times or episodes.
    """
    value = run.certified(split).get(metric) if run is not None and run.is_complete else None
    if run is None or run.evaluation is None or value is None:
        return {}
    record = run.evaluation.splits.get(split, {})
    played = record.get("episodes", {}).get(metric)
    found = {"value": value, "rows": int(record.get("rows", 0)), "of": counted(record, metric)}
    if played is not None:
        found |= {"rows": played["count"], "unit": "episodes"}
    elif groups := record.get("groups"):
        found |= {"rows": int(groups), "unit": record["grouped_by"]}
    if interval := record.get("intervals", {}).get(metric):
        return found | {"interval": [float(end) for end in interval]}
    says_nothing = metric in {*record.get("open", []), *record.get("own", [])} and played is None
    return found | ({"is_open": True} if says_nothing else {})


def over_seeds(evidence: Records, side: str) -> dict[str, Any]:
    """Return {value, interval, of} of a configuration's mean over the confirmation seeds; empty where there are none.

    Args:
        side: `best` for the configuration that a study found, `baseline` for the project's.
    """
    found = evidence.improvement[0]
    values = found.get(side, [])
    if len(values) < TWO_DIGITS or found.get("certified") is False:
        return {}
    samples = validation_rows(evidence)
    mean, interval = seeds_interval(values, samples)
    return {"value": mean, "interval": list(interval), "of": f"{len(values)} seeds"}


def meets(goal: dict[str, Any], value: float | None) -> bool:
    """Return whether a value meets the goal {metric, direction, target}."""
    return value is not None and gain(goal, value) >= gain(goal, float(goal["target"]))


def gain(goal: dict[str, Any], value: float) -> float:
    """Return a value so that more is better, whichever way the goal points."""
    return -value if goal["direction"] == "minimize" else value


def is_shown(goal: dict[str, Any], figure: dict[str, Any]) -> bool:
    """Return whether a figure meets the goal at the worse end of its interval; one without an interval by itself.

    Of few episodes that all gave the same nothing is known of the others, nor of other rows where the clean room says
    so; and a function of the user's, whose interval may be left out by its time, shows nothing without one.
    """
    return not (_are_few(figure) or figure.get("is_open")) and all(
        meets(goal, end) for end in figure.get("interval", [figure.get("value")])
    )


def _are_few(figure: dict[str, Any]) -> bool:
    return "interval" not in figure and figure.get("unit") == "episodes" and figure["rows"] < MIN_EPISODES


def is_beyond(goal: dict[str, Any], figure: dict[str, Any], other: dict[str, Any]) -> bool:
    """Return whether a figure is better than one of other rows, beyond what their intervals leave to chance.

    The facing halves of both intervals add as independent errors do (Zou & Donner 2008, "Construction of confidence
    limits about effect measures"); a figure without an interval counts as exact, one beside `other`'s must have one.
    """
    if not other.get("interval"):
        return False
    better, worse = gain(goal, figure["value"]), gain(goal, other["value"])
    down = better - min(gain(goal, end) for end in figure.get("interval") or [figure["value"]])
    up = max(gain(goal, end) for end in other["interval"]) - worse
    return better - worse > math.hypot(down, up)


def interval_text(figure: dict[str, Any]) -> str:
    """Return `95 % interval 0.8 to 0.94 on 135 rows`; of several seeds their number first."""
    ends = "95 % interval {:.3g} to {:.3g}".format(*figure["interval"]) if figure.get("interval") else ""
    if "rows" not in figure:
        return f"mean of {figure['of']}, {ends}"
    return f"{ends} on {figure['of']}" if ends else f"on {figure['of']}"


def rows_to_show(goal: dict[str, Any], figure: dict[str, Any]) -> int | None:
    """Return about how many rows, or other units, would show a goal that the value alone meets, as intervals shrink.

    None where the figure has no rows, or where no number of rows near those there are would.
    """
    if _are_few(figure):
        return MIN_EPISODES
    value, target = gain(goal, figure["value"]), gain(goal, float(goal["target"]))
    if not figure.get("rows") or not figure.get("interval") or value <= target:
        return None
    times = ((value - min(gain(goal, end) for end in figure["interval"])) / (value - target)) ** 2
    rows = times * int(figure["rows"])
    return int(round(rows, TWO_DIGITS - len(str(int(rows))))) if 1.0 < times < MAX_TIMES else None
