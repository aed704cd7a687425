"""A plan under way: its configuration, and each decision with its reason and source."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from trainwright.tools.training_architect.facts import PLAN_KEYS, Facts
from trainwright.tools.training_architect.goals import GoalReading
from trainwright.tools.workspace.settings import ProjectLimits
from trainwright.trainer.config import apply_changes

if TYPE_CHECKING:
    from trainwright.tools.training_architect.documents import Rulebook, Way
    from trainwright.tools.training_architect.estimates import Estimate
    from trainwright.tools.training_architect.hardware import Device
    from trainwright.tools.training_architect.request import PlanRequest
    from trainwright.tools.training_architect.schedule import Allowed


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
