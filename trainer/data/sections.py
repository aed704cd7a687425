"""Sections of the data: how it is split, and in which order it is learned from."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Annotated, Any, Literal, Self

from pydantic import Field, model_validator

from trainwright.trainer.base.section import (
    ImpossibleError,
    PositiveInt,
    Probability,
    Section,
    Seed,
)

COLUMN_OF = {"group": "group", "time": "time", "scaffold": "smiles", "given": "column"}
"""Way to split: the key that names the column it needs."""
BY_NAMES = "(name)"
"""Key of a given split without a column: the names of files and folders say in which split their samples are."""
LEAVE_COPIES = ("given", "hash")
"""Ways in which each row's own column decides, so that equal rows may be in two splits, which is reported."""
FOLDABLE = ("random", "group", "scaffold", "hash", "time")
Column = Annotated[str, Field(min_length=1)]


def targets_of(args: Mapping[str, Any]) -> list[str]:
    """Return the columns that a source's arguments name as what is predicted, in order."""
    given = args.get("target")
    return [name for name in (given if isinstance(given, list) else [given]) if isinstance(name, str)]


class SplitSection(Section):
    """Fractions of the data held out. The split has a seed of its own, so that repeated seeds share one test set."""

    by: Literal["random", "group", "time", "hash", "scaffold", "given"] = "random"
    """What decides in which split a sample is; equal samples are always in the same."""
    validation: Probability = 0.15
    test: Probability = 0.15
    seed: Seed = 42
    stratify: bool = True
    group: Column | None = None
    """Column whose values stay together; with `hash`, the column whose value alone decides."""
    time: Column | None = None
    """Column of dates or numbers: train is before validation, and validation before test."""
    smiles: Column | None = None
    """Column of molecules, whose Bemis-Murcko scaffolds stay together."""
    column: Column | None = None
    """Column with the values train, validation and test; left out: files (folders of pictures) have these names."""
    folds: Annotated[int, Field(ge=2, le=100)] | None = None
    """Parts into which everything but the test split is divided; one of them is the validation split."""
    fold: Annotated[int, Field(ge=0, le=99)] = 0
    """Which of them, from 0."""
    borders: Annotated[list[str | float], Field(min_length=2, max_length=3)] | None = None
    """Of by time: where validation and test begin, dates or numbers as in the column; they replace the shares.

    A third is where test ends: rows from it on are left out."""
    drop_copies: bool = False
    """Leave train rows out whose inputs are those of a held-out row, or almost."""

    @property
    def key_option(self) -> str:
        """Dotted key of the configuration that names the column."""
        return f"data.split.{COLUMN_OF.get(self.by, 'group')}"

    @property
    def key(self) -> str | None:
        """Column that the split needs; None where it needs none."""
        if self.by == "given":
            return self.column or BY_NAMES
        return self.group if self.by == "hash" else getattr(self, COLUMN_OF[self.by]) if self.by in COLUMN_OF else None

    @property
    def of(self) -> str:
        """The column that the split needs, in words."""
        return "the names of files" if self.key == BY_NAMES else f"column {self.key!r}"

    def describe(self) -> dict[str, Any]:
        """Return what decides this split, as JSON, without what is left out."""
        unset = {
            name for name in ("group", "time", "smiles", "column", "folds", "borders") if getattr(self, name) is None
        }
        unset |= {"fold"} if self.folds is None else set()
        unset |= set() if self.drop_copies else {"drop_copies"}
        return self.model_dump(mode="json", exclude=unset | ({"by"} if self.by == "random" else set()))

    @model_validator(mode="after")
    def _leave_something_to_train_on(self) -> Self:
        if self.validation + self.test >= 1.0:
            raise ImpossibleError(
                "split.validation + split.test must leave data to train on (sum below 1)", *self._smaller()
            )
        return self

    @model_validator(mode="after")
    def _its_column_is_named(self) -> Self:
        key = COLUMN_OF.get(self.by)
        if key is not None and self.by != "given" and getattr(self, key) is None:
            raise ImpossibleError(
                f"split.by {self.by} needs the column, data.split.{key}",
                {f"data.split.{key}": "COLUMN"},
                {"data.split.by": "random"},
            )
        for by, other in COLUMN_OF.items():
            if getattr(self, other) is not None and other != key and not (other == "group" and self.by == "hash"):
                raise ImpossibleError(
                    f"split.{other} has no effect with split.by {self.by}: it belongs to by {by}",
                    {"data.split.by": by},
                    {f"data.split.{other}": None},
                )
        return self

    @model_validator(mode="after")
    def _borders_in_time(self) -> Self:
        if self.borders is not None and self.by != "time":
            raise ImpossibleError(
                f"split.borders are times, and split.by is {self.by}",
                {"data.split.by": "time", "data.split.time": "COLUMN"},
                {"data.split.borders": None},
            )
        return self

    @model_validator(mode="after")
    def _folds_that_exist(self) -> Self:
        if self.folds is not None and self.by not in FOLDABLE:
            raise ImpossibleError(
                f"split.folds goes with by {', '.join(FOLDABLE)}, not {self.by}: the file decides",
                {"data.split.folds": None, "data.split.fold": 0},
                {"data.split.by": "random", "data.split.column": None},
            )
        if self.fold and self.fold >= (self.folds or 1):
            raise ImpossibleError(
                f"split.fold {self.fold} is not there: folds are counted from 0, and split.folds is {self.folds}",
                {"data.split.fold": (self.folds or 1) - 1},
                {"data.split.folds": self.fold + 1},
            )
        return self

    def _smaller(self) -> tuple[dict[str, float], ...]:
        """Ways to leave a part to train on: the other share smaller, or both in their proportion."""
        ways = [
            {f"data.split.{name}": round(max((1.0 - kept) / 2, 0.0), 6)}
            for name, kept in (("validation", self.test), ("test", self.validation))
        ]
        both = 0.3 / (self.validation + self.test)
        shares = {"data.split.validation": self.validation * both, "data.split.test": self.test * both}
        return ({key: round(share, 6) for key, share in shares.items()}, *ways)


class SeriesSection(Section):
    """Windows over the rows of a table in order of time: what was, and the horizon that follows.

    The column of times is that of the split (`data.split.time`).
    """

    window: Annotated[int, Field(ge=1, le=100_000)]
    """Rows that are seen."""
    horizon: Annotated[int, Field(ge=1, le=10_000)]
    """Rows behind them, whose targets are forecast."""
    step: Annotated[int, Field(ge=1, le=100_000)] = 1
    """Rows from the begin of a window to that of the next."""
    group: Column | None = None
    """Column of what is measured (a shop, a sensor): each value is a series of its own."""
    further_targets: list[Column] = Field(default_factory=list)
    """The same as further columns in `target`; an output is a row of the horizon, target by target."""
    gaps: Literal["refuse", "part"] = "refuse"
    """What steps that are missing do: part a series into several, so that no window has one in it."""
    period: Annotated[int, Field(ge=1, le=100_000)] | None = None
    """Rows after which the series is alike, for the seasonal naive reference; left out: that of their spacing."""


class PacedSection(Section):
    """Something that is over after a share of the epochs."""

    full_after_fraction: Annotated[float, Field(gt=0.0, le=1.0)] = 0.5
    """Share of the epochs after which training is as it would be without."""
    full_after_epochs: PositiveInt | None = None
    """The same as a number of epochs; replaces full_after_fraction."""

    def full_after(self, epochs: int) -> int:
        """Return the epochs that it lasts, at least 1."""
        return self.full_after_epochs or max(math.ceil(self.full_after_fraction * epochs), 1)


DIFFICULTIES = {"centroid": "centroid_distances", "length": "lengths"}
"""Name to the function of curriculum.py, which needs torch."""


class CurriculumSection(PacedSection):
    """Train samples by difficulty: epochs draw from the easiest ones, then from more and more of them."""

    use: Annotated[str, Field(min_length=1)]
    """Difficulty: centroid, length, or an entry that is called with a sample and returns a number."""
    args: dict[str, Any] = Field(default_factory=dict)
    """Of the entry, by name."""
    pacing: Literal["linear", "root", "step"] = "root"
    """How the share of samples grows with the epochs."""
    initial_fraction: Annotated[float, Field(gt=0.0, lt=1.0)] = 0.3
    """Share of the samples in the first epoch."""
    stages: Annotated[int, Field(ge=2, le=1_000_000)] = 4
    """Of pacing step: equal steps up to all samples."""
    hardest_first: bool = False

    def fraction(self, epoch: int, epochs: int) -> float:
        """Return the share of the samples that the epoch (from 0) draws from."""
        progress = min(epoch / self.full_after(epochs), 1.0)
        first = self.initial_fraction
        if self.pacing == "root":  # the competence of Platanios et al. 2019, arXiv:1903.09848
            return math.sqrt(first**2 + (1.0 - first**2) * progress)
        if self.pacing == "step":
            progress = math.floor(progress * self.stages) / self.stages
        return first + (1.0 - first) * progress
