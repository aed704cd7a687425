"""Frames to validate: the rows of a source as they are in its files, or a bounded sample of any samples as a table."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
from torch.utils.data import IterableDataset

from trainwright.trainer.base import seeding
from trainwright.trainer.base.canonical import digest_bytes
from trainwright.trainer.base.errors import DataError
from trainwright.trainer.base.paths import confine
from trainwright.trainer.data.plain_values import plain_sample
from trainwright.trainer.data.sections import targets_of
from trainwright.trainer.data.sources import SOURCES, scan_source
from trainwright.trainer.data.validation.check import CONTENT, ROW, Context
from trainwright.trainer.data.validation.expectations import Expectations
from trainwright.trainer.data.validation.values import kind_of
from trainwright.trainer.user_code.clock import clock

MAX_IN_MEMORY = 100_000
"""Rows of each split that are read of tensors."""
MAX_READ = 2_000
"""Samples of each split that are read one by one, of any other data set."""
MAX_COLUMNS = 256
"""Values of a sample that become a column each; of more, their mean, deviation, least and greatest."""
TARGET = "target"
SUMMARY = ("mean", "std", "min", "max")
OWN_NAMES = frozenset({"*", ROW, "__row", CONTENT})
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
    summaries: frozenset[str] = frozenset()
    """Columns that stand for wide values of samples, beside the column CONTENT."""


def reference_of(use: str, args: Mapping[str, Any], code_root: Path, path: str) -> pl.LazyFrame | None:
    """Return the rows of another file of the same form, which is under the code root. Raises as the source's `load`."""
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
    targets = targets_of(args) or ([LABEL] if use == "images" else [])
    return Context(
        frame=frame,
        kinds=kinds,
        expectations=expectations,
        targets=[name for name in targets if name in kinds],
        task=args.get("task"),
        reference=reference,
        splits=_rows_of(samples or {}),
        source=use,
        options=dict(args),
        unnamed=unnamed,
    )


def exact_as_floating(frame: pl.LazyFrame) -> pl.LazyFrame:
    """Return the rows with exact decimals as floating numbers, as models take them: few aggregates take decimals."""
    exact = [pl.col(name).cast(pl.Float64) for name, dtype in frame.collect_schema().items() if dtype.is_decimal()]
    return frame.with_columns(exact) if exact else frame


def nameable(frame: pl.LazyFrame) -> tuple[pl.LazyFrame, list[str]]:
    """Return the rows without the columns whose names polars takes for patterns, or checks for their own; and these."""
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
    frames, places, splits, start, is_sample = [], [], dict[str, Rows](), 0, False
    summaries: set[str] = set()
    for name, part in samples.items():
        chosen = _chosen(part)
        if chosen is None:
            return None
        table = _table(part, chosen, seed)
        if table is None:
            return None
        rows = getattr(part, "rows", None)
        numbers = chosen if rows is None else np.asarray(rows, dtype=np.int64)[chosen]
        frames.append(table[0])
        summaries |= table[1]
        places.append(numbers)
        splits[name] = np.arange(start, start + len(chosen))
        start += len(chosen)
        is_sample |= len(chosen) < len(part)
    if not frames:
        return None
    frame = pl.concat(frames, how="diagonal_relaxed").lazy()
    return Sampled(frame, splits, np.concatenate(places), is_sample, frozenset(summaries))


def _chosen(samples: Any) -> Rows | None:
    """Return evenly spaced indices of a data set, as many as are read; None where it has no length or no indices."""
    if isinstance(samples, IterableDataset) or not hasattr(samples, "__len__"):  # torch's streams inherit __getitem__
        return None
    size = len(samples)
    most = MAX_IN_MEMORY if _is_tensors(samples) else MAX_READ
    return np.arange(0, size, max(-(-size // most), 1), dtype=np.int64)


def _is_tensors(samples: Any) -> bool:
    return hasattr(samples, "base") and hasattr(samples, "column")


def _table(samples: Any, chosen: Rows, seed: int) -> tuple[pl.DataFrame, set[str]] | None:
    """Return samples as a table, and the columns of it that are summaries; None where they are no plain values."""
    wide: set[str] = set()
    if _is_tensors(samples):
        arrays = [samples.column(number)[chosen].numpy() for number in range(len(samples.base))]
        inputs, target = (arrays[:-1], arrays[-1]) if len(arrays) > 1 else (arrays, None)
        named = {f"input_{number}" if number else "x": values for number, values in enumerate(inputs)}
        rows: Iterable[Iterable[Any]] = zip(*inputs, strict=True)
    else:
        read = _read(samples, chosen, seed)
        if read is None:
            return None
        rows, named, wide, target = read
    columns: dict[str, Any] = {}
    summaries: set[str] = set()
    for name, values in named.items():
        made, is_summary = _columns(name, values, is_summary=name in wide)
        columns |= made
        summaries |= made.keys() if is_summary else set()
    if target is not None and target.ndim == 1:
        columns[TARGET] = target
    if summaries:
        columns[CONTENT] = [digest_bytes(b"".join(np.asarray(value).tobytes() for value in row)) for row in rows]
    return (pl.DataFrame(columns), summaries) if columns else None


def _columns(name: str, values: np.ndarray[Any, Any], *, is_summary: bool) -> tuple[dict[str, Any], bool]:
    """Return columns of a value of each sample, (samples, ...): its numbers, or of many their summary; and which."""
    flat = values.reshape(len(values), -1)
    if not is_summary and flat.shape[1] == 1:
        return {name: flat[:, 0]}, False
    if not is_summary and flat.shape[1] <= MAX_COLUMNS and values.ndim == 2:
        return {f"{name}{place}": np.ascontiguousarray(flat[:, place]) for place in range(flat.shape[1])}, False
    if not is_summary:
        with np.errstate(all="ignore"):
            found = flat.astype(np.float64)
            flat = np.stack([getattr(np, what)(found, axis=1) for what in SUMMARY], axis=1)
    return {f"{name}_{what}": np.ascontiguousarray(flat[:, place]) for place, what in enumerate(SUMMARY)}, True


def _read(
    samples: Any, chosen: Rows, seed: int
) -> tuple[list[Iterable[Any]], dict[str, np.ndarray[Any, Any]], set[str], np.ndarray[Any, Any] | None] | None:
    """Read samples one by one; return their values, arrays of them by name, which of those are summaries, and targets.

    None where they are no plain values, or of different shapes.
    """
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
        inputs = {name: np.stack([_summary(one.inputs[name]) for one in found]) for name in first.inputs}
        target = None if first.target is None else np.stack([np.asarray(one.target) for one in found])
    except (KeyError, ValueError):
        return None
    wide = {name for name, value in first.inputs.items() if _is_wide(np.asarray(value))}
    return [one.inputs.values() for one in found], inputs, wide, target


def _is_wide(value: np.ndarray[Any, Any]) -> bool:
    return value.size > MAX_COLUMNS or value.ndim > 1


def _summary(value: Any) -> np.ndarray[Any, Any]:
    """Return a value as it is, or where it is large or text of any length: its mean, deviation, least and greatest."""
    found = np.asarray(value)
    if not _is_wide(found):
        return found
    wide = found.astype(np.float64).reshape(-1)
    return np.array([getattr(np, what)(wide) for what in SUMMARY])
