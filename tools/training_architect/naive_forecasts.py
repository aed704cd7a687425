"""Repeating the last value of a series: what it is off by, and the sentences that want a model to be better."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from trainwright.tools.training_architect.goals import TARGET, metrics_of
from trainwright.trainer.config.goal_words import any_of

if TYPE_CHECKING:
    from trainwright.tools.training_architect.goals import GoalReading, Question
    from trainwright.tools.training_architect.reading import Reading

BETTER = r"(?:(?:better|lower|smaller|less|more accurate) than|beat\w*|outperform\w*|improv\w+ (?:on|upon|over)"
BETTER += r"|(?:besser|kleiner|genauer) als|schlag\w*|schläg\w*|übertr[ei]ff\w*)"
FILLED = r"(?:[^\W\d_]+\s+){0,3}?"
UNIT = r"(?:hour|day|week|month|quarter|year|period|step|row|stunde|tage?|woche|monat|quartal|jahr|periode|schritt)e?s?"
VALUE = r"(?:value|figure|number|one|observation|level|wert|zahl|beobachtung|stand)(?:e?[sn])?"
LAST = r"(?:last|latest|this|previous|current|today|(?:letzte|diese|vorige|heutige|vorherige)[nrms]?)"
NAIVE = (
    r"(?:(?:repeat|carry|copy|reus|keep|wiederhol|fortschreib|fortzuschreib)\w*"
    rf"|{LAST}(?:['\u2019]s)?\s+(?:known\s+)?(?:{UNIT}(?:['\u2019]s?)?\s+)?{VALUE}|{VALUE}\s+(?:von\s+|of\s+)?{LAST}\s+{UNIT}"
    r"|naive?[nrms]?(?:\s+(?:forecast|prediction|model|method|baseline|prognose|vorhersage|modell|verfahren)\w*)?"
    r"|persisten[cz]\w*)"
)
BEAT = any_of(rf"{BETTER}\s+{FILLED}{NAIVE}|{NAIVE}\s+{FILLED}(?:schlagen|übertreffen|geschlagen|übertroffen)")
"""A model that is worth nothing unless it beats the last value: `better than just repeating this year's value`."""


def beside_last_value(intent: str, goal: GoalReading, data: dict[str, Any], reading: Reading) -> GoalReading:
    """Return the goal of a series with what repeating the last value is off by.

    It becomes the target where the sentence wants a model that beats it and no target is named; else the question of
    the target says it, and a target that it meets is marked.
    """
    errors, metric = _errors(data, reading), goal.metric or metrics_of(reading.task)[0]
    if not errors:
        return goal
    told = f"repeating the last value is off by {_worded(errors, goal.metric)} on all rows, {_ahead(reading)}"
    if goal.target is not None and goal.target >= errors.get(metric, math.inf):
        return replace(goal, assumed=[*goal.assumed, f"a target of {goal.target:g} asks little: {told}"])
    asked = [one for one in goal.questions if one.asks.startswith(TARGET)]
    others = [one for one in goal.questions if one not in asked]
    if not asked or not errors.get(metric) or not BEAT.search(intent):
        return replace(goal, questions=[*others, *(_with(one, told) for one in asked)])
    target = _two_digits_down(errors[metric])
    why = (
        f"target {target:g}: the sentence wants it better than the last value, which is off by {errors[metric]:.3g} "
        f"({metric}) on all rows, {_ahead(reading)}; rounded down to two digits. The last value also stands beside the "
        "figures of every report, as a rival"
    )
    return replace(goal, metric=metric, target=target, questions=others, assumed=[*goal.assumed, why])


def _with(question: Question, told: str) -> Question:
    return replace(question, asks=f"{question.asks}. {told[0].upper()}{told[1:]}")


def _errors(data: dict[str, Any], reading: Reading) -> dict[str, float]:
    """Return what repeating the last value is off by, by metric; of several columns the mean. Empty: not known."""
    series, time = reading.series or {}, (reading.split or {}).get("time")
    found = (data.get("times") or {}).get(time) or {}
    each = [(found.get("last_value") or {}).get(one) for one in reading.targets]
    horizon = series.get("horizon")
    if not each or not all(each) or not isinstance(horizon, int) or series.get("group") != found.get("group"):
        return {}
    known = [
        {name: one[horizon - 1] for name, one in errors.items() if horizon <= len(one)} for errors in each if errors
    ]
    shared = [name for name in known[0] if all(name in one for one in known)]
    return {name: sum(one[name] for one in known) / len(known) for name in shared}


def _worded(errors: dict[str, float], metric: str | None) -> str:
    if metric in errors:
        return f"{errors[metric]:.3g} ({metric})"
    return ", ".join(f"{value:.3g} ({name})" for name, value in errors.items())


def _ahead(reading: Reading) -> str:
    horizon = (reading.series or {})["horizon"]
    return "1 row ahead" if horizon == 1 else f"the mean of 1 to {horizon} rows ahead"


def _two_digits_down(value: float) -> float:
    scale = 10 ** (math.floor(math.log10(value)) - 1)
    return float(f"{math.floor(value / scale + 1e-9) * scale:.6g}")
