"""Naive forecasts of a series: what they reach on validation rows, and the targets of sentences that want more."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from trainwright.tools.training_architect.goals import TARGET, metrics_of
from trainwright.tools.training_architect.series import SECONDS
from trainwright.trainer.config.naive_words import Beaten, beaten_naive

if TYPE_CHECKING:
    from trainwright.tools.training_architect.goals import GoalReading, Question
    from trainwright.tools.training_architect.reading import Reading

RISING = ("r2",)
"""Metrics of naive forecasts of which more is better."""
BRIEFLY = ("mae", "rmse", "mape", "r2")
"""Those that are told where no metric is chosen."""


def beside_naive(intent: str, goal: GoalReading, data: dict[str, Any], reading: Reading) -> GoalReading:
    """Return the goal of a series with what the last value, and that of a season before, reach on validation rows.

    Where the sentence wants a model that beats one of them, or errs by an amount less, and no target is named, that
    is the target; else the question of the target says it, and a target that one of them meets is marked.
    """
    known, metric = _known(data, reading), goal.metric or metrics_of(reading.task)[0]
    if not known:
        return goal
    wanted = beaten_naive(intent)
    rival = None if wanted is None else _meant(wanted, known, data, reading)
    found = None if wanted is None or rival is None else rival.bettered(metric, wanted.share)
    if goal.target is not None:
        little = [one for one in known if one.meets(metric, goal.target)]
        said = [f"a target of {goal.target:g} asks little: {_told(little, metric, reading)}"] if little else []
        if found is not None and wanted is not None and wanted.number is not None and found[0] != goal.target:
            said.append(f"the goal is the target {goal.target:g}, though the sentence also says: {found[1]}")
        return replace(goal, assumed=[*goal.assumed, *said])
    asked = [one for one in goal.questions if one.asks.startswith(TARGET)]
    others = [one for one in goal.questions if one not in asked]
    if others or found is None:
        told = _told(known, goal.metric, reading)
        assumed = [] if goal.questions else [told]
        return replace(goal, questions=[*others, *(_with(one, told) for one in asked)], assumed=goal.assumed + assumed)
    why = f"{found[1]}. {_told(known, metric, reading)}; they also stand beside the figures of every report, as rivals"
    return replace(goal, metric=metric, target=found[0], questions=[], assumed=[*goal.assumed, why])


def _meant(wanted: Beaten, known: list[_Naive], data: dict[str, Any], reading: Reading) -> _Naive | None:
    """Return the naive forecast that a sentence means; None where the value so long before is none that is known."""
    step = _times(data, reading).get("step_seconds")
    seconds = next((size for name, size in SECONDS.items() if re.match(rf"{name}(?:e?[sn]|e)?$", wanted.unit)), None)
    rows = round(seconds / step) if seconds and step else 1
    if wanted.is_seasonal:
        return next((one for one in known if one.rows > 1), None)
    return next((one for one in known if one.rows == max(rows, 1)), None)


@dataclass(frozen=True)
class _Naive:
    """A naive forecast, and its metrics on validation rows."""

    rows: int
    """How far back the value lies that it repeats."""
    errors: dict[str, float]

    @property
    def name(self) -> str:
        """The forecast in words."""
        return "the last value" if self.rows == 1 else f"the value {self.rows} rows before"

    def bettered(self, metric: str, share: float | None) -> tuple[float, str] | None:
        """Return the target that leaves a share of its error, and that in words; None where there is none.

        Of r2 the error is 1 - r2, the share of the variance that is not explained.
        """
        error, rises = self.errors.get(metric), metric in RISING
        if error is None or share is None or (left := 1 - error if rises else error) <= 0:
            return None
        digits = 2 if share == 1 else 3
        most = _down(share * left, digits)
        target = float(f"{1 - most:.6g}") if rises else most
        rounded = f"rounded {'up' if rises else 'down'} to {digits} digits"
        if share == 1:
            return target, f"target {target:g}: the sentence wants it better than {self.name}, {rounded}"
        of = f"1 - r2 of {self.name}" if rises else f"what {self.name} errs by"
        return target, f"target {target:g}: {100 * (1 - share):.3g} % below {of}, {left:.3g} ({metric}), {rounded}"

    def meets(self, metric: str, target: float) -> bool:
        """Return whether it reaches a target itself."""
        found = self.errors.get(metric)
        return found is not None and (found >= target if metric in RISING else found <= target)

    def told(self, metric: str | None) -> str:
        """Return its metric, or all where no metric is chosen, in words."""
        chosen = [metric] if metric in self.errors else [one for one in self.errors if one in BRIEFLY]
        return f"{self.name} has {', '.join(f'{one} {self.errors[one]:.3g}' for one in chosen if one)}"


def _told(known: list[_Naive], metric: str | None, reading: Reading) -> str:
    return f"On the validation rows, {_ahead(reading)}, {' and '.join(one.told(metric) for one in known)}"


def _with(question: Question, told: str) -> Question:
    return replace(question, asks=f"{question.asks}. {told}")


def _times(data: dict[str, Any], reading: Reading) -> dict[str, Any]:
    return dict((data.get("times") or {}).get((reading.split or {}).get("time")) or {})


def _known(data: dict[str, Any], reading: Reading) -> list[_Naive]:
    """Return the naive forecasts with their errors, of several columns the mean; the last value first. Empty: none."""
    series, found = reading.series or {}, _times(data, reading)
    each = [(found.get("naive") or {}).get(one) or {} for one in reading.targets]
    horizon = series.get("horizon")
    if not isinstance(horizon, int) or series.get("group") != found.get("group"):
        return []
    seasons = [one.get("season") or {} for one in each]
    errors = {1: _mean([one.get("last_value") or {} for one in each], horizon)}
    if len(periods := {one.get("rows") for one in seasons}) == 1 and errors[1]:
        errors[periods.pop() or 0] = _mean([one.get("errors") or {} for one in seasons], horizon)
    return [_Naive(rows, found) for rows, found in errors.items() if found]


def _mean(columns: list[dict[str, list[float]]], horizon: int) -> dict[str, float]:
    """Return each metric at a horizon, the mean over columns; empty where one of them has none."""
    known = [{name: one[horizon - 1] for name, one in errors.items() if horizon <= len(one)} for errors in columns]
    shared = [name for name in known[0] if all(name in one for one in known)] if known else []
    return {name: sum(one[name] for one in known) / len(known) for name in shared}


def _ahead(reading: Reading) -> str:
    horizon = (reading.series or {})["horizon"]
    return "1 row ahead" if horizon == 1 else f"1 to {horizon} rows ahead"


def _down(value: float, digits: int) -> float:
    scale = 10 ** (math.floor(math.log10(value)) - digits + 1)
    return float(f"{math.floor(value / scale + 1e-9) * scale:.6g}")
