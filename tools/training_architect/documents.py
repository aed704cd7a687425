"""The enforced planning documents: rules and ways to train that the architect applies, in files that agents read."""

from __future__ import annotations

import math
import re
import string
from pathlib import Path
from typing import Annotated, Any, Self

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, model_validator

from trainwright.tools.documents import SKILL, read_named
from trainwright.tools.training_architect.facts import FACTS, PLAN_KEYS, TASKS, Facts, worded
from trainwright.trainer.base.errors import ConfigurationError
from trainwright.trainer.config.schema_index import Layout

DOCUMENTS = SKILL / "planning"
NAMES = ("models", "memory", "learning_rate", "length", "processes", "beyond")
"""In the order in which their rules are applied."""
GOALS = ("fastest", "balanced", "best_quality")
OWN_CODE = "own_code"
"""Of what is beyond a plan: it names code, which may be the network alone."""


def _known_fact(name: str) -> str:
    if name not in FACTS:
        raise ValueError(f"unknown fact {name!r}; known: {', '.join(FACTS)}")
    return name


def _known_key(key: str) -> str:
    if key not in PLAN_KEYS and Layout({}).is_unknown(key.split(".")):
        raise ValueError(f"the configuration has no key {key!r}")
    return key


def _known_names(text: str) -> str:
    for _, name, _, _ in string.Formatter().parse(text):
        if name is not None:
            _known_fact(name)
    return text


FactName = Annotated[str, AfterValidator(_known_fact)]
Key = Annotated[str, AfterValidator(_known_key)]
Filled = Annotated[str, Field(min_length=1), AfterValidator(_known_names)]
Identifier = Annotated[str, Field(pattern=r"^[a-z][a-z0-9_]*$")]


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)


class Bounds(_Strict):
    """A range of a number: its lower end belongs to it, its upper end does not."""

    at_least: float = -math.inf
    below: float = math.inf

    def hold(self, value: Any) -> bool:
        """Return whether a fact lies within; no number lies nowhere."""
        return isinstance(value, int | float) and self.at_least <= value < self.below


Condition = bool | str | Bounds | list[str]


class _Conditional(_Strict):
    id: Identifier
    when: dict[FactName, Condition] = Field(default_factory=dict)

    def holds(self, facts: Facts) -> bool:
        """Return whether every condition holds; one on an unknown fact does not."""
        return all(name in facts and _holds(condition, facts[name]) for name, condition in self.when.items())


def _holds(condition: Condition, value: Any) -> bool:
    if isinstance(condition, Bounds):
        return condition.hold(value)
    return value in condition if isinstance(condition, list) else bool(value == condition)


class Line(_Strict):
    """A straight line over the logarithm of a fact, level beyond its ends."""

    fact: FactName
    start: Annotated[tuple[float, float], Field(alias="from")]
    """(fact, value)."""
    end: Annotated[tuple[float, float], Field(alias="to")]

    def at(self, value: float) -> float:
        """Return the value for a fact, its logarithm interpolated, with two significant digits."""
        (x0, y0), (x1, y1) = self.start, self.end
        share = min(max((math.log(max(value, 1.0)) - math.log(x0)) / (math.log(x1) - math.log(x0)), 0.0), 1.0)
        return float(f"{math.exp(math.log(y0) + share * (math.log(y1) - math.log(y0))):.2g}")


class Rule(_Conditional):
    """A decision on one key, with its reason and where it comes from."""

    key: Key
    value: Any = None
    by_goal: dict[str, Any] | None = None
    fact: FactName | None = None
    between: Line | None = None
    why: Filled
    source: str = Field(min_length=1)

    @model_validator(mode="after")
    def _one_kind_of_value(self) -> Self:
        given = [name for name in ("value", "by_goal", "fact", "between") if getattr(self, name) is not None]
        if len(given) != 1:
            raise ValueError(f"{self.id}: give exactly one of value, by_goal, fact, between; got {given or 'none'}")
        if self.by_goal is not None and set(self.by_goal) != set(GOALS):
            raise ValueError(f"{self.id}: by_goal names {', '.join(GOALS)}")
        return self

    def decided(self, facts: Facts) -> Any:
        """Return the value under these facts; None where the fact that it is, is not known."""
        if self.by_goal is not None:
            return self.by_goal[facts["goal"]]
        if self.between is not None:
            return self.between.at(facts[self.between.fact]) if self.between.fact in facts else None
        return facts.get(self.fact) if self.fact is not None else self.value

    def reason(self, facts: Facts) -> str:
        """Return why, with the facts filled in."""
        return filled(self.why, facts)


class Way(_Conditional):
    """A way to train: what is trained and what is recomputed."""

    changes: dict[Key, Any] = Field(default_factory=dict)
    trade: str = Field(min_length=1)
    source: str = Field(min_length=1)


class Alternative(_Conditional):
    """Another choice that fits, and its price."""

    changes: dict[Key, Any] = Field(default_factory=dict)
    trade: str = Field(min_length=1)


class KnownModel(_Strict):
    """A model of the hub, by its size."""

    tasks: list[str] = Field(default_factory=list)
    """For which it is proposed."""
    parameters: float = Field(gt=0)
    layers: int = Field(gt=0)
    width: int = Field(gt=0)
    vocabulary: int = Field(gt=0)
    most_tokens: int = Field(gt=0)


def _compiles(words: str) -> str:
    try:
        re.compile(words)
    except re.error as error:
        raise ValueError(f"no pattern: {error}") from error
    return words


class Beyond(_Strict):
    """A kind of training that is not planned, by the words that name it."""

    id: Identifier
    words: Annotated[str, AfterValidator(_compiles)]
    say: str = Field(min_length=1)
    read: str = Field(min_length=1)
    """Page below the skill's folder."""


class Document(_Strict):
    """One planning document's front matter."""

    id: Identifier
    title: str = Field(min_length=1)
    margin: float | None = Field(default=None, ge=0, lt=1)
    ways: list[Way] = Field(default_factory=list)
    rules: list[Rule] = Field(default_factory=list)
    alternatives: list[Alternative] = Field(default_factory=list)
    known: dict[str, KnownModel] = Field(default_factory=dict)
    built_in: dict[str, list[str | dict[str, dict[str, Any]]]] = Field(default_factory=dict)
    """By task: names, or a name with its arguments."""
    beyond: list[Beyond] = Field(default_factory=list)

    @model_validator(mode="after")
    def _tasks_are_known(self) -> Self:
        named = [*self.built_in, *(task for model in self.known.values() for task in model.tasks)]
        if unknown := set(named) - set(TASKS):
            raise ValueError(f"unknown tasks {', '.join(sorted(unknown))}; known: {', '.join(TASKS)}")
        return self


class Rulebook:
    """All planning documents together."""

    def __init__(self, documents: list[Document]) -> None:
        self.rules = [rule for document in documents for rule in document.rules]
        self.ways = [way for document in documents for way in document.ways]
        self.alternatives = [one for document in documents for one in document.alternatives]
        self.known = {name: model for document in documents for name, model in document.known.items()}
        self.built_in = {task: name for document in documents for task, name in document.built_in.items()}
        self.beyond = [one for document in documents for one in document.beyond]
        self.margin = max((document.margin for document in documents if document.margin is not None), default=0.1)

    def rule_for(self, key: str, facts: Facts) -> Rule | None:
        """Return the first rule on a key that holds and whose value is known."""
        found = (rule for rule in self.rules if rule.key == key and rule.holds(facts))
        return next((rule for rule in found if rule.decided(facts) is not None), None)

    def refuse_beyond(self, intent: str, *, has_network: bool = False) -> None:
        """Refuse to plan what the documents say is not planned, with the page to read. Raises ConfigurationError.

        Args:
            has_network: whether code that the intent names is known as the model.
        """
        beyond = [one for one in self.beyond if not (has_network and one.id == OWN_CODE)]
        found = next((one for one in beyond if re.search(one.words, intent, re.IGNORECASE)), None)
        if found is not None:
            raise ConfigurationError(
                f"plan_training does not plan this ({found.id}): {found.say}.",
                remedy=f"read_document('{found.read}') shows the configuration; create_project takes it. Or name the "
                "task, where the intent's words mean another one.",
                document=found.read,
            )

    @property
    def keys(self) -> list[str]:
        """The keys that rules decide, in order."""
        return list(dict.fromkeys(rule.key for rule in self.rules))


def filled(text: str, facts: Facts) -> str:
    """Return a text with facts in place of their names; an unknown one reads as such."""
    named = {name: worded(facts[name]) if name in facts else "unknown" for name in FACTS}
    return text.format_map(named)


def load_rulebook(folder: Path = DOCUMENTS) -> Rulebook:
    """Read the planning documents; read again only when a file changes.

    Raises:
        NotFoundError: a document is missing.
        ConfigurationError: a document does not fit the model, or its file is not named after its id.
    """
    return Rulebook([read_named(folder / f"{name}.md", Document) for name in NAMES])
