"""Changes of batches before they are learned from: mixing of samples, resizing of images. Free of torch."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal, Self

from pydantic import Field, model_validator

from trainwright.trainer.base.section import Fraction, PositiveFloat, Section, union_of
from trainwright.trainer.data.sections import PacedSection

if TYPE_CHECKING:
    from torch import nn

    from trainwright.trainer.objectives.objective import Objective
    from trainwright.trainer.user_code.context import Context


class MixingBase(Section):
    """Options of every way of mixing."""

    probability: Annotated[float, Field(gt=0.0, le=1.0)] = 1.0
    """Share of the batches that are mixed."""
    name: str
    cuts: ClassVar[bool] = True
    """Whether it cuts rectangles out of images."""

    def draw(self) -> tuple[bool, float]:
        """Draw whether a batch is cut, and return the alpha that goes with it."""
        raise NotImplementedError

    def build(self, inner: Objective, plain: Objective, batch: Any, model: nn.Module) -> Objective:
        """Return the training objective `inner` on mixed batches. Raises ConfigurationError as `build_mixing` does."""
        from trainwright.trainer.objectives.mixing import build_mixing

        return build_mixing(self, inner, plain, batch, model)


class MixupSection(MixingBase):
    """A weighted mean of two samples and of their targets (Zhang et al. 2018, arXiv:1710.09412)."""

    name: Literal["mixup"] = "mixup"
    cuts = False
    alpha: PositiveFloat = 0.2
    """The weight is drawn from Beta(alpha, alpha): small values keep samples nearly as they are."""

    def draw(self) -> tuple[bool, float]:
        """Never cut."""
        return False, self.alpha


class CutmixSection(MixingBase):
    """A rectangle of another image, the targets by its share of the area (Yun et al. 2019, arXiv:1905.04899)."""

    name: Literal["cutmix"] = "cutmix"
    alpha: PositiveFloat = 1.0
    """The share of the area that stays is drawn from Beta(alpha, alpha)."""

    def draw(self) -> tuple[bool, float]:
        """Always cut."""
        return True, self.alpha


class MixupCutmixSection(MixingBase):
    """One of both for each batch (Wightman, Touvron and Jégou 2021, arXiv:2110.00476)."""

    name: Literal["mixup_cutmix"] = "mixup_cutmix"
    mixup_alpha: PositiveFloat = 0.2
    cutmix_alpha: PositiveFloat = 1.0
    cutmix_share: Fraction = 0.5
    """Share of the mixed batches that get a rectangle."""

    def draw(self) -> tuple[bool, float]:
        """Cut in that share of the batches."""
        cut = random.random() < self.cutmix_share
        return cut, self.cutmix_alpha if cut else self.mixup_alpha


MIXINGS: tuple[type[MixingBase], ...] = (MixupSection, CutmixSection, MixupCutmixSection)
"""Every way of mixing: a new one is its section and a line here."""
DEFAULT_MIXING = "mixup"

if TYPE_CHECKING:
    MixingSection = MixingBase
else:
    MixingSection = union_of(MIXINGS, DEFAULT_MIXING)


class ProgressiveResizingSection(PacedSection):
    """Train on small images first; validation is on the images as they are."""

    full_after_fraction: Annotated[float, Field(gt=0.0, le=1.0)] = 0.75
    sizes: Annotated[list[Annotated[int, Field(ge=1, le=2**14)]], Field(min_length=1)]
    """Height and width of the images, each for an equal part of the epochs before the full size."""

    @model_validator(mode="after")
    def _growing(self) -> Self:
        if sorted(set(self.sizes)) != self.sizes:
            raise ValueError(f"progressive_resizing.sizes must grow, got {self.sizes}")
        return self

    def size(self, epoch: int, epochs: int) -> int | None:
        """Return the size of the images in an epoch (from 0); None: as they are."""
        place = epoch * len(self.sizes) // self.full_after(epochs)
        return self.sizes[place] if place < len(self.sizes) else None

    def build(self, epochs: int, inner: Objective, context: Context, batch: Any, model: nn.Module) -> Objective:
        """Return the training objective `inner` on images of the epoch's size.

        Raises:
            ConfigurationError: as `build_resizing` does.
        """
        from trainwright.trainer.objectives.mixing import build_resizing

        return build_resizing(self, epochs, inner, context, batch, model)
