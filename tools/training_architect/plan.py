"""A plan under way: its configuration, and each decision with its reason and source."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any

from trainwright.tools.training_architect.documents import Rulebook, Way
from trainwright.tools.training_architect.estimates import Estimate
from trainwright.tools.training_architect.facts import PLAN_KEYS, Facts
from trainwright.tools.training_architect.goals import GoalReading
from trainwright.tools.training_architect.hardware import Device
from trainwright.tools.training_architect.request import PlanRequest
from trainwright.tools.workspace.settings import ProjectLimits
from trainwright.trainer.config import apply_changes
from trainwright.trainer.estimation.duration import PROVISIONING_SECONDS, START_SECONDS

# Time of a whole project, planned backwards from what is stated: all runs that a release needs share it.

Seconds = tuple[float, float]
RUNS = {"fastest": 2, "balanced": 4, "best_quality": 6}
"""Whole runs that the stated time must hold: a baseline and its replay; with a search, the search in place of one run
(balanced) or three (best_quality), then the final run and its replay."""
MIN_RUNS = 2
"""Of a release whose baseline meets the goal: that run, and the replay that proves it."""
STARTS = 4
"""Processes beside the search that a release starts: smoke run, baseline, replay, export."""
EVALUATED = (1.0, 1.25)
"""Times that an epoch takes with its validation and checkpoints, of its steps alone. Assumed."""
MAX_STARTING = 0.25
"""Share of the stated time that starts are taken to need at most."""


@dataclass(frozen=True)
class Allowed:
    """What one run may take, and why."""

    seconds: float
    why: str
    is_stated: bool = True
    """Whether a user stated it; else it is the owner's longest run, by which a model is chosen and nothing is cut."""


def starting(stated: float = math.inf, *, is_rented: bool = False) -> Seconds:
    """Return the seconds that the starts of a release take; of rented machines with their provisioning.

    Args:
        stated: seconds for all; of few, few are taken to go into starts.
    """
    beside = PROVISIONING_SECONDS if is_rented else (0.0, 0.0)
    low, high = (STARTS * (START_SECONDS[place] + beside[place]) for place in (0, 1))
    return min(low, MAX_STARTING * stated), min(high, MAX_STARTING * stated)


def in_all(plan: Plan, *, is_rented: bool = False) -> Seconds | None:
    """Return the least and the most seconds of a release: its runs, replay, loading, validation and export."""
    if plan.seconds is None:
        return None
    stated = plan.request.limits.get("hours", math.inf) * 3600
    fixed = starting(stated, is_rented=is_rented)
    low, high = (plan.seconds[place] * EVALUATED[place] for place in (0, 1))
    return MIN_RUNS * low + fixed[0], RUNS[plan.facts["goal"]] * high + fixed[1]


def allowed_of(plan: Plan) -> Allowed:
    """Return what one run may take of the hours that time and money allow, and keep them as limits of the project."""
    limits, hours = plan.request.limits, []
    if "dollars" in limits and plan.price is not None:
        device_hours = limits["dollars"] / plan.price[0]
        plan.limits["gpu_hours"] = round(device_hours, 2)
        hours.append(device_hours / plan.device.count)
    elif "dollars" in limits:
        plan.assumed.append(
            "a price is missing: dollars bound nothing until limits.dollars_per_hour says one GPU's price"
        )
    if "hours" in limits:
        hours.append(limits["hours"])
        plan.limits["project_wall_clock_seconds"] = round(limits["hours"] * 3600, 1)
    if not hours:
        why = f"a run may take {plan.longest_seconds / 3600:.3g} h (the owner's limit), and no time is stated"
        return Allowed(plan.longest_seconds, why, is_stated=False)
    stated, runs = min(hours) * 3600, RUNS[plan.facts["goal"]]
    seconds = (stated - starting(stated)[1]) / runs
    if "hours" in limits:
        plan.limits["run_wall_clock_seconds"] = math.floor(seconds)
    why = f"{stated / 3600:.3g} h in all hold {runs} such runs (baseline, search, final run, replay) and their starts"
    return Allowed(seconds / EVALUATED[1], why)


@dataclass(frozen=True)
class Decision:
    """One value of the configuration, with its reason."""

    key: str
    value: Any
    why: str
    source: str
    """Rule, paper, or measurement."""


@dataclass
class Plan:
    """A configuration under way."""

    request: PlanRequest
    book: Rulebook
    device: Device
    task: str
    facts: Facts
    goal: GoalReading = field(default_factory=GoalReading)
    config: dict[str, Any] = field(default_factory=dict)
    decisions: list[Decision] = field(default_factory=list)
    passed_over: list[str] = field(default_factory=list)
    """Ways that did not fit, with what they need."""
    assumed: list[str] = field(default_factory=list)
    first: list[str] = field(default_factory=list)
    """What is to be done before the project can be created."""
    way: Way | None = None
    memory: Estimate | None = None
    seconds: tuple[float, float] | None = None
    price: tuple[float, str] | None = None
    """Dollars of one device's hour, and where they come from."""
    limits: dict[str, float] = field(default_factory=dict)
    longest_seconds: float = ProjectLimits().run_wall_clock_seconds
    """Of a run, as the owner allows it."""
    planned_share: float = 1.0
    """Of the epochs that the documents plan, what the stated time has room for."""
    slowness: str = ""
    """That in words, where it is less than all."""
    epoch_seconds: tuple[float, float] | None = None
    allowed: Allowed | None = None
    """What one run may take, where that is less than what was planned."""

    def take(self, key: str, value: Any, why: str, source: str) -> None:
        """Keep a decision, and put it into the configuration where it is a key of it."""
        self.decisions.append(Decision(key, value, why, source))
        if key not in PLAN_KEYS:
            self.config = apply_changes(self.config, {key: value})

    def decide(self, key: str) -> Any:
        """Apply the first rule on a key that holds; return its value, None where none does."""
        rule = self.book.rule_for(key, self.facts)
        if rule is None:
            return None
        value = rule.decided(self.facts)
        self.take(key, value, rule.reason(self.facts), f"{rule.id}: {rule.source}")
        return value
