"""Given split: a column, or the name of a sample's file, says in which split it is."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path, PurePosixPath

import numpy as np

from trainwright.trainer.base import download_log
from trainwright.trainer.base.arrays import Array
from trainwright.trainer.base.errors import DataError
from trainwright.trainer.data.sections import SplitSection
from trainwright.trainer.data.split_methods.at_random import at_random
from trainwright.trainer.data.split_methods.rows import MAX_NAMED, NAMES, TRAIN, VALIDATION, Codes, Rows, key_of

MEANT = {
    **{name: code for code, name in enumerate(NAMES)},
    **dict.fromkeys(("training",), 0),
    **dict.fromkeys(("val", "valid", "dev"), 1),
    **dict.fromkeys(("testing",), 2),
}
"""Values of the column, in any case."""


def split_named(name: str) -> str | None:
    """Return the split that a path names, its last part first: `data/churn_train.csv`, `test/0.parquet`; None: none."""
    name = download_log.name_of(Path(name)) or name
    for part in reversed(PurePosixPath(name).parts):
        meant = {MEANT[word] for word in re.split(r"[^a-z]+", part.lower()) if word in MEANT}
        if meant:
            return NAMES[meant.pop()] if len(meant) == 1 else None
    return None


def by_names(names: Sequence[str], counts: Sequence[int]) -> Array:
    """Return the split of each row, (rows,), by the name of the file that it is in.

    Args:
        names: of the files, in order.
        counts: rows of each.

    Raises:
        DataError: a file whose name says no split, or two.
    """
    splits = [split_named(name) for name in names]
    unnamed = [name for name, split in zip(names, splits, strict=True) if split is None]
    if unnamed:
        raise DataError(
            f"data.split.by given without a column divides by the files' names, and {', '.join(unnamed[:MAX_NAMED])} "
            "names not one of train, validation and test.",
            remedy="Name files, or their folders, so: data.args.path [train.csv, validation.csv, test.csv]; or name a "
            "column: configure(changes={'data.split.column': COLUMN}); or let rows be divided: "
            "configure(changes={'data.split': null}).",
            details={"files": unnamed[:20]},
        )
    return np.repeat(np.array(splits), counts)


def given(rows: Rows, section: SplitSection) -> Codes:
    """Return the split of each row, (rows,), as the column says; equal rows stay where they are, and are reported.

    Where it names no row for validation, these are drawn from the train rows.

    Raises:
        DataError: an empty cell, or another value than train, validation and test.
    """
    texts, places = np.unique(key_of(rows, section).astype(str), return_inverse=True)
    codes = np.array([MEANT.get(text.strip().lower(), -1) for text in texts.tolist()], dtype=np.int8)
    found = codes[places.reshape(-1)]
    wrong = np.flatnonzero(found < 0)
    if len(wrong):
        named = ", ".join(f"row {row} {str(texts[places.reshape(-1)[row]])[:30]!r}" for row in wrong[:MAX_NAMED])
        raise DataError(
            f"Column {section.key!r} has {len(wrong)} values that name no split: {named} (rows counted from 0).",
            remedy="Write train, validation or test in it.",
            details={"column": section.key, "rows": wrong[:20].tolist()},
        )
    return found if (found == VALIDATION).any() or not section.validation else _with_validation(found, rows, section)


def _with_validation(found: Codes, rows: Rows, section: SplitSection) -> Codes:
    """Return the splits with the validation share taken out of train, at random: a model is chosen by some rows."""
    train = np.flatnonzero(found == TRAIN)
    units = len(train) if isinstance(rows.units, int) else np.unique(rows.units[train], return_inverse=True)[1]
    inside = replace(rows, units=units, labels=None if rows.labels is None else rows.labels[train], key=None)
    drawn = at_random(inside, section.model_copy(update={"by": "random", "column": None, "test": 0.0}))
    found[train] = drawn
    return found
