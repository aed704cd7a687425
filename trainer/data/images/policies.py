"""Policies over fourteen operations: TrivialAugment (arXiv:2103.10158) and RandAugment (arXiv:1909.13719)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from trainwright.trainer.data.images import operations as op
from trainwright.trainer.data.images.operations import Picture

LEVELS = 30
"""Strength of an operation at its fullest."""
NAMES = (
    "identity", "shear_x", "shear_y", "translate_x", "translate_y", "rotate", "brightness", "color", "contrast",
    "sharpness", "posterize", "solarize", "autocontrast", "equalize",
)  # fmt: skip


@dataclass(frozen=True)
class Reach:
    """The fullest strengths."""

    shear: float
    translate: float
    """Share of the side."""
    degrees: float
    factor: float
    """By which brightness, colour, contrast and sharpness are above or below 1."""
    bits: int
    """That posterize takes away."""


TRIVIAL = Reach(0.99, 0.5, 135.0, 0.99, 6)
RAND = Reach(0.3, 150 / 331, 30.0, 0.9, 4)


def trivial_augment(picture: Picture, draws: np.random.Generator) -> None:
    """Apply one operation of a random strength."""
    _apply(picture, draws, TRIVIAL, int(draws.integers(LEVELS + 1)) / LEVELS)


def randaugment(picture: Picture, draws: np.random.Generator, operations: int, magnitude: int) -> None:
    """Apply so many operations, drawn with replacement, of one strength out of 30."""
    for _ in range(operations):
        _apply(picture, draws, RAND, magnitude / LEVELS)


def _apply(picture: Picture, draws: np.random.Generator, reach: Reach, strength: float) -> None:
    name = NAMES[int(draws.integers(len(NAMES)))]
    sign = 1.0 if draws.random() < 0.5 else -1.0
    height, width = picture.height, picture.width
    if name in op.ENHANCERS:
        picture.enhance(name, 1.0 + sign * strength * reach.factor)
    elif name.startswith("shear"):
        by = sign * strength * reach.shear
        picture.move(op.sheared(by, 0.0, height, width) if name[-1] == "x" else op.sheared(0.0, by, height, width))
    elif name.startswith("translate"):
        by = sign * strength * reach.translate
        picture.move(op.moved(round(by * width), 0) if name[-1] == "x" else op.moved(0, round(by * height)))
    elif name == "rotate":
        picture.move(op.turned(sign * strength * reach.degrees, height, width))
    elif name == "posterize":
        picture.posterize(8 - round(strength * reach.bits))
    elif name == "solarize":
        picture.solarize(round(255 * (1.0 - strength)) + 1)
    elif name in {"autocontrast", "equalize"}:
        getattr(picture, name)()
