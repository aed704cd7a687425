"""Frames to validate: the rows of a source as they are in its files, or a bounded sample of any samples as a table."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from trainwright.trainer.base import seeding
from trainwright.trainer.base.paths import confine
from trainwright.trainer.data.validation.check import ROW, SUMMARY, Context
from trainwright.trainer.data.validation.expectations import Expectations
from trainwright.trainer.data.validation.values import kind_of

if TYPE_CHECKING:
    import polars as pl

MOST_IN_MEMORY = 100_000
"""Rows of each split that are read of tensors."""
MOST_READ = 2_000
"""Samples of each split that are read one by one, of any other data set."""
MOST_COLUMNS = 256
"""Values of a sample that become a column each; of more, their mean, deviation, least and greatest."""
TARGET = "target"
OWN_NAMES = frozenset({"*", ROW, "__row"})
LABEL = "label"
"""Column of a frame of pictures that holds the class."""

Rows = np.ndarray[Any, np.dtype[np.signedinteger[Any]]]


@dataclass(frozen=True)
class Sampled:
    """Samples as a table."""

    frame: pl.LazyFrame
    splits: dict[str, Rows] = field(default_factory=dict)
    """Numbers of the table's rows by split."""
    places: Rows | None = None
    """Number in the source of each row of the table, (rows,)."""
    is_sample: bool = False


def reference_of(use: str, args: Mapping[str, Any], code_root: Path, path: str) -> pl.LazyFrame | None:
    """Return the rows of another file of the same form, which is under the code root. Raises as the source's `load`."""
    from trainwright.trainer.data.sources import SOURCES, scan_source

    confine(path, code_root, key="drift.reference")
    if use not in SOURCES or "path" not in SOURCES[use].form_of(dict(args)).model_fields:
        return None
    return scan_source(use, {**args, "path": path}, code_root)


def scanned(
    frame: pl.LazyFrame,
    expectations: Expectations,
    *,
    use: str,
    args: Mapping[str, Any],
    samples: Mapping[str, Any] | None = None,
    reference: pl.LazyFrame | None = None,
) -> Context:
    """Return what the families of checks look at, of a source's own rows.

    Args:
        samples: the splits' samples, which say which rows they are.
    """
    frame, unnamed = nameable(exact_as_floating(frame))
    reference = None if reference is None else nameable(exact_as_floating(reference))[0]
    kinds = {name: kind_of(dtype) for name, dtype in frame.collect_schema().items()}
    target = args.get("target") or (LABEL if use == "images" else None)
    return Context(
        frame=frame,
        kinds=kinds,
        expectations=expectations,
        target=target if isinstance(target, str) else None,
        task=args.get("task"),
        reference=reference,
        splits=_rows_of(samples or {}),
        source=use,
        options=dict(args),
        unnamed=unnamed,
    )


def exact_as_floating(frame: pl.LazyFrame) -> pl.LazyFrame:
    """Return the rows with exact decimals as floating numbers, as models take them: few aggregates take decimals."""
    import polars as pl

    exact = [pl.col(name).cast(pl.Float64) for name, dtype in frame.collect_schema().items() if dtype.is_decimal()]
    return frame.with_columns(exact) if exact else frame


def nameable(frame: pl.LazyFrame) -> tuple[pl.LazyFrame, list[str]]:
    """Return the rows without the columns whose names polars takes for patterns, or checks for their own; and these."""
    import polars as pl

    names = frame.collect_schema().names()
    odd = [name for name in names if name in OWN_NAMES or (name.startswith("^") and name.endswith("$"))]
    kept = [place for place, name in enumerate(names) if name not in odd]
    return (frame.select(pl.nth(kept)), odd) if odd else (frame, [])


def _rows_of(samples: Mapping[str, Any]) -> dict[str, Rows]:
    """Return the row numbers of the splits whose samples are parts of one whole."""
    found = {}
    for name, part in samples.items():
        rows = getattr(part, "rows", None)
        rows = getattr(part, "indices", None) if rows is None else rows
        if rows is None:
            return {}
        found[name] = np.sort(np.asarray(rows))  # as narrow as they are
    return found


def sampled(samples: Mapping[str, Any], seed: int) -> Sampled | None:
    """Return samples of the splits as a table, at most a bounded number of each; None of streams.

    Args:
        samples: map-style data sets by split.
        seed: of what a data set draws while it is read.
    """
    import polars as pl

    frames, places, splits, start, is_sample = [], [], dict[str, Rows](), 0, False
    for name, part in samples.items():
        chosen = _chosen(part)
        if chosen is None:
            return None
        table = _table(part, chosen, seed)
        if table is None:
            return None
        rows = getattr(part, "rows", None)
        numbers = chosen if rows is None else np.asarray(rows, dtype=np.int64)[chosen]
        frames.append(table)
        places.append(numbers)
        splits[name] = np.arange(start, start + len(chosen))
        start += len(chosen)
        is_sample |= len(chosen) < len(part)
    if not frames:
        return None
    frame = pl.concat(frames, how="diagonal_relaxed").lazy()
    return Sampled(frame, splits, np.concatenate(places), is_sample)


def _chosen(samples: Any) -> Rows | None:
    """Return evenly spaced indices of a data set, as many as are read; None where it has no length or no indices."""
    from torch.utils.data import IterableDataset

    if isinstance(samples, IterableDataset) or not hasattr(samples, "__len__"):  # torch's streams inherit __getitem__
        return None
    size = len(samples)
    most = MOST_IN_MEMORY if _is_tensors(samples) else MOST_READ
    return np.arange(0, size, max(-(-size // most), 1), dtype=np.int64)


def _is_tensors(samples: Any) -> bool:
    return hasattr(samples, "base") and hasattr(samples, "column")


def _table(samples: Any, chosen: Rows, seed: int) -> pl.DataFrame | None:
    import polars as pl

    if _is_tensors(samples):
        arrays = [samples.column(number)[chosen].numpy() for number in range(len(samples.base))]
        inputs, target = (arrays[:-1], arrays[-1]) if len(arrays) > 1 else (arrays, None)
        named = {f"input_{number}" if number else "x": values for number, values in enumerate(inputs)}
    else:
        read = _read(samples, chosen, seed)
        if read is None:
            return None
        named, target = read
    columns: dict[str, Any] = {}
    for name, values in named.items():
        columns.update(_columns(name, values))
    if target is not None and target.ndim == 1:
        columns[TARGET] = target
    return pl.DataFrame(columns) if columns else None


def _columns(name: str, values: np.ndarray[Any, Any]) -> dict[str, Any]:
    """Return columns of a value of each sample, (samples, ...): its numbers, or of many their summary."""
    flat = values.reshape(len(values), -1)
    if flat.shape[1] == 1:
        return {name: flat[:, 0]}
    if flat.shape[1] <= MOST_COLUMNS and values.ndim == 2:
        return {f"{name}{place}": np.ascontiguousarray(flat[:, place]) for place in range(flat.shape[1])}
    with np.errstate(all="ignore"):
        wide = flat.astype(np.float64)
        return {f"{name}_{what}": getattr(np, what)(wide, axis=1) for what in SUMMARY}


def _read(
    samples: Any, chosen: Rows, seed: int
) -> tuple[dict[str, np.ndarray[Any, Any]], np.ndarray[Any, Any] | None] | None:
    """Read samples one by one; None where they are no plain values, or of different shapes."""
    from trainwright.trainer.base.errors import DataError
    from trainwright.trainer.data.plain_values import plain_sample
    from trainwright.trainer.user_code.clock import clock

    found = []
    with seeding.preserved(), clock.each_call_alone():
        for index in chosen.tolist():
            clock.next_call()
            seeding.seed_sample(seed, 0, index)
            try:
                found.append(plain_sample(samples[index]))
            except DataError:
                return None
    first = found[0]
    try:
        inputs: dict[str, np.ndarray[Any, Any]] = {}
        for name, value in first.inputs.items():
            stacked = np.stack([_summary(one.inputs[name]) for one in found])
            is_wide = len(SUMMARY) == stacked.shape[-1] < np.size(value)
            inputs |= (
                {f"{name}_{what}": stacked[:, n] for n, what in enumerate(SUMMARY)} if is_wide else {name: stacked}
            )
        target = None if first.target is None else np.stack([np.asarray(one.target) for one in found])
    except (KeyError, ValueError):
        return None
    return inputs, target


def _summary(value: Any) -> np.ndarray[Any, Any]:
    """Return a value as it is, or where it is large or text of any length: its mean, deviation, least and greatest."""
    found = np.asarray(value)
    if found.size <= MOST_COLUMNS and found.ndim <= 1:
        return found
    wide = found.astype(np.float64).reshape(-1)
    return np.array([wide.mean(), wide.std(), wide.min(), wide.max()])
