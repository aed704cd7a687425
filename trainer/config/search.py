"""A hyperparameter search: which keys, over which values, how many trials (TUNE-1)."""

from __future__ import annotations

from typing import Annotated, Any, Literal, Self

from pydantic import Field, model_validator

from trainwright.trainer.base.section import NonNegativeInt, Section, Seed


class FloatRange(Section):
    """A float to search over, uniformly or on a logarithmic scale."""

    type: Literal["float"]
    low: float
    high: float
    log: bool = False

    @model_validator(mode="after")
    def _ordered(self) -> Self:
        if not self.low < self.high or (self.log and self.low <= 0):
            raise ValueError(f"`low < high` must hold, and `low > 0` with log; got low={self.low}, high={self.high}")
        return self


class IntRange(Section):
    """An integer to search over, both ends included."""

    type: Literal["int"]
    low: int
    high: int
    log: bool = False

    @model_validator(mode="after")
    def _ordered(self) -> Self:
        if not self.low < self.high or (self.log and self.low < 1):
            raise ValueError(f"`low < high` must hold, and `low >= 1` with log; got low={self.low}, high={self.high}")
        return self


class Choices(Section):
    """One of a list of values."""

    type: Literal["categorical"]
    choices: Annotated[list[Any], Field(min_length=2)]


Range = Annotated[FloatRange | IntRange | Choices, Field(discriminator="type")]


class PruningSection(Section):
    """Stop trials early that do worse than the others did at the same epoch."""

    name: Literal["none", "median", "hyperband", "successive_halving"] = "median"
    startup_trials: NonNegativeInt = 4
    warmup_epochs: NonNegativeInt = 3


class SearchSection(Section):
    """A hyperparameter search (TUNE-1): dotted configuration keys to ranges."""

    method: Literal["tpe", "random"] = "tpe"
    trials: Annotated[int, Field(ge=1, le=100_000)] = 20
    seed: Seed = 42
    space: Annotated[dict[str, Range], Field(min_length=1)]
    pruning: PruningSection = Field(default_factory=PruningSection)
    confirmation_repeats: Annotated[int, Field(ge=3, le=20)] = 3
    """Seeds, drawn by the server, on which best trial and baseline are repeated before an improvement counts."""
