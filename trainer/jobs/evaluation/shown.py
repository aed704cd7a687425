"""Best and worst rows of a validation split, with their cells or thumbnails."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any, NamedTuple

import numpy as np
import torch
import torch.nn.functional as F  # noqa: N812 - the field's name for it
from torch import Tensor

from trainwright.trainer.base.arrays import Array
from trainwright.trainer.data.images.samples import ImageSamples
from trainwright.trainer.data.splits import Splits
from trainwright.trainer.data.tensors import TensorSamples
from trainwright.trainer.jobs.evaluation.forms import CLASSES, LABELS
from trainwright.trainer.jobs.evaluation.outputs import Outputs
from trainwright.trainer.objectives.supervised import split_batch
from trainwright.trainer.run.evaluation import ShownRow

WORST, BEST = 16, 4
MAX_CELLS = 12
MAX_PIXELS = 64
"""Height and width of a thumbnail."""
MIN_PIXELS = 6
LONGEST_CELL = 80


class Place(NamedTuple):
    """Columns of an encoded table that are one column of the source."""

    name: str
    start: int
    width: int
    kind: str
    values: dict[int, str]
    """Categories by their number."""


def table_columns(splits: Splits, width: int) -> list[Place]:
    """Return the source's columns in the rows of a table, (rows, width)."""
    found: list[Place] = []
    if splits.schema is not None and splits.schema.width == width:
        start = 0
        for one in splits.schema.features:
            values = {code: name for name, code in one.values.items()}
            found.append(Place(one.name, start, one.width, one.kind, values))
            start += one.width
        return found
    names = splits.feature_names or []
    named = names if len(names) == width else [f"input {number}" for number in range(width)]
    return [Place(name, number, 1, "number", {}) for number, name in enumerate(named)]


def is_table(samples: Any) -> bool:
    """Return whether samples are rows of numbers, each with its target."""
    return isinstance(samples, TensorSamples) and len(samples.base) == 2 and samples.base[0].dim() == 2


def extremes(found: Outputs) -> tuple[Array, Array]:
    """Return the places in the arrays of the worst rows, the worst first, and of the best ones."""
    order = np.argsort(-np.nan_to_num(found.arrays["loss"], nan=np.inf), kind="stable")
    worst = min(WORST, (len(order) + 1) // 2)
    return order[:worst], order[worst:][::-1][:BEST]


def shown(found: Outputs, places: Array, splits: Splits) -> list[ShownRow]:
    """Return rows, by their places in the arrays, with predictions and cells."""
    samples = splits.samples["validation"]
    rows = getattr(samples, "rows", None)
    if splits.series is not None:  # of a window, the first row that is forecast, as the file numbers it
        rows = splits.series.order[np.asarray(rows) + splits.series.window]
    known = isinstance(samples, TensorSamples | ImageSamples)
    result = []
    for place in places.tolist():
        row = int(found.arrays["row"][place])
        values: dict[str, Any] = {"row": row, "loss": float(found.arrays["loss"][place])}
        if known:
            values["source_row"] = row if rows is None else int(rows[row])
        for name in ("target", "prediction"):
            if name in found.arrays:
                values[name] = _named(found, found.arrays[name][place], splits.class_names)
        if found.form == CLASSES:
            values["probability"] = _confidence(found, place)
        if is_table(samples):
            values["inputs"] = _cells(samples, row, splits)
        result.append(ShownRow(**values))
    return result


def _confidence(found: Outputs, place: int) -> float:
    shares = found.arrays.get("probability")
    return float(found.arrays["confidence"][place] if shares is None else shares[place].max())


def _named(found: Outputs, value: Any, names: list[str] | None) -> str | float | list[float]:
    if found.form == CLASSES:
        return names[int(value)] if names and 0 <= int(value) < len(names) else str(int(value))
    if found.form == LABELS:
        there = np.flatnonzero(value).tolist()
        return ", ".join(names[one] if names and one < len(names) else str(one) for one in there) or "none"
    return float(value) if np.ndim(value) == 0 else [float(one) for one in value]


def _cells(samples: TensorSamples, row: int, splits: Splits) -> dict[str, Any]:
    values = samples.raw[row][0]
    columns = table_columns(splits, len(values))
    return {one.name: _cell(one, float(values[one.start])) for one in columns[:MAX_CELLS] if one.kind != "text"}


def _cell(column: Place, value: float) -> str | float | bool | None:
    if not np.isfinite(value):
        return None
    if column.kind == "category":
        return column.values.get(int(value), str(int(value)))[:LONGEST_CELL]
    if column.kind == "boolean":
        return value > 0.5
    if column.kind == "date":
        return (datetime(1970, 1, 1, tzinfo=UTC) + timedelta(days=value)).date().isoformat()
    return float(f"{value:.6g}")


def thumbnails(found: Outputs, places: Array, samples: Any) -> Array | None:
    """Return small pictures (rows, height, width, 1 or 3) of uint8; None where inputs are no images."""
    pictures = [_thumbnail(_input(samples, int(found.arrays["row"][place]))) for place in places]
    there = [one for one in pictures if one is not None]
    if len(there) < len(pictures) or len({one.shape for one in there}) != 1:
        return None
    return np.stack(there)


def _input(samples: Any, row: int) -> Tensor | None:
    if isinstance(samples, ImageSamples):
        return torch.as_tensor(samples.pictures.raw(int(samples.rows[row]))[0])
    sample = samples.raw[row] if isinstance(samples, TensorSamples) else samples[row]
    args, named, _ = split_batch(sample)
    value = next(iter((*args, *named.values())), None)
    return value if isinstance(value, Tensor) else None


def _thumbnail(picture: Tensor | None) -> Array | None:
    """Return a picture, (height, width) or channels first or last, scaled to its range of values."""
    if picture is None or picture.dim() not in {2, 3} or not torch.isfinite(picture.float()).all():
        return None
    pixels = picture.float() if picture.dim() == 3 else picture.float()[None]
    pixels = pixels if pixels.shape[0] in {1, 3} else pixels.movedim(-1, 0)
    if pixels.shape[0] not in {1, 3} or min(pixels.shape[1:]) < MIN_PIXELS:
        return None
    shrink = max(pixels.shape[1:]) / MAX_PIXELS
    if shrink > 1:
        size = [max(1, round(one / shrink)) for one in pixels.shape[1:]]
        pixels = F.interpolate(pixels[None], size=size, mode="area")[0]
    low, high = (0.0, 255.0) if picture.dtype is torch.uint8 else (pixels.min(), pixels.max())
    scaled = (pixels - low) / max(float(high - low), 1e-12) * 255.0
    return np.ascontiguousarray(scaled.round().clamp(0, 255).to(torch.uint8).movedim(0, -1).numpy(force=True))
