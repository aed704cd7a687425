"""Rows to split, and the shares of the splits."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from trainwright.trainer.base.arrays import Array
from trainwright.trainer.base.errors import DataError
from trainwright.trainer.data.sections import BY_NAMES, COLUMN_OF, SplitSection

if TYPE_CHECKING:
    from trainwright.trainer.data.marks import Marks

Indices = np.ndarray[Any, np.dtype[np.signedinteger[Any]]]
Codes = np.ndarray[Any, np.dtype[np.int8]]
"""0 (train), 1 (validation) or 2 (test); or the number of a fold."""
NAMES = ("train", "validation", "test")
TRAIN, VALIDATION, TEST = 0, 1, 2
NOWHERE = -1
"""Of a row that is in no split: later than what an earlier fold validates on, or than the end of the test."""
MAX_NAMED = 5
WHOLE = re.compile(r"^([+-]?\d+)\.0+$")
"""A whole number that is written with decimals, as some writers do where a cell of the column is empty."""


@dataclass(frozen=True)
class Rows:
    """What is known of each row before it is in a split."""

    units: Indices | int
    """Which rows are equal, (rows,): the number of each one's first like it, in order of appearance. Or how many there
    are, where all are taken to differ."""
    labels: Indices | None = None
    """Classes, (rows,)."""
    key: Array | None = None
    """The column that the split needs, (rows,)."""
    contents: Callable[[], Sequence[str]] | None = None
    """Returns the digest of each row's content, (rows,)."""
    marks: Callable[[], Marks] | None = None
    """Returns what rows are known by from one plan to the next."""

    @property
    def size(self) -> int:
        """How many rows there are."""
        return self.units if isinstance(self.units, int) else len(self.units)

    @property
    def distinct(self) -> int:
        """How many different rows there are."""
        return self.units if isinstance(self.units, int) else int(self.units.max(initial=-1)) + 1

    def of_units(self, values: Array) -> Array:
        """Return each unit's value, (units,), of values (rows,): that of its first copy."""
        if isinstance(self.units, int):
            return values
        found = np.zeros(self.distinct, dtype=values.dtype)
        found[self.units[::-1]] = values[::-1]
        return found

    def of_rows(self, values: Array) -> Array:
        """Return each row's value, (rows,), of values (units,)."""
        return values if isinstance(self.units, int) else values[self.units]


def shares_of(section: SplitSection) -> list[float]:
    """Return the shares of train, validation and test."""
    return [1.0 - section.validation - section.test, section.validation, section.test]


def as_splits(folds: Codes, fold: int) -> Codes:
    """Return the splits of rows that are in these folds: one is validation, the others are for training."""
    return np.where(folds == fold, VALIDATION, TRAIN).astype(np.int8)


def key_of(rows: Rows, section: SplitSection) -> Array:
    """Return the column that the split needs, (rows,). Raises DataError where it is missing or has empty cells."""
    if rows.key is None:
        raise without_keys(section)
    empty = np.flatnonzero(_is_empty(rows.key))
    if len(empty):
        named = ", ".join(map(str, empty[:MAX_NAMED].tolist()))
        raise DataError(
            f"Column {section.key!r}, by which the data are split, is empty in {len(empty)} of {len(rows.key)} rows "
            f"(counted from 0: {named}).",
            remedy="Fill it in or drop these rows, or split otherwise: configure(changes={'data.split': null}).",
            details={"column": section.key, "rows": empty[:20].tolist()},
        )
    return rows.key


def numbered(key: Array) -> tuple[Array, Indices]:
    """Return the different values of a column, sorted, as `np.unique`, and the number of each row's, (rows,).

    Blanks around a text are none of it, and "1.0" is "1", as among targets: else one patient would be in two splits.
    Texts are hashed rather than sorted: ten million of them are done in seconds.
    """
    import pyarrow as pa

    if key.dtype.kind not in "UO":
        values, places = np.unique(key, return_inverse=True)
        return values, places.reshape(-1)
    texts = key.astype(str)
    if int(pa.__version__.partition(".")[0]) < 20:  # NumPy's own texts are not read there
        texts = texts.astype(object)
    encoded = pa.array(texts, type=pa.large_string()).dictionary_encode()
    plain = [WHOLE.sub(r"\1", text.strip()) for text in encoded.dictionary.to_pylist()]
    values, places = np.unique(np.array(plain, dtype=str), return_inverse=True)
    return values, places.reshape(-1)[encoded.indices.to_numpy(zero_copy_only=False)]


def without_keys(section: SplitSection) -> DataError:
    """Return the error of a source that has no such column."""
    if section.key == BY_NAMES:
        return DataError(
            "data.split.by given without data.split.column needs files, or folders of pictures, that are named train, "
            "validation and test, and this source has none.",
            remedy="Use a table of several files or a folder of pictures, name a column with data.split.column, return "
            "{train, validation, test} divided by your own code, or: configure(changes={'data.split': null}).",
        )
    return DataError(
        f"data.split.by {section.by} needs the column {section.key!r}, and these samples have no columns.",
        remedy=f"Use a table (csv, jsonl, parquet) with that column, return samples that are mappings with the key "
        f"{section.key!r}, return {{train, validation, test}} divided by your own code, or take "
        f"data.split.{COLUMN_OF.get(section.by, 'group')} and data.split.by out.",
    )


def _is_empty(values: Array) -> Array:
    if values.dtype.kind == "f":
        return np.isnan(values)
    if values.dtype.kind == "M":
        return np.isnat(values)
    if values.dtype.kind == "O":
        return np.array([one is None or one != one or not str(one).strip() for one in values], dtype=bool)  # noqa: PLR0124 - NaN
    return np.char.strip(values) == "" if values.dtype.kind in "US" else np.zeros(len(values), dtype=bool)
