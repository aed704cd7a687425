"""Split by hash: a row's split depends on its content alone, and stays as the data grow."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from blake3 import blake3

from trainwright.trainer.data.sections import SplitSection
from trainwright.trainer.data.split_methods.rows import (
    TEST,
    TRAIN,
    VALIDATION,
    Codes,
    Rows,
    as_splits,
    key_of,
    numbered,
)


def by_hash(rows: Rows, section: SplitSection) -> Codes:
    """Return the split of each row, (rows,): of `group`'s value where it is set, else of the whole row.

    The position is a hash in [0, 1): below `test` it is tested on. Shares are so only on average.

    Raises:
        DataError: an empty cell in the column.
    """
    if section.group is not None:
        values, places = numbered(key_of(rows, section).astype(str))
        found = _positions(values.tolist(), section.seed)[places]
    else:
        assert rows.contents is not None, "given for a hash of rows"  # noqa: S101
        found = _positions(rows.contents(), section.seed)
    rest = (found - section.test) / (1.0 - section.test)
    if section.folds is not None:
        folds = np.clip((rest * section.folds).astype(np.int8), 0, section.folds - 1)
        splits = as_splits(folds, section.fold)
    else:
        share = section.validation / (1.0 - section.test)
        splits = np.where(rest < share, VALIDATION, TRAIN).astype(np.int8)
    splits[found < section.test] = TEST
    return splits


def _positions(contents: Sequence[str], seed: int) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
    key = blake3(f"split {seed}".encode()).digest()
    numbers = [int.from_bytes(blake3(one.encode(), key=key).digest(length=7), "big") for one in contents]
    return np.array(numbers, dtype=np.float64) / 2.0**56
