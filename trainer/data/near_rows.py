"""Near rows: a quick probe for train rows that are held-out rows scaled, rounded, shifted, cropped or flipped.

Every transformation compares rows in a cheap embedding of its own: values in units of their spread, projected to
DIMENSIONS at random. How near is near follows from the train rows: distances are in units of the median distance
between a train row and the nearest other one, and train rows are compared with each other under the same
transformation. The gate's rule (`trainwright.tools.gates.leakage`) says which counts chance does not explain.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial

import numpy as np

from trainwright.trainer.base.arrays import Array
from trainwright.trainer.data.drawn_rows import resized
from trainwright.trainer.data.near_duplicates import EXAMPLES, Alike

TOLERANCES = (0.25, 0.1, 0.02)
"""Shares of the median distance up to which two rows are near."""
SURROUNDINGS = 2
"""Times the tolerance: within this distance another train row counts as near."""
DIMENSIONS = 48
MAX_TRAIN = 2000
MAX_HELD_OUT = 1000
MAX_TRANSFORMED = 500
"""Held-out images that are compared under each shift and crop."""
SMALL_SIDE = 16
"""To which images are made smaller once they are transformed."""
MIN_SIDE = 6
"""Of an image that is shifted or cropped."""
MIN_NUMBERS = 4
"""Of a row that is scaled: fewer have no shape of their own."""
MARGIN = 2
SHIFTS = [(y, x) for y in range(-MARGIN, MARGIN + 1) for x in range(-MARGIN, MARGIN + 1) if y or x]
ZOOMS = (0.75, 0.875)

Form = Callable[[Array], Array]


@dataclass
class Near(Alike):
    """Counts of one transformation and tolerance; examples are places among the rows, the nearest first."""

    transformation: str = ""


def transformations_of(rows: Array) -> list[str]:
    """Return the names of the transformations that make sense for rows, (rows, numbers) or images."""
    return list(dict.fromkeys(name for name, _, _ in _forms(_grey(rows))))


def probe(train: Array, held_out: Array) -> list[Near]:
    """Count train rows near held-out rows by transformation and tolerance; those without any are left out.

    Args:
        train: (rows, numbers) or (rows, channels, height, width), at most MAX_TRAIN.
        held_out: likewise, at most MAX_HELD_OUT.
    """
    if train.shape[1:] != held_out.shape[1:] or len(train) < 2:
        return []
    train, held_out = _grey(train), _grey(held_out)
    found: dict[str, _Nearest] = {}
    own: dict[str, _Nearest] = {}
    for name, of_train, of_others in _forms(train):
        embedding = _Embedding(of_train(train), of_images=train.ndim == 4)
        most = MAX_HELD_OUT if name in {"none", "scaled"} else MAX_TRANSFORMED
        for form in of_others:
            found.setdefault(name, _Nearest()).take(*embedding.nearest(form(held_out[:most])))
            own.setdefault(name, _Nearest()).take(*embedding.nearest(form(train[:most]), themselves=True))
    return [near for name in found for near in _counted(name, found[name], own[name], len(train))]


def nearest_train_row(train: Array, others: Array) -> Array:
    """Return the place of the nearest train row of each other row, (others,)."""
    flat = train.reshape(len(train), -1)
    return _Embedding(flat, of_images=train.ndim == 4).nearest(others.reshape(len(others), -1))[1]


def _counted(name: str, found: _Nearest, own: _Nearest, size: int) -> Iterator[Near]:
    distances = found.distances
    order = np.argsort(distances)
    for tolerance in TOLERANCES:
        near = order[distances[order] <= tolerance]
        if len(near):
            share = float((own.distances <= SURROUNDINGS * tolerance).mean())
            yield Near(
                tolerance,
                alike=len(np.unique(found.places[near])),
                near=round(share * size),
                first=size,
                second=len(distances),
                examples=[[int(found.places[row]), int(row)] for row in near[:EXAMPLES]],
                transformation=name,
            )


class _Nearest:
    """The nearest train row of each row over several forms of a transformation."""

    def __init__(self) -> None:
        self.distances: Array = np.array([])
        self.places: Array = np.array([])

    def take(self, distances: Array, places: Array) -> None:
        if not len(self.distances):
            self.distances, self.places = distances, places
            return
        nearer = distances < self.distances
        self.distances = np.where(nearer, distances, self.distances)
        self.places = np.where(nearer, places, self.places)


class _Embedding:
    """Train rows as points, in units of the median distance between one and the nearest other."""

    def __init__(self, train: Array, *, of_images: bool = False) -> None:
        self.mean = train.mean(axis=0, dtype=np.float64).astype(np.float32)
        self.spread = np.float32(1) if of_images else _spread(train).astype(np.float32)  # pixels have one unit
        width = train.shape[1]
        self.projection = None
        if width > DIMENSIONS:
            drawn = np.random.default_rng(width).standard_normal((width, DIMENSIONS))
            self.projection = (drawn / np.sqrt(DIMENSIONS)).astype(np.float32)
        self.points = self._points(train)
        self.squares = (self.points**2).sum(axis=1)
        self.unit = 1.0
        apart = self.nearest(train[:MAX_TRANSFORMED], themselves=True)[0]
        self.unit = float(np.median(apart[apart > 0])) if (apart > 0).any() else 1.0

    def nearest(self, rows: Array, *, themselves: bool = False) -> tuple[Array, Array]:
        """Return the distance to each row's nearest train row, and its place, (rows,) each.

        Args:
            rows: as the train rows.
            themselves: they are the first train rows: each is compared with the others.
        """
        points = self._points(rows)
        apart = self.squares[None] - 2 * points @ self.points.T
        if themselves:
            np.fill_diagonal(apart, np.inf)
        places = apart.argmin(axis=1)
        distances = np.linalg.norm(points.astype(np.float64) - self.points[places], axis=1)  # digits cancelled above
        return distances / self.unit, places

    def _points(self, rows: Array) -> Array:
        points = ((rows - self.mean) / self.spread).astype(np.float32)
        found: Array = points if self.projection is None else points @ self.projection
        return found


def _spread(train: Array) -> Array:
    """Return each number's standard deviation, and where it hardly varies a tenth of the others'."""
    spread = train.std(axis=0, dtype=np.float64)
    varied = spread[spread > 0]
    found: Array = np.maximum(spread, 0.1 * np.median(varied)) if len(varied) else np.ones_like(spread)
    return found


def _forms(rows: Array) -> Iterator[tuple[str, Form, list[Form]]]:
    """Yield (transformation, what is compared of train rows, what of the others in each form of it)."""
    yield "none", _flat, [_flat]
    if rows[0].size >= MIN_NUMBERS:
        yield "scaled", _scaled, [_scaled, lambda others: -_scaled(others)]
    if rows.ndim != 4:
        return
    height, width = rows.shape[2:]
    turned: list[Form] = [
        lambda images: _scaled(images[..., ::-1]),
        lambda images: _scaled(images[..., ::-1, :]),
        lambda images: _scaled(images[..., ::-1, ::-1]),
    ]
    if height == width:
        turned += [
            lambda images: _scaled(np.rot90(images, 1, (2, 3))),
            lambda images: _scaled(np.rot90(images, 3, (2, 3))),
        ]
    yield "flipped", _scaled, turned
    if min(height, width) >= MIN_SIDE:
        yield "shifted", partial(_window, 0, 0), [partial(_window, y, x) for y, x in SHIFTS]
        for zoom in ZOOMS:
            yield "cropped", partial(_enlarged, zoom), [_scaled]
        yield "cropped", _scaled, [partial(_enlarged, zoom) for zoom in ZOOMS]


def _grey(rows: Array) -> Array:
    """Return images without colour; other rows as they are."""
    found: Array = rows.mean(axis=1, keepdims=True) if rows.ndim == 4 else rows
    return found


def _flat(rows: Array) -> Array:
    found: Array = rows.reshape(len(rows), -1)
    return found


def _scaled(rows: Array) -> Array:
    """Return rows without their own mean and scale, flat; of images small ones."""
    if rows.ndim == 4:
        rows = resized(rows, *(min(side, SMALL_SIDE) for side in rows.shape[2:]))
    flat = _flat(rows)
    centred = flat - flat.mean(axis=1, keepdims=True)
    scale = centred.std(axis=1, keepdims=True)
    found: Array = centred / np.where(scale > 0, scale, 1)
    return found


def _window(y: int, x: int, images: Array) -> Array:
    height, width = images.shape[2:]
    margin = min(MARGIN, (min(height, width) - 2) // 2)
    y, x = (max(-margin, min(margin, shift)) for shift in (y, x))
    return _scaled(images[..., margin + y : height - margin + y, margin + x : width - margin + x])


def _enlarged(zoom: float, images: Array) -> Array:
    """Return the middle of images at their full size; what is compared of the others is a crop that was enlarged."""
    height, width = images.shape[2:]
    top, left = (round(side * (1 - zoom) / 2) for side in (height, width))
    return _scaled(resized(images[..., top : height - top, left : width - left], height, width))
