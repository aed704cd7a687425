"""Sections of the mixing of samples."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Discriminator, Field, Tag

from trainwright.trainer.base.section import (
    Fraction,
    PositiveFloat,
    Section,
    name_of,
)


class MixingBase(Section):
    """What every way of mixing takes."""

    probability: Annotated[float, Field(gt=0.0, le=1.0)] = 1.0
    """Share of the batches that are mixed."""


class MixupSection(MixingBase):
    """A weighted mean of two samples and of their targets."""

    name: Literal["mixup"] = "mixup"
    alpha: PositiveFloat = 0.2
    """The weight is drawn from Beta(alpha, alpha): small values keep samples nearly as they are."""


class CutmixSection(MixingBase):
    """A rectangle of another image, the targets by its share of the area."""

    name: Literal["cutmix"] = "cutmix"
    alpha: PositiveFloat = 1.0
    """The share of the area that stays is drawn from Beta(alpha, alpha)."""


class MixupCutmixSection(MixingBase):
    """One of both for each batch."""

    name: Literal["mixup_cutmix"] = "mixup_cutmix"
    mixup_alpha: PositiveFloat = 0.2
    cutmix_alpha: PositiveFloat = 1.0
    cutmix_share: Fraction = 0.5
    """Share of the mixed batches that get a rectangle."""


DEFAULT_MIXING = "mixup"


MixingSection = Annotated[
    Annotated[MixupSection, Tag("mixup")]
    | Annotated[CutmixSection, Tag("cutmix")]
    | Annotated[MixupCutmixSection, Tag("mixup_cutmix")],
    Discriminator(lambda value: name_of(value, DEFAULT_MIXING)),
]
"""The way of mixing, chosen by `name`."""


HARD_TARGETS = ("focal", "dice", "dice_cross_entropy", "next_token")
"""Losses that take class numbers only."""


MIXED_OBJECTIVES = ("supervised", "distillation", "adversarial")


OF_NUMBERS = ("mse", "mae", "huber")
