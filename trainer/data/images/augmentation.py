"""Random changes of train pictures: options, and their application by Pillow's operations.

What is drawn for a picture is keyed to (seed, epoch, sample), as everything that a data set draws. All that moves
pixels is one affine map, applied once to the picture, bilinearly, and once to its mask, to the nearest pixel.
"""

from __future__ import annotations

import random
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import Field

from trainwright.trainer.base.section import Probability, Section

if TYPE_CHECKING:
    import numpy as np

    Pixels = np.ndarray[Any, np.dtype[np.uint8]]
    Mask = np.ndarray[Any, np.dtype[np.int64]] | None

IGNORED = -100
"""Number of mask pixels that came from outside of the picture."""


class AugmentSection(Section):
    """Random changes of train pictures, drawn anew in every epoch; the other splits stay as they are."""

    flip: Literal["horizontal", "vertical", "both"] | None = None
    """Mirrored, each way with probability one half."""
    crop: Annotated[float, Field(gt=0.0, lt=1.0)] | None = None
    """Least share of the area that is cut out and scaled back to the full size: 0.6 keeps 60 to 100 %."""
    shift: Annotated[float, Field(gt=0.0, lt=1.0)] | None = None
    """Largest share of the sides by which the picture is moved; what is bared is black."""
    rotate: Annotated[float, Field(gt=0.0, le=180.0)] | None = None
    """Largest angle in degrees, either way."""
    color: Annotated[float, Field(gt=0.0, le=1.0)] | None = None
    """Largest change of brightness, contrast and saturation: 0.2 multiplies each by 0.8 to 1.2."""
    erase: Probability | None = None
    """Probability that a rectangle of 2 to 33 % of the area is replaced by noise (Zhong et al. 2017)."""
    policy: Literal["trivial_augment", "randaugment"] | None = None
    """A published policy over 14 operations, after the changes above: one operation of any strength (Müller and Hutter
    2021), or `operations` of strength `magnitude` (Cubuk et al. 2019)."""
    operations: Annotated[int, Field(ge=1, le=8)] = 2
    """Of randaugment."""
    magnitude: Annotated[int, Field(ge=1, le=30)] = 9
    """Of randaugment."""

    def build(self) -> Augmentation:
        """Return what changes the pictures."""
        return Augmentation(self)


@dataclass(frozen=True)
class Augmentation:
    """Changes a picture, and its mask alike."""

    section: AugmentSection

    def __call__(self, pixels: Pixels, mask: Mask = None) -> tuple[Pixels, Mask]:
        """Return another picture (channels, height, width) of uint8, and mask (height, width).

        It is drawn from Python's generator, which the loader has keyed to the sample.
        """
        import numpy as np

        from trainwright.trainer.data.images import policies
        from trainwright.trainer.data.images.operations import Picture

        draws = np.random.default_rng(random.getrandbits(64))
        picture = Picture(pixels, mask)
        picture.move(self._moved(draws, picture.height, picture.width))
        if self.section.color is not None:
            for name in ("brightness", "contrast", "color"):
                picture.enhance(name, draws.uniform(1 - self.section.color, 1 + self.section.color))
        if self.section.policy == "trivial_augment":
            policies.trivial_augment(picture, draws)
        elif self.section.policy == "randaugment":
            policies.randaugment(picture, draws, self.section.operations, self.section.magnitude)
        if self.section.erase is not None and draws.random() < self.section.erase:
            picture.erase(draws)
        return picture.pixels, picture.mask

    def _moved(self, draws: np.random.Generator, height: int, width: int) -> Any:
        """Return the affine map, (3, 3), from places in the result to places in the picture."""
        from trainwright.trainer.data.images import operations as op

        section, found = self.section, op.IDENTITY
        if section.crop is not None:
            found = found @ op.cut(draws, section.crop, height, width)
        if section.shift is not None:
            across, down = draws.uniform(-section.shift, section.shift, 2)
            found = found @ op.moved(round(across * width), round(down * height))
        if section.rotate is not None:
            found = found @ op.turned(draws.uniform(-section.rotate, section.rotate), height, width)
        if section.flip in {"horizontal", "both"} and draws.random() < 0.5:
            found = found @ op.mirrored(width, 0)
        if section.flip in {"vertical", "both"} and draws.random() < 0.5:
            found = found @ op.mirrored(height, 1)
        return found
