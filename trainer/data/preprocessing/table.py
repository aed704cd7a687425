"""Encoded tables: holes filled, numbers scaled, categories as one-hot groups, dates as their parts, texts normed.

Everything is fitted on the train split: what it lacks (a category, a hole) has no input, and changes nothing later.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np
import torch
from torch import Tensor

from trainwright.trainer.base.arrays import Array
from trainwright.trainer.data import rows
from trainwright.trainer.data.preprocessing.preprocessing import Preprocessing, Unfitted
from trainwright.trainer.data.table.schema import Column, TableSchema
from trainwright.trainer.data.tensors import TensorSamples

MAX_CATEGORIES = 100
"""Of a column, the most frequent ones; the others share an input."""
MIN_SHARE = 500
"""A category that is rarer than one row in so many, or than 2 rows, shares an input with the other rare ones."""
MIN_MOST = 10
DAYS_SHIFT, ERA = 719_468, 146_097
"""Days from 0000-03-01 to 1970-01-01, and those of 400 years."""
NONE = -1


class Table(Preprocessing):
    """Preparation of encoded rows, (rows, inputs) with NaN where a cell holds no value.

    Args:
        columns: the fitted columns in order, as `record` gives them.
    """

    kind: ClassVar[str] = "table"
    fill: Tensor
    mean: Tensor
    scale: Tensor
    number_places: Tensor
    holed: Tensor
    dated: Tensor
    time_places: Tensor
    of_year: Tensor
    of_week: Tensor
    of_day: Tensor
    category_places: Tensor
    offsets: Tensor
    sizes: Tensor
    slots: Tensor
    owners: Tensor
    inputs_of_categories: Tensor
    places: Tensor

    def __init__(self, columns: list[dict[str, Any]]) -> None:
        super().__init__()
        self.columns = columns
        starts = np.cumsum([0, *(column["width"] for column in columns)])
        named = list(zip(columns, starts.tolist(), strict=False))
        self.numbers = [(one, start) for one, start in named if one["kind"] in {"number", "boolean", "date"}]
        self.dates = [(one, start) for one, start in named if one["kind"] == "date"]
        self.times = [(one, start) for one, start in self.dates if one["width"] == 2]
        self.categories = [(one, start) for one, start in named if one["kind"] == "category"]
        self.texts = [(one, start) for one, start in named if one["kind"] == "text"]
        self._keep_numbers()
        self._keep_categories()
        self._index("places", self._order())

    def _index(self, name: str, values: list[int]) -> None:
        self.register_buffer(name, torch.tensor(values, dtype=torch.int64))

    def _keep_numbers(self) -> None:
        self._index("number_places", [start for _, start in self.numbers])
        for key in ("fill", "mean", "scale"):
            self.register_buffer(key, torch.tensor([one[key] for one, _ in self.numbers], dtype=torch.float32))
        self._index("holed", [n for n, (one, _) in enumerate(self.numbers) if one["holes"]])
        self._index("dated", [n for n, (one, _) in enumerate(self.numbers) if one["kind"] == "date"])
        self._index("time_places", [start + 1 for _, start in self.times])
        for size, name in ((12, "of_year"), (7, "of_week"), (24, "of_day")):
            turn = torch.arange(size, dtype=torch.float64) * (2 * math.pi / size)
            self.register_buffer(name, torch.stack([turn.sin(), turn.cos()], dim=1).float())

    def _keep_categories(self) -> None:
        """Keep for every code, and for none (first) and a hole (second), its input among those of all categories."""
        slots: list[int] = []
        offsets, sizes, width = [], [], 0
        for one, _ in self.categories:
            offsets.append(len(slots))
            sizes.append(len(one["slots"]))
            known = (one["others"], one["hole"], *one["slots"])
            slots += [NONE if slot == NONE else width + slot for slot in known]
            width += one["inputs"]
        self._index("category_places", [start for _, start in self.categories])
        self._index("offsets", offsets)
        self._index("sizes", sizes)
        self._index("slots", slots)
        self._index("owners", [n for n, (one, _) in enumerate(self.categories) for _ in range(one["inputs"])])
        self._index("inputs_of_categories", list(range(width)))

    def forward(self, inputs: Tensor) -> Tensor:
        """Map encoded rows (..., inputs) to (..., prepared inputs)."""
        parts = []
        if self.numbers:
            parts += self._numbers(inputs)
        if self.categories:
            parts.append(self._one_hot(inputs))
        for one, start in self.texts:
            parts.append(_normed(inputs[..., start : start + one["width"]]))
        return torch.cat(parts, dim=-1)[..., self.places]

    def _numbers(self, inputs: Tensor) -> list[Tensor]:
        values = inputs[..., self.number_places]
        holes = torch.isnan(values)
        filled = torch.where(holes, self.fill, values)
        parts = [(filled - self.mean) / self.scale]
        if len(self.holed):
            parts.append(holes[..., self.holed].float())
        if self.dates:
            months, weekdays = _calendar(filled[..., self.dated])
            parts += [_on_circle(months, self.of_year), _on_circle(weekdays, self.of_week)]
        if self.times:
            seconds = torch.nan_to_num(inputs[..., self.time_places]).clamp(0.0, 86_399.0)
            parts.append(_on_circle(torch.div(seconds.long(), 3600, rounding_mode="trunc"), self.of_day))
        return parts

    def _one_hot(self, inputs: Tensor) -> Tensor:
        codes = inputs[..., self.category_places]
        holes = torch.isnan(codes)
        known = torch.nan_to_num(codes, nan=-1.0).clamp(-1.0, 1e7).long()
        known = torch.where(known >= self.sizes, torch.full_like(known, -1), known)
        entry = torch.where(holes, torch.ones_like(known), torch.where(known < 0, torch.zeros_like(known), known + 2))
        slots = self.slots[entry + self.offsets]
        return torch.eq(slots[..., self.owners], self.inputs_of_categories).float()

    def _order(self) -> list[int]:
        """Return where each prepared input lies among those of `forward`'s parts, columns in their order."""
        found: dict[str, list[int]] = {one["name"]: [] for one in self.columns}
        at = 0
        dated = [one for one, _ in self.dates]
        parts: list[tuple[list[dict[str, Any]], list[int]]] = [
            ([one for one, _ in self.numbers], []),
            ([one for one, _ in self.numbers if one["holes"]], []),
            (dated, [2] * len(dated)),
            (dated, [2] * len(dated)),
            ([one for one, _ in self.times], [2] * len(self.times)),
            ([one for one, _ in self.categories], [one["inputs"] for one, _ in self.categories]),
            ([one for one, _ in self.texts], [one["width"] for one, _ in self.texts]),
        ]
        for columns, widths in parts:
            for one, width in zip(columns, widths or [1] * len(columns), strict=True):
                found[one["name"]] += range(at, at + width)
                at += width
        self.groups = [len(places) for places in found.values() if places]
        return [place for places in found.values() for place in places]

    @property
    def feature_groups(self) -> list[int]:
        """How many neighbouring columns of the prepared rows belong to each feature that has any."""
        return self.groups

    def record(self) -> dict[str, Any]:
        """Return what was fitted, column by column."""
        return {"kind": self.kind, "columns": self.columns}

    @classmethod
    def restored(cls, record: Mapping[str, Any]) -> Table:
        """Return the preprocessing of a record."""
        return cls(record["columns"])


def _on_circle(places: Tensor, circle: Tensor) -> Tensor:
    """Return sine and cosine, from `circle` (places, 2), of places (..., columns): (..., 2 * columns)."""
    return circle[places].flatten(-2)


def _normed(counts: Tensor) -> Tensor:
    """Return counts of words (..., buckets) at length 1; all zeros where there are none."""
    counts = torch.nan_to_num(counts)
    return counts / counts.square().sum(dim=-1, keepdim=True).clamp(min=1.0).sqrt()


def _calendar(days: Tensor) -> tuple[Tensor, Tensor]:
    """Return month (0 is January) and day of the week (0 is Monday) of days since 1970-01-01.

    H. Hinnant, chrono-compatible low-level date algorithms, https://howardhinnant.github.io/date_algorithms.html.
    """

    def over(value: Tensor, by: int) -> Tensor:
        return torch.div(value, by, rounding_mode="trunc")

    count = days.clamp(-DAYS_SHIFT, 2_900_000).long() + DAYS_SHIFT
    day = count - over(count, ERA) * ERA
    year = over(day - over(day, 1460) + over(day, 36_524) - over(day, ERA - 1), 365)
    of_year = day - (365 * year + over(year, 4) - over(year, 100))
    month = over(5 * of_year + 2, 153) + 2
    week = count + 2
    return month - over(month, 12) * 12, week - over(week, 7) * 7


@dataclass(frozen=True)
class ToTable(Unfitted):
    """Prepare the columns of a table."""

    schema: TableSchema
    takes_missing: bool = True

    def fit(self, train: TensorSamples) -> Table:
        """Measure the train split's encoded rows (rows, inputs)."""
        if train.is_mapped:
            columns = self.schema.features
            return Table([_of_measures(*pair) for pair in zip(columns, measured(columns, train), strict=True)])
        found, place = [], 0
        inputs = train.raw.column(0)
        for column in self.schema.features:
            found.append(_fitted(column, inputs[:, place].numpy()))
            place += column.width
        return Table(found)


def _fitted(column: Column, values: Any) -> dict[str, Any]:
    """Return the fitted column; `values` are its first input, (train rows,)."""
    head = {"name": column.name, "kind": column.kind, "width": column.width}
    holes = np.isnan(values)
    if column.kind == "text":
        return head
    if column.kind == "category":
        return {**head, **_fitted_category(_counts(column, values[~holes]), bool(holes.any()))}
    there = values[~holes].astype(np.float64)
    if column.kind == "boolean":
        fill = float(np.round(there.mean())) if len(there) else 0.0
    else:
        fill = float(np.median(there)) if len(there) else 0.0
    filled = np.where(holes, fill, values).astype(np.float64)
    return {
        **head, "fill": fill, "mean": float(filled.mean()), "scale": float(filled.std()) or 1.0,
        "holes": bool(holes.any()),
    }  # fmt: skip


def _counts(column: Column, codes: Any) -> Any:
    return np.bincount(codes.astype(np.int64), minlength=len(column.values))


def _of_measures(column: Column, found: Measured) -> dict[str, Any]:
    """Return the fitted column of a large table, as `_fitted` does."""
    head = {"name": column.name, "kind": column.kind, "width": column.width}
    if column.kind == "text":
        return head
    if column.kind == "category":
        return {**head, **_fitted_category(found.counts, bool(found.holes))}
    fill = float(np.round(found.mean)) if column.kind == "boolean" else found.median
    mean, scale = found.filled(fill)
    return {**head, "fill": fill, "mean": mean, "scale": scale or 1.0, "holes": bool(found.holes)}


def _fitted_category(counts: Any, has_holes: bool) -> dict[str, Any]:
    """Return the input of every code: its own, the one that rare categories share, or none where train lacks it.

    Args:
        counts: train rows of each code, (codes,).
        has_holes: whether train rows lack the category.
    """
    least = max(2, min(MIN_MOST, int(counts.sum()) // MIN_SHARE))
    frequent = [code for code in np.argsort(-counts, kind="stable").tolist() if counts[code] >= least]
    own = {code: slot for slot, code in enumerate(sorted(frequent[:MAX_CATEGORIES]))}
    is_rare = (counts > 0).tolist()
    others = len(own) if any(met and code not in own for code, met in enumerate(is_rare)) else NONE
    slots = [own.get(code, others if met else NONE) for code, met in enumerate(is_rare)]
    width = len(own) + (others != NONE)
    return {
        "slots": [others if slot == NONE else slot for slot in slots],
        "known": [code for code, met in enumerate(is_rare) if met],
        "others": others, "hole": width if has_holes else NONE, "inputs": width + has_holes,
    }  # fmt: skip


# Measures of the columns of a large table, some rows at a time: as `table.py` has them, but for the median.
#
# That of more than MEDIAN_ROWS rows is the median of so many, drawn always the same way.

MEDIAN_ROWS = 1 << 18


@dataclass
class Measured:
    """What a column's first input holds, over all rows."""

    rows: int = 0
    holes: int = 0
    total: float = 0.0
    squares: float = 0.0
    """Sum of squared differences from `guess`."""
    guess: float = 0.0
    median: float = 0.0
    counts: Array = field(default_factory=lambda: np.zeros(0, dtype=np.int64))
    """Of each category's code, (codes,)."""

    @property
    def mean(self) -> float:
        """Mean of the values that are there; 0 without any."""
        return self.guess + self.total / max(self.rows - self.holes, 1)

    def filled(self, fill: float) -> tuple[float, float]:
        """Return mean and deviation once holes are filled."""
        present = self.rows - self.holes
        mean = self.mean + (fill - self.mean) * self.holes / self.rows
        around = self.squares - self.total**2 / max(present, 1)  # about their own mean
        square = max(around, 0.0) + present * (self.mean - mean) ** 2 + self.holes * (fill - mean) ** 2
        return mean, float(np.sqrt(square / self.rows))


def measured(columns: list[Column], train: TensorSamples) -> list[Measured]:
    """Return the measures of each column of encoded rows, (rows, inputs), in one pass."""
    inputs = TensorSamples(train.base[0], rows=train.rows)
    places = np.cumsum([0, *(column.width for column in columns)])[:-1]
    found = [Measured(counts=np.zeros(len(column.values), dtype=np.int64)) for column in columns]
    drawn = _drawn(inputs)[:, places]
    for column, one, values in zip(columns, found, drawn.T, strict=True):
        there = values[~np.isnan(values)].astype(np.float64)
        if len(there) and column.kind != "category":
            one.median, one.guess = float(np.median(there)), float(there.mean())
    for _, (piece,) in rows.pieces(inputs):
        block = piece.numpy()[:, places]
        for column, one, values in zip(columns, found, block.T, strict=True):
            _add(one, values, is_category=column.kind == "category")
    return found


def _add(one: Measured, values: Array, *, is_category: bool) -> None:
    there = values[~np.isnan(values)]
    one.rows += len(values)
    one.holes += len(values) - len(there)
    if is_category:
        one.counts += np.bincount(there.astype(np.int64), minlength=len(one.counts))
        return
    apart = there.astype(np.float64) - one.guess
    one.total += float(apart.sum())
    one.squares += float(apart @ apart)


def _drawn(inputs: TensorSamples) -> Array:
    size = len(inputs)
    chosen = np.arange(size)
    if size > MEDIAN_ROWS:
        chosen = np.sort(np.random.default_rng(size).choice(size, MEDIAN_ROWS, replace=False, shuffle=False))
    return inputs.gather(torch.from_numpy(chosen))[0].numpy()
