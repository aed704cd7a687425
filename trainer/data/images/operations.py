"""Operations on one picture and its mask, by Pillow: affine maps, enhancements, and those on values."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from PIL import Image, ImageEnhance, ImageOps

Map = np.ndarray[Any, np.dtype[np.float64]]
"""An affine map (3, 3) of places (column, row, 1) in the result to places in the picture."""
IDENTITY: Map = np.eye(3)
IGNORED = -100
ENHANCERS = {
    "brightness": ImageEnhance.Brightness,
    "contrast": ImageEnhance.Contrast,
    "color": ImageEnhance.Color,
    "sharpness": ImageEnhance.Sharpness,
}


class Picture:
    """A picture under change, with its mask."""

    def __init__(self, pixels: np.ndarray[Any, np.dtype[np.uint8]], mask: Any = None) -> None:
        self.image = Image.fromarray(np.ascontiguousarray(pixels[0] if len(pixels) == 1 else pixels.transpose(1, 2, 0)))
        self._mask = None if mask is None else Image.fromarray(np.ascontiguousarray(mask, dtype=np.int32))

    @property
    def height(self) -> int:
        """Rows of pixels."""
        return int(self.image.height)

    @property
    def width(self) -> int:
        """Columns of pixels."""
        return int(self.image.width)

    @property
    def pixels(self) -> np.ndarray[Any, np.dtype[np.uint8]]:
        """The picture, (channels, height, width)."""
        found = np.array(self.image)
        return found[None] if found.ndim == 2 else np.ascontiguousarray(found.transpose(2, 0, 1))

    @property
    def mask(self) -> np.ndarray[Any, np.dtype[np.int64]] | None:
        """The mask, (height, width); None where there is none."""
        return None if self._mask is None else np.array(self._mask).astype(np.int64)

    def move(self, places: Map) -> None:
        """Move the pixels of both; what comes from outside is black, and in the mask ignored."""
        if np.array_equal(places, IDENTITY):
            return
        how = (self.image.size, Image.Transform.AFFINE, tuple(places[:2].ravel().tolist()))
        self.image = self.image.transform(*how, resample=Image.Resampling.BILINEAR)
        if self._mask is not None:
            self._mask = self._mask.transform(*how, resample=Image.Resampling.NEAREST, fillcolor=IGNORED)

    def enhance(self, name: str, factor: float) -> None:
        """Multiply brightness, contrast, color or sharpness; 1 changes nothing."""
        self.image = ENHANCERS[name](self.image).enhance(factor)

    def posterize(self, bits: int) -> None:
        """Keep the upper bits of every value."""
        self.image = ImageOps.posterize(self.image, bits)

    def solarize(self, threshold: int) -> None:
        """Invert values from the threshold on."""
        self.image = ImageOps.solarize(self.image, threshold)

    def autocontrast(self) -> None:
        """Stretch the values over their whole range."""
        self.image = ImageOps.autocontrast(self.image)

    def equalize(self) -> None:
        """Spread the values evenly over their range."""
        self.image = ImageOps.equalize(self.image)

    def erase(self, draws: np.random.Generator) -> None:
        """Replace a rectangle by noise."""
        area = draws.uniform(0.02, 0.33) * self.height * self.width
        ratio = math.exp(draws.uniform(math.log(0.3), math.log(1 / 0.3)))
        height, width = (min(max(round(math.sqrt(area * one)), 1), side) for one, side in
                         ((ratio, self.height), (1 / ratio, self.width)))  # fmt: skip
        top, left = int(draws.integers(self.height - height + 1)), int(draws.integers(self.width - width + 1))
        shape = (height, width) if self.image.mode == "L" else (height, width, 3)
        self.image.paste(Image.fromarray(draws.integers(0, 256, shape, dtype=np.uint8)), (left, top))


def moved(across: float, down: float) -> Map:
    """Return the map that moves the content left by `across` pixels and up by `down`."""
    return np.array([[1.0, 0.0, across], [0.0, 1.0, down], [0.0, 0.0, 1.0]])


def mirrored(side: int, axis: int) -> Map:
    """Return the map that mirrors columns (axis 0) or rows (1), of which there are `side`."""
    found = np.eye(3)
    found[axis, axis], found[axis, 2] = -1.0, side
    return found


def turned(degrees: float, height: int, width: int) -> Map:
    """Return the map that turns the content about the middle."""
    angle = math.radians(degrees)
    turn = np.array([[math.cos(angle), -math.sin(angle), 0.0], [math.sin(angle), math.cos(angle), 0.0], [0, 0, 1.0]])
    return _about_the_middle(turn, height, width)


def sheared(across: float, down: float, height: int, width: int) -> Map:
    """Return the map that shears the content, by pixels for a pixel."""
    return _about_the_middle(np.array([[1.0, across, 0.0], [down, 1.0, 0.0], [0.0, 0.0, 1.0]]), height, width)


def cut(draws: np.random.Generator, least: float, height: int, width: int) -> Map:
    """Return the map that scales a random part, of at least that share of the area, to the full size."""
    share = draws.uniform(least, 1.0)
    ratio = math.exp(draws.uniform(math.log(3 / 4), math.log(4 / 3)))
    across, down = min(math.sqrt(share * ratio), 1.0), min(math.sqrt(share / ratio), 1.0)
    left, top = draws.uniform(0, (1 - across) * width), draws.uniform(0, (1 - down) * height)
    return np.array([[across, 0.0, left], [0.0, down, top], [0.0, 0.0, 1.0]])


def _about_the_middle(linear: Map, height: int, width: int) -> Map:
    return moved(width / 2, height / 2) @ linear @ moved(-width / 2, -height / 2)
