"""Sections of the data: how it is split, and in which order it is learned from."""

from __future__ import annotations

import math
from typing import Annotated, Any, Literal, Self

from pydantic import Field, model_validator

from trainwright.trainer.base.section import (
    ImpossibleError,
    PositiveInt,
    Probability,
    Section,
    Seed,
)


class SplitSection(Section):
    """Fractions of the data held out. The split has a seed of its own, so that repeated seeds share one test set."""

    validation: Probability = 0.15
    test: Probability = 0.15
    seed: Seed = 42
    stratify: bool = True

    @model_validator(mode="after")
    def _leave_something_to_train_on(self) -> Self:
        if self.validation + self.test >= 1.0:
            raise ImpossibleError(
                "split.validation + split.test must leave data to train on (sum below 1)", *self._smaller()
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
