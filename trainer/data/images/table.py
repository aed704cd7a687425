"""A table of pictures: a column of paths, and one or several of labels, numbers or masks."""

from __future__ import annotations

import math
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from trainwright.trainer.base.errors import DataError, near_matches
from trainwright.trainer.data.images.listing import Listing, require_files
from trainwright.trainer.data.images.walking import MAX_NAMED
from trainwright.trainer.data.sources.csv_file import EMPTY, CsvTexts
from trainwright.trainer.data.sources.json_lines import JsonLinesTexts
from trainwright.trainer.data.sources.parquet_file import ParquetTexts
from trainwright.trainer.data.sources.reading import Reading

if TYPE_CHECKING:
    from trainwright.trainer.data.sources.cells import Cells
    from trainwright.trainer.data.sources.images import Images

OF_TEXT = (".csv", ".tsv")
ENDINGS = (*OF_TEXT, ".parquet", ".jsonl")
PICTURE = ("picture", "image", "path", "file", "filename", "file_name", "image_path", "filepath", "img")
"""Names of a column of paths, in the order in which they are looked for."""


def of_table(options: Images, table: Path, root: Path, code_root: Path, wanted: str | None) -> Listing:
    """Return the pictures of a table, row by row.

    Args:
        options: names the columns.
        table: the file.
        root: the folder that paths are relative to.
        code_root: as in `require_files`.
        wanted: a column that the split needs.

    Raises:
        DataError: an unreadable table, a column that is not there, an empty cell, a path without a file.
        ConfigurationError: a path that leads out of the root.
    """
    rows = _read(table)
    picture = options.picture or next((name for name in PICTURE if name in rows.header), PICTURE[0])
    names = _texts(rows, picture)
    require_files(root, names, table.name, code_root)
    columns = {} if wanted is None else {wanted: [_plain(cell) for cell in _values(rows, wanted)]}
    if options.masks is not None:
        masks = _texts(rows, options.masks)
        require_files(root, masks, table.name, code_root, "mask")
        return Listing(root, names, masks=masks, columns=columns, is_table=True)
    if options.target is None:
        raise DataError(
            f"{table.name} is a table, and data.args.target names no column.",
            remedy=f"Set data.args.target to one of {', '.join(rows.header[:20])} (several: yes or no each), "
            "or data.args.masks to a column of mask paths.",
        )
    if isinstance(options.target, list):
        flags = [_flags(rows, name) for name in options.target]
        labels: list[Any] = [list(row) for row in zip(*flags, strict=True)]
        return Listing(root, names, labels, columns=columns, classes=options.target)
    if options.separator is not None:
        cells = ["" if cell is None else str(cell) for cell in _column(rows, options.target)]
        several = [sorted({part.strip() for part in cell.split(options.separator)} - {""}) for cell in cells]
        classes = sorted({label for row in several for label in row})
        return Listing(root, names, [[float(one in row) for one in classes] for row in several], columns=columns,
                       classes=classes)  # fmt: skip
    return Listing(root, names, _filled(rows, options.target, _values(rows, options.target)), columns=columns)


def _read(table: Path) -> Cells:
    """Return the table's rows, as the source of its kind reads them. Raises DataError."""
    kind = next(
        kind
        for kind in (CsvTexts, JsonLinesTexts, ParquetTexts)
        if table.suffix.lower().removeprefix(".") in kind.endings
    )
    return Reading(kind(path=table.name, text=PICTURE[0]), [table]).cells()


def _column(rows: Cells, name: str) -> list[Any]:
    """Return a column's cells as they are in the file. Raises DataError where there is no such column."""
    if name not in rows.header:
        raise DataError(
            f"{rows.path.name} has no column {name!r}.{near_matches(name, rows.header)}",
            remedy=f"Name one of its columns: {', '.join(rows.header[:20])} (data.args.picture for the paths, "
            "target for the labels).",
        )
    return rows.column(name)


def _values(rows: Cells, name: str) -> list[Any]:
    """Return a column's cells; of a text file as whole or other numbers where all are. Raises as `_column`."""
    cells = _column(rows, name)
    if rows.path.suffix.lower() not in OF_TEXT:
        return cells
    for kind in (int, float):
        with suppress(ValueError):
            return [None if cell.strip() in EMPTY else _number(cell, kind) for cell in cells]
    return cells


def _number(cell: str, kind: type[int | float]) -> int | float:
    found = kind(cell)
    if "_" in cell or not math.isfinite(found):
        raise ValueError("not as numbers are written in a file")
    return found


def _filled(rows: Cells, name: str, cells: list[Any]) -> list[Any]:
    """Return a column's cells. Raises DataError where one is empty."""
    if empty := [row for row, cell in enumerate(cells) if cell is None or cell == "" or cell != cell]:  # noqa: PLR0124 - NaN
        raise DataError(
            f"{rows.path.name}, column {name!r}: {len(empty)} cells are empty, first in rows "
            f"{', '.join(str(row + 1) for row in empty[:MAX_NAMED])}.",
            remedy="Fill them in or drop the rows.",
            details={"rows": [row + 1 for row in empty[:MAX_NAMED]], "count": len(empty)},
        )
    return cells


def _plain(cell: Any) -> Any:
    """Return a date as text, and other cells as they are."""
    return cell if cell is None or isinstance(cell, int | float | str) else str(cell)


def _texts(rows: Cells, name: str) -> list[str]:
    return [str(cell).removeprefix("./") for cell in _filled(rows, name, _column(rows, name))]


YES, NO = {"1", "true", "yes", "1.0"}, {"0", "false", "no", "0.0"}


def _flags(rows: Cells, name: str) -> list[float]:
    """Return 1 for yes and 0 for no. Raises DataError for anything else."""
    cells = [str(cell).strip().lower() for cell in _filled(rows, name, _column(rows, name))]
    for row, cell in enumerate(cells):
        if cell not in YES | NO:
            raise DataError(
                f"{rows.where(row)}, column {name!r}: {cell[:60]!r} is neither yes (1) nor no (0).",
                remedy="Each of several target columns says whether its label applies; name one column for classes.",
            )
    return [float(cell in YES) for cell in cells]
