"""Naive forecasts of a series: what they reach on validation rows, and the sentences that want a model to be better."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
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
RISING = ("r2",)
"""Metrics of naive forecasts of which more is better."""
LAST = r"(?:last|latest|this|previous|current|today|(?:letzte|diese|vorige|heutige|vorherige)[nrms]?)"
NAIVE = (
    r"(?:(?:repeat|carry|copy|reus|keep|wiederhol|fortschreib|fortzuschreib)\w*"
    rf"|{LAST}(?:['\u2019]s)?\s+(?:known\s+)?(?:{UNIT}(?:['\u2019]s?)?\s+)?{VALUE}|{VALUE}\s+(?:von\s+|of\s+)?{LAST}\s+{UNIT}"
    r"|naive?[nrms]?(?:\s+(?:forecast|prediction|model|method|baseline|prognose|vorhersage|modell|verfahren)\w*)?"
    r"|persisten[cz]\w*)"
)
BEAT = any_of(rf"{BETTER}\s+{FILLED}{NAIVE}|{NAIVE}\s+{FILLED}(?:schlagen|übertreffen|geschlagen|übertroffen)")
"""A model that is worth nothing unless it beats the last value: `better than just repeating this year's value`."""


def beside_naive(intent: str, goal: GoalReading, data: dict[str, Any], reading: Reading) -> GoalReading:
    """Return the goal of a series with what the last value, and that of a season before, reach on validation rows.

    It becomes the target where the sentence wants a model that beats the last value and no target is named; else the
    question of the target says it, and a target that one of them meets is marked.
    """
    known, metric = _known(data, reading), goal.metric or metrics_of(reading.task)[0]
    if not known:
        return goal
    if goal.target is not None:
        little = [one for one in known if one.meets(metric, goal.target)]
        asks = f"a target of {goal.target:g} asks little: {_told(little, metric, reading)}"
        return replace(goal, assumed=[*goal.assumed, asks]) if little else goal
    asked = [one for one in goal.questions if one.asks.startswith(TARGET)]
    others = [one for one in goal.questions if one not in asked]
    error = known[0].errors.get(metric)
    if not asked or not error or metric in RISING or not BEAT.search(intent):
        told = _told(known, goal.metric, reading)
        assumed = [] if goal.questions else [told]
        return replace(goal, questions=[*others, *(_with(one, told) for one in asked)], assumed=goal.assumed + assumed)
    target = _two_digits_down(error)
    why = (
        f"target {target:g}: the sentence wants it better than the last value, rounded down to two digits. "
        f"{_told(known, metric, reading)}; they also stand beside the figures of every report, as rivals"
    )
    return replace(goal, metric=metric, target=target, questions=others, assumed=[*goal.assumed, why])


@dataclass(frozen=True)
class _Naive:
    """A naive forecast, and its metrics on validation rows."""

    name: str
    errors: dict[str, float]

    def meets(self, metric: str, target: float) -> bool:
        """Return whether it reaches a target itself."""
        found = self.errors.get(metric)
        return found is not None and (found >= target if metric in RISING else found <= target)

    def told(self, metric: str | None) -> str:
        """Return its metric, or all where no metric is chosen, in words."""
        chosen = [metric] if metric in self.errors else [one for one in self.errors if one != "mse"]
        return f"{self.name} has {', '.join(f'{one} {self.errors[one]:.3g}' for one in chosen if one)}"


def _told(known: list[_Naive], metric: str | None, reading: Reading) -> str:
    return f"On the validation rows, {_ahead(reading)}, {' and '.join(one.told(metric) for one in known)}"


def _with(question: Question, told: str) -> Question:
    return replace(question, asks=f"{question.asks}. {told}")


def _known(data: dict[str, Any], reading: Reading) -> list[_Naive]:
    """Return the naive forecasts with their errors, of several columns the mean; the last value first. Empty: none."""
    series, time = reading.series or {}, (reading.split or {}).get("time")
    found = (data.get("times") or {}).get(time) or {}
    each = [(found.get("naive") or {}).get(one) or {} for one in reading.targets]
    horizon = series.get("horizon")
    if not isinstance(horizon, int) or series.get("group") != found.get("group"):
        return []
    last = _mean([one.get("last_value") or {} for one in each], horizon)
    seasons = [one.get("season") or {} for one in each]
    periods = {one.get("rows") for one in seasons}
    before = _mean([one.get("errors") or {} for one in seasons], horizon) if len(periods) == 1 else {}
    named = {"the last value": last, f"the value {next(iter(periods), 0)} rows before": before}
    return [_Naive(name, errors) for name, errors in named.items() if errors] if last else []


def _mean(columns: list[dict[str, list[float]]], horizon: int) -> dict[str, float]:
    """Return each metric at a horizon, the mean over columns; empty where one of them has none."""
    known = [{name: one[horizon - 1] for name, one in errors.items() if horizon <= len(one)} for errors in columns]
    shared = [name for name in known[0] if all(name in one for one in known)] if known else []
    return {name: sum(one[name] for one in known) / len(known) for name in shared}


def _ahead(reading: Reading) -> str:
    horizon = (reading.series or {})["horizon"]
    return "1 row ahead" if horizon == 1 else f"1 to {horizon} rows ahead"


def _two_digits_down(value: float) -> float:
    scale = 10 ** (math.floor(math.log10(value)) - 1)
    return float(f"{math.floor(value / scale + 1e-9) * scale:.6g}")
