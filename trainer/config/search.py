"""Search section: ranges of configuration keys, how they are searched, and how bad trials are stopped (TUNE-1)."""

from __future__ import annotations

import math
from decimal import Decimal
from typing import Annotated, Any, Literal, Self

from pydantic import Field, model_validator

from trainwright.trainer.base.section import NonNegativeInt, Section, Seed

When = Annotated[dict[str, Any], Field(min_length=1, max_length=20)] | None
"""Another searched key to the value, or the values, under which the range is searched; every key of it must hold."""
Constraint = Annotated[str, Field(min_length=3, max_length=200)]
Points = Annotated[int, Field(ge=2, le=10_000)] | None
EXAMPLE_SPACE = {"optimizer.learning_rate": {"type": "float", "low": 1e-4, "high": 1e-2, "log": True}}
"""Of a remedy, where none was given."""


class FloatRange(Section):
    """A float to search over, uniformly or on a logarithmic scale."""

    type: Literal["float"]
    low: float
    high: float
    log: bool = False
    step: Annotated[float, Field(gt=0.0, le=1e12)] | None = None
    """Only low, low + step, … are tried."""
    points: Points = None
    """Of a grid: so many values from end to end, evenly on the range's scale."""
    when: When = None

    @model_validator(mode="after")
    def _ordered(self) -> Self:
        if not self.low < self.high or (self.log and self.low <= 0):
            raise ValueError(f"`low < high` must hold, and `low > 0` with log; got low={self.low}, high={self.high}")
        _require_step(self)
        return self


class IntRange(Section):
    """An integer to search over, both ends included."""

    type: Literal["int"]
    low: int
    high: int
    log: bool = False
    step: Annotated[int, Field(ge=1, le=2**40)] | None = None
    """Only low, low + step, … are tried."""
    points: Points = None
    """Of a grid: so many values from end to end, evenly on the range's scale, as whole numbers."""
    when: When = None

    @model_validator(mode="after")
    def _ordered(self) -> Self:
        if not self.low < self.high or (self.log and self.low < 1):
            raise ValueError(f"`low < high` must hold, and `low >= 1` with log; got low={self.low}, high={self.high}")
        _require_step(self)
        return self


class Choices(Section):
    """One of a list of values."""

    type: Literal["categorical"]
    choices: Annotated[list[Any], Field(min_length=2)]
    when: When = None


Numbers = FloatRange | IntRange
Range = Annotated[FloatRange | IntRange | Choices, Field(discriminator="type")]


def _require_step(range_: FloatRange | IntRange) -> None:
    """Raise ValueError where a range's step does not fit its ends or its scale."""
    width = range_.high - range_.low
    if range_.step is not None and range_.step > width:
        raise ValueError(f"`step` {range_.step} is larger than the range from {range_.low} to {range_.high}")
    if range_.step is not None and (range_.log or range_.points is not None):
        other = "log" if range_.log else "points"
        raise ValueError(f"`step` and `{other}` exclude each other: of a grid, `points` spreads values on a log scale")


def last_of(range_: Numbers) -> float:
    """Return the largest value of a range: its high end, or the last step up to it."""
    if range_.step is None:
        return range_.high
    count = size_of(range_) or 1
    if isinstance(range_, IntRange):
        return range_.low + (count - 1) * int(range_.step)
    return _stepped_to(range_, count - 1)


def _stepped_to(range_: Numbers, place: int) -> float:
    return float(Decimal(repr(range_.low)) + place * Decimal(repr(range_.step)))  # 0.3, and not 0.30000000000000004


def size_of(range_: Range) -> int | None:
    """Return how many values a grid tries of a range; None for a float range without `step` or `points`."""
    if isinstance(range_, Choices):
        return len(range_.choices)
    if range_.points is not None:
        return len(_spread_evenly(range_, range_.points))
    step = range_.step or (1 if isinstance(range_, IntRange) else None)
    return None if step is None else math.floor((range_.high - range_.low) / step + 1e-9) + 1


def spread(range_: Range) -> list[Any] | None:
    """Return the values that a grid tries of a range, in order; None for a float range without `step` or `points`."""
    if isinstance(range_, Choices):
        return list(range_.choices)
    if range_.points is not None:
        return _spread_evenly(range_, range_.points)
    count = size_of(range_)
    if count is None:
        return None
    if isinstance(range_, IntRange):
        return list(range(range_.low, range_.high + 1, range_.step or 1))
    return [_stepped_to(range_, place) for place in range(count)]


def _spread_evenly(range_: Numbers, count: int) -> list[Any]:
    ends = [math.log(range_.low), math.log(range_.high)] if range_.log else [range_.low, range_.high]
    inner = [ends[0] + (ends[1] - ends[0]) * place / (count - 1) for place in range(1, count - 1)]
    values = [range_.low, *(map(math.exp, inner) if range_.log else inner), range_.high]
    return list(dict.fromkeys(map(round, values))) if isinstance(range_, IntRange) else values


REDUCTION_FACTOR = 3
"""Of stored searches too that do not say it: versions before it could be chosen had this one."""


class PruningSection(Section):
    """Stop trials early that do worse than the others did at the same epoch."""

    name: Literal["none", "median", "hyperband", "successive_halving"] = "median"
    startup_trials: NonNegativeInt = 4
    warmup_epochs: NonNegativeInt = 3
    reduction_factor: Annotated[int, Field(ge=2, le=4)] = REDUCTION_FACTOR
    """Of the trials at a rung one in so many goes on, and the next rung is so many times as far."""
    bracket: Annotated[int, Field(ge=3, le=1000)] | None = None
    """Trials that are halved together at each rung, and go on from their checkpoints; None: each is judged alone."""

    @model_validator(mode="after")
    def _halves(self) -> Self:
        if self.name in {"hyperband", "successive_halving"}:
            if self.bracket is not None and self.bracket < self.reduction_factor:
                raise ValueError(f"`bracket` {self.bracket} is less than `reduction_factor` {self.reduction_factor}")
            return self
        given = {"bracket": self.bracket is not None, "reduction_factor": self.reduction_factor != REDUCTION_FACTOR}
        for key in (key for key, is_given in given.items() if is_given):
            raise ValueError(f"`{key}` belongs to hyperband and successive_halving; got it with name={self.name!r}")
        return self


class Taken(Section):
    """What a search took over of an earlier study, as it began."""

    trials: list[NonNegativeInt]
    """Their numbers there."""
    digest: str


class StopAfterSection(Section):
    """What one search may use, below the owner's limits: it ends with the best so far before a wave goes beyond."""

    wall_clock_hours: Annotated[float, Field(gt=0.0, le=100_000.0)] | None = None
    """Hours under way, its repetitions included; pauses do not count."""
    gpu_hours: Annotated[float, Field(gt=0.0, le=1_000_000.0)] | None = None
    money: Annotated[float, Field(gt=0.0, le=1e9)] | None = None
    """By the owner's price_per_gpu_hour."""


class ObjectiveSection(Section):
    """A further objective of a search, beside the goal's metric."""

    metric: Annotated[str, Field(min_length=1, max_length=100)]
    """One that every trial reports for validation, or `parameters`: the number of the model's weights."""
    direction: Literal["maximize", "minimize"]
    at_least: Annotated[float, Field(ge=-1e30, le=1e30)] | None = None
    at_most: Annotated[float, Field(ge=-1e30, le=1e30)] | None = None
    """Bounds that the best trial keeps; others are still tried, and may lie on the front."""

    @model_validator(mode="after")
    def _possible(self) -> Self:
        if self.at_least is not None and self.at_most is not None and self.at_least > self.at_most:
            raise ValueError(f"`at_least <= at_most` must hold; got {self.at_least:g} and {self.at_most:g}")
        return self

    @property
    def bounds(self) -> str:
        """The bounds in words; empty without any."""
        ends = (("at least", self.at_least), ("at most", self.at_most))
        said = " and ".join(f"{word} {end:g}" for word, end in ends if end is not None)
        return f"{self.metric} {said}" if said else ""


class SearchSection(Section):
    """A hyperparameter search (TUNE-1): dotted configuration keys to ranges."""

    method: Literal["tpe", "random", "grid", "quasi_random", "gaussian_process", "cma_es", "nsga2"] = "tpe"
    trials: Annotated[int, Field(ge=1, le=100_000)] = 20
    """Of a grid, where it is left out: all of its points."""
    width: Annotated[int, Field(ge=1, le=64)] = 1
    """Trials of one wave, which run side by side. They are suggested by the results of earlier waves alone."""
    trials_per_gpu: Annotated[int, Field(ge=1, le=16)] | Literal["auto"] = 1
    """Trials that share a GPU; auto: as many as the baseline's memory lets. Like the GPU itself, no part of a trial."""
    seed: Seed = 42
    space: Annotated[dict[str, Range], Field(min_length=1)]
    objectives: Annotated[list[ObjectiveSection], Field(max_length=4)] = Field(default_factory=list)
    """Further objectives: the search looks for the Pareto front of the goal's metric and these."""
    constraints: Annotated[list[Constraint], Field(max_length=20)] = Field(default_factory=list)
    """Comparisons over searched and other keys, which every trial meets."""
    present_first: bool = True
    """Whether trial 0 is the present configuration."""
    guesses: Annotated[list[dict[str, Any]], Field(max_length=1000)] = Field(default_factory=list)
    """Searched keys to values: trials that come first, before the method suggests any."""
    warm_start: bool | list[str] | dict[str, Taken] = False
    """Earlier studies whose trials the method knows; in a stored search, which trials these are."""
    pruning: PruningSection = Field(default_factory=PruningSection)
    stalled_seconds: Annotated[float, Field(ge=1.0, le=86_400.0)] = 1800.0
    """A trial that makes no step for so long is ended and resumed once; one that hangs again has failed."""
    confirmation_repeats: Annotated[int, Field(ge=3, le=20)] = 3
    """Seeds, drawn by the server, on which best trial and baseline are repeated before an improvement counts."""

    stop_after: StopAfterSection | None = None
    stop_below_noise: bool = False
    """End once the trials that are left are expected to gain less than the baseline's spread over the seeds."""

    @model_validator(mode="before")
    @classmethod
    def _unpruned(cls, values: Any) -> Any:
        """Prune no trials of a search with several objectives, unless it says otherwise (and is refused)."""
        if isinstance(values, dict) and values.get("objectives") and "pruning" not in values:
            return {**values, "pruning": {"name": "none"}}
        return values

    @property
    def wave(self) -> int:
        """Trials that are suggested by the same results: those of earlier waves."""
        return self.pruning.bracket or self.width

    @property
    def is_whole_grid(self) -> bool:
        """Whether the search is of all points of its grid, however many these are."""
        return self.method == "grid" and "trials" not in self.model_fields_set

    @property
    def planned_trials(self) -> int:
        """Number of trials; of a whole grid its points."""
        return self.grid_points if self.is_whole_grid else self.trials

    @property
    def grid_points(self) -> int:
        """Product of what a grid tries of each range, which conditions and constraints may lower."""
        return math.prod(size_of(range_) or 1 for range_ in self.space.values())

    def as_asked(self) -> dict[str, Any]:
        """Return the search as a call gives it: without what it is by default, or what starting it settled."""
        asked = self.model_dump(mode="json", exclude_defaults=True)
        if isinstance(self.warm_start, dict):
            asked["warm_start"] = list(self.warm_start)
        if self.method == "grid" and not self.is_whole_grid:
            asked["trials"] = self.trials
        return asked

    def is_answered_by(self, stored: dict[str, Any]) -> bool:
        """Return whether a stored search, in which what was left open is settled, is of just these trials."""
        theirs, mine = SearchSection.model_validate(stored), self
        if theirs.came_of(mine.warm_start):
            theirs = theirs.model_copy(update={"warm_start": mine.warm_start})
        if mine.is_whole_grid:
            mine = mine.model_copy(update={"trials": theirs.trials})
        where = {"trials_per_gpu"}
        return mine.model_dump(mode="json", exclude=where) == theirs.model_dump(mode="json", exclude=where)

    def came_of(self, asked: bool | list[str] | dict[str, Taken]) -> bool:
        """Return whether a request for a warm start may have led to what this stored search took over."""
        if not isinstance(self.warm_start, dict):
            return False
        return asked is True or (isinstance(asked, list) and self.warm_start.keys() <= set(asked))
