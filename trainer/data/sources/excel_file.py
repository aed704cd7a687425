"""Tables in spreadsheets (.xlsx, .xls, .ods), by calamine, as polars reads them: https://fastexcel.toucantoco.dev."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import count, dropwhile
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from trainwright.trainer.base.errors import ConfigurationError, DataError, near
from trainwright.trainer.data.sources import csv_faults as faults
from trainwright.trainer.data.sources.cells import Wanted
from trainwright.trainer.data.sources.headed import Headed
from trainwright.trainer.data.sources.source import Name
from trainwright.trainer.data.sources.tables import Numbers, Texts

if TYPE_CHECKING:
    import pyarrow as pa

LINES = 50
"""First rows, among which the header is looked for."""
NO_VALUE = "Error(NA)"
"""A formula's word for a missing value; its other errors are faults."""


class _File(Headed):
    """A sheet of a spreadsheet."""

    name: ClassVar[str] = "excel"
    endings: ClassVar[tuple[str, ...]] = ("xlsx", "xlsm", "xlsb", "xls", "ods")

    sheet: Name | None = None
    """Left out: the only one with rows."""

    def _opened(self, path: Path) -> tuple[Any, str]:
        """Return the spreadsheet and its sheet's name. Raises ConfigurationError, DataError."""
        try:
            import fastexcel
        except ImportError as error:
            raise ConfigurationError(
                f"{path.name} is a spreadsheet, and fastexcel, which reads it, is not installed.",
                remedy="Install it beside Trainwright (pip install 'trainwright[excel]'), or save the sheet as CSV.",
            ) from error
        try:
            book = fastexcel.read_excel(path.read_bytes())  # of a path the ending would decide
        except fastexcel.FastExcelError as error:
            raise ValueError(str(error).splitlines()[0]) from error
        names = list(book.sheet_names)
        if self.sheet is None and len(names) > 1:
            filled = [name for name in names if book.load_sheet(name, header_row=None, n_rows=1).total_height]
            names = filled or names[:1]
        wanted = self.sheet or names[0]
        if wanted not in names or (self.sheet is None and len(names) > 1):
            meant = near(wanted, names) if self.sheet else names
            raise DataError(
                f"{path.name} has "
                + (f"no sheet {wanted!r}" if self.sheet else f"{len(names)} sheets with rows")
                + f": {', '.join(names[:8])}.",
                remedy="Name one of them with data.args.sheet.",
                details={"changes": {"data.args.sheet": meant[0]}} if meant else {},
            )
        return book, wanted

    def _start(self, path: Path) -> tuple[list[str], int]:
        """Return the columns' names, and the number of rows of the sheet above the first one of the table."""
        book, sheet = self._opened(path)
        first = book.load_sheet(sheet, header_row=None, skip_rows=0, n_rows=LINES, dtypes="string").to_arrow()
        rows = zip(*(column.to_pylist() for column in first.columns), strict=True)
        lines = [faults.Line(row, row + 1, [cell or "" for cell in cells]) for row, cells in enumerate(rows)]
        return self.started(path, list(dropwhile(lambda line: not any(line.cells), lines)))

    def _header(self, path: Path) -> list[str]:
        return self._start(path)[0]

    def _batches(self, path: Path, wanted: Wanted) -> Iterator[pa.RecordBatch]:
        import pyarrow as pa

        (header, above), (book, sheet) = self._start(path), self._opened(path)
        loaded = book.load_sheet(
            sheet, header_row=None, skip_rows=above, schema_sample_rows=None, skip_whitespace_tail_rows=True
        )
        batch, errors = loaded.to_arrow_with_errors()
        for error in () if errors is None else errors.errors:
            row, column = error.offset_position
            if NO_VALUE not in error.detail:
                raise DataError(
                    f"{path.name} row {above + row + 1}, column {header[column]!r}: {error.detail}, a formula failed.",
                    remedy="Correct the formula, or empty the cell (an empty one is a missing value).",
                )
        if batch.num_rows:
            columns = [cells.cast(pa.string()) if pa.types.is_null(cells.type) else cells for cells in batch.columns]
            yield pa.RecordBatch.from_arrays(columns, names=header).select(wanted.names)

    def places(self, path: Path) -> Iterator[str]:
        """Yield each row's place in the sheet."""
        return (f"{path.name} row {row}" for row in count(self._start(path)[1] + 1))


class ExcelTexts(_File, Texts):
    """A spreadsheet, one column of which holds texts."""


class Excel(_File, Numbers):
    """A table in a spreadsheet."""

    texts: ClassVar[type[Texts]] = ExcelTexts
