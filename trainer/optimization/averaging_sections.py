"""Sections of weight averaging."""

from __future__ import annotations

import math
from typing import Annotated, Literal

from pydantic import Discriminator, Field, Tag

from trainwright.trainer.base.section import (
    NonNegativeInt,
    PositiveFloat,
    Probability,
    Section,
    name_of,
)


class EmaSection(Section):
    """An exponential moving average, updated after each optimizer step."""

    name: Literal["ema"] = "ema"
    decay: Annotated[float, Field(gt=0.0, lt=1.0)] = 0.999
    """Share of the average that each step keeps."""
    decay_warmup: bool = True
    """Begin with (1 + updates) / (10 + updates), until that reaches decay, so that the first weights are forgotten."""


class SwaSection(Section):
    """The plain mean of the weights at the end of each of the last epochs."""

    name: Literal["swa"] = "swa"
    after_fraction: Probability = 0.75
    """Share of the epochs that are over when averaging begins."""
    after_epochs: NonNegativeInt | None = None
    """Epochs that are over when averaging begins; replaces after_fraction."""
    learning_rate_factor: PositiveFloat = 0.5
    """Constant rate from then on, as a share of the peak."""
    anneal_epochs: NonNegativeInt = 1
    """Epochs in which the rate goes over to it."""

    def start(self, epochs: int) -> int:
        """Return the epochs that are over when averaging begins; the last one is always averaged."""
        wanted = self.after_epochs if self.after_epochs is not None else math.ceil(self.after_fraction * epochs)
        return min(wanted, epochs - 1)


DEFAULT_AVERAGING = "ema"


WeightAveragingSection = Annotated[
    Annotated[EmaSection, Tag("ema")] | Annotated[SwaSection, Tag("swa")],
    Discriminator(lambda value: name_of(value, DEFAULT_AVERAGING)),
]
"""The average, chosen by `name`."""
