"""Validation of one file outside of a project: the checks of every run, on the split that a run would draw."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from trainwright.trainer.base.errors import ConfigurationError, DataError
from trainwright.trainer.data.sections import SplitSection
from trainwright.trainer.data.validation.check import Context
from trainwright.trainer.data.validation.expectations import DOCUMENT, Expectations, read_expectations
from trainwright.trainer.data.validation.report import Report
from trainwright.trainer.data.validation.validate import validate
from trainwright.trainer.data.validation.values import kind_of

if TYPE_CHECKING:
    import polars as pl

READERS = {".csv": "scan_csv", ".tsv": "scan_csv", ".parquet": "scan_parquet", ".jsonl": "scan_ndjson",
           ".ndjson": "scan_ndjson", ".arrow": "scan_ipc", ".feather": "scan_ipc"}  # fmt: skip
SOURCES = {".csv": "csv", ".parquet": "parquet", ".jsonl": "jsonl"}


def validate_file(path: Path, target: str | None = None, expectations: str | None = None) -> Report:
    """Return the verdicts on a table in a file.

    Args:
        target: the column to predict; without it no label, and no leak that needs one, is checked.
        expectations: a file of expectations beside the data.

    Raises:
        ConfigurationError: an ending that no reader has, no such column, or expectations that cannot be read.
        DataError: the file cannot be read.
    """
    frame = _read(path)
    kinds = {name: kind_of(dtype) for name, dtype in frame.schema.items()}
    if target is not None and target not in kinds:
        raise ConfigurationError(
            f"{path.name} has no column {target!r}; it has {', '.join(list(kinds)[:20])}.",
            remedy="Give --target one of them, or leave it out.",
            document=DOCUMENT,
        )
    known = read_expectations(expectations, path.parent) if expectations else Expectations()
    context = Context(
        frame=frame.lazy(),
        kinds=kinds,
        expectations=known,
        target=target,
        splits=_drawn(frame.height),
        source=SOURCES.get(path.suffix.lower(), ""),
        options={"path": path.name, **({"target": target} if target else {})},
    )
    return validate(context)


def _read(path: Path) -> pl.DataFrame:
    import polars as pl

    ending = path.suffix.lower()
    if ending not in READERS:
        raise ConfigurationError(
            f"{path.name} has the ending {ending!r}; tables end in {', '.join(READERS)}.",
            remedy="Give a file of one of these kinds; a folder of pictures is validated by a project's smoke run.",
            document=DOCUMENT,
        )
    options = {"separator": "\t"} if ending == ".tsv" else {}
    try:
        return getattr(pl, READERS[ending])(path, **options).collect()  # type: ignore[no-any-return]
    except (OSError, pl.exceptions.PolarsError) as error:
        raise DataError(
            f"{path.name} cannot be read: {' '.join(str(error).split())[:300]}.",
            remedy="Correct the named row: each row needs as many cells as the header, in UTF-8.",
        ) from error


def _drawn(rows: int) -> dict[str, np.ndarray[tuple[int], np.dtype[np.int64]]]:
    """Return a random split of rows in the default shares; none of few."""
    section = SplitSection()
    order = np.random.default_rng(section.seed).permutation(rows).astype(np.int64)
    test, validation = int(section.test * rows), int(section.validation * rows)
    if not test or not validation:
        return {}
    parts = np.split(order, [test, test + validation])
    return {name: np.sort(part) for name, part in zip(("test", "validation", "train"), parts, strict=True)}
