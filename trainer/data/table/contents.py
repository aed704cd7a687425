"""Contents of rows, whatever other rows there are: categories and classes by name, which codes are not."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from trainwright.trainer.base.arrays import Array
from trainwright.trainer.data.table.schema import TableSchema


def contents_of(schema: TableSchema, inputs: Array, targets: Array, classes: Sequence[str] | None) -> list[str]:
    """Return a text for each row that is the same in any other table with this row.

    Args:
        schema: of the table.
        inputs: encoded rows, (rows, inputs).
        targets: class numbers or numbers, (rows,), or of several (rows, targets).
        classes: names by class number, or of labels.
    """
    plain = np.array(inputs, dtype=np.float32)
    named: list[list[str]] = []
    place = 0
    for column in schema.features:
        if column.kind == "category":
            names = [*column.values, ""]
            codes = np.nan_to_num(plain[:, place], nan=len(names) - 1).astype(np.int64)
            named.append(np.array(names, dtype=object)[codes].tolist())
            plain[:, place] = 0.0
        place += column.width
    if classes is not None and targets.ndim == 1:
        named.append([classes[label] for label in targets.tolist()])
    else:
        named.append(list(map(repr, targets)))
    texts = ["\x1f".join(row) for row in zip(*named, strict=True)]
    return [f"{row.tobytes().hex()}\x1f{text}" for row, text in zip(plain, texts, strict=True)]
