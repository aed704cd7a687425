"""Validation of one file outside of a project: the checks of every run, on the split that a run would draw."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from trainwright.trainer.base.errors import ConfigurationError
from trainwright.trainer.data.sections import SplitSection
from trainwright.trainer.data.sources import SOURCES
from trainwright.trainer.data.sources.file_kinds import kind_of_file
from trainwright.trainer.data.sources.tables import Table
from trainwright.trainer.data.validation.check import Context
from trainwright.trainer.data.validation.expectations import DOCUMENT, Expectations, read_expectations
from trainwright.trainer.data.validation.report import Report
from trainwright.trainer.data.validation.validate import validate
from trainwright.trainer.data.validation.values import kind_of


def validate_file(path: Path, target: str | None = None, expectations: str | None = None) -> Report:
    """Return the verdicts on a table in a file.

    Args:
        target: the column to predict; without it no label, and no leak that needs one, is checked.
        expectations: a file of expectations beside the data.

    Raises:
        ConfigurationError: a kind that no source reads, no such column, or expectations that cannot be read.
        DataError: the file cannot be read.
    """
    source = _source_of(path)
    frame = source.model_validate({"path": path.name, "text": "*"}).scan(path.parent).collect()
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
        targets=[target] if target else [],
        splits=_drawn(frame.height),
        source=source.name,
        options={"path": path.name, **({"target": target} if target else {})},
    )
    return validate(context)


def _source_of(path: Path) -> type[Table]:
    """Return the source that reads a file, by its content or else its ending. Raises ConfigurationError."""
    tables = {name: kind for name, kind in SOURCES.items() if issubclass(kind, Table) and kind.endings}
    found = kind_of_file(path)
    use = found.use if found is not None else None
    endings = {suffix[1:].lower() for suffix in path.suffixes[-2:]}
    use = use or next((name for name, kind in tables.items() if not endings.isdisjoint(kind.endings)), None)
    if use not in tables:
        known = ", ".join(f".{ending}" for kind in tables.values() for ending in kind.endings)
        raise ConfigurationError(
            f"{path.name} is {found.said if found else 'of an unknown kind'}; tables end in {known}.",
            remedy="Give a file of one of these kinds; a folder of pictures is validated by a project's smoke run.",
            document=DOCUMENT,
        )
    return tables[use].form_of({"text": "*"})  # type: ignore[return-value]  # every table has a form for texts


def _drawn(rows: int) -> dict[str, np.ndarray[tuple[int], np.dtype[np.int64]]]:
    """Return a random split of rows in the default shares; none of few."""
    section = SplitSection()
    order = np.random.default_rng(section.seed).permutation(rows).astype(np.int64)
    test, validation = int(section.test * rows), int(section.validation * rows)
    if not test or not validation:
        return {}
    parts = np.split(order, [test, test + validation])
    return {name: np.sort(part) for name, part in zip(("test", "validation", "train"), parts, strict=True)}
