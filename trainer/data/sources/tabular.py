"""Tables of numbers as samples: large ones as whole columns, others cell by cell, which says where one is wrong."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import torch

from trainwright.trainer.base.errors import DataError
from trainwright.trainer.data.sources.columns import FEW, MAX_CLASSES, read_columns
from trainwright.trainer.data.sources.tables import Cells, Numbers, files_of
from trainwright.trainer.data.splits import Loaded
from trainwright.trainer.data.tensors import TensorSamples

SMALL_BYTES = 1 << 20
"""Files up to this size are read cell by cell at once, which takes no longer than loading the library for columns."""


def load_numbers(table: Numbers, path: Path) -> Loaded:
    """Read a table of numbers with named columns: inputs (rows, features) of float32, and targets (rows,).

    Raises:
        DataError: unreadable, empty, a missing column, or a cell that is no finite number; it names row and column.
    """
    files = files_of(path)
    if sum(file.stat().st_size for file in files) > SMALL_BYTES and (found := read_columns(table, path)) is not None:
        samples = TensorSamples(torch.from_numpy(found.inputs), torch.from_numpy(found.targets))
        return Loaded(samples, found.class_names, found.features, standardize=table.standardize, files=files)
    cells = table.cells(path)
    chosen = table.features if table.features is not None else [name for name in cells.header if name != table.target]
    columns = [cells.column(name) for name in [table.target, *chosen]]
    if not chosen:
        raise DataError(
            f"{path.name} has no column but the target {table.target!r}.",
            remedy="Point data.args.path at a table with columns to predict from.",
        )
    numbers = [
        [_number(cell, cells, row, name) for row, cell in enumerate(column)]
        for name, column in zip(chosen, columns[1:], strict=True)
    ]
    with np.errstate(over="ignore"):  # infinite then, which the check of the samples says
        inputs = np.array(list(zip(*numbers, strict=True)), dtype=np.float32)
    targets, names = read_targets(cells, table.target, table.task)
    samples = TensorSamples(torch.from_numpy(inputs), targets)
    return Loaded(samples, names, chosen, standardize=table.standardize, files=files)


def read_targets(table: Cells, target: str, task: str | None) -> tuple[torch.Tensor, list[str] | None]:
    """Return the targets and, for classification, the class names in order.

    Raises:
        DataError: an empty cell, one class only, or too many.
    """
    values = ["" if cell is None else str(cell).strip() for cell in table.column(target)]
    if "" in values:
        raise DataError(
            f"{table.where(values.index(''))}: the target {target!r} is empty.", remedy="Fill it in or drop the row."
        )
    try:
        numbers = [float(value) for value in values]
    except ValueError:
        numbers = None
    whole = numbers is not None and all(number.is_integer() for number in numbers)
    guess = "classification" if numbers is None or (whole and len(set(numbers)) <= FEW) else "regression"
    if (task or guess) == "regression":
        cells = [_number(value, table, row, target) for row, value in enumerate(values)]
        return torch.tensor(cells, dtype=torch.float32), None
    names = sorted(set(values), key=(lambda name: (float(name), name)) if numbers is not None else str)
    if len(names) > MAX_CLASSES or len(names) < 2:
        found = "one class only" if len(names) == 1 else f"{len(names)} classes"
        raise DataError(
            f"The target {target!r} has {found}; 2 to {MAX_CLASSES} classes make sense.",
            remedy='Choose another target, or set data.args.task to "regression".',
        )
    code = {name: label for label, name in enumerate(names)}
    return torch.tensor([code[value] for value in values]), names


def _number(cell: Any, table: Cells, row: int, column: str) -> float:
    try:
        value = float(cell)
    except (TypeError, ValueError, OverflowError):
        value = math.nan
    if not math.isfinite(value):
        raise DataError(
            f"{table.where(row)}, column {column!r}: {str(cell).strip()[:40]!r} is not a finite number.",
            remedy="Encode or fill it in the file, or leave the column out with data.args.features.",
        )
    return value
