"""Tables in text files with a header line: comma-separated, or with another delimiter."""

from __future__ import annotations

import csv
from pathlib import Path
from typing import Annotated, ClassVar

from pydantic import Field

from trainwright.trainer.base.errors import DataError
from trainwright.trainer.data.sources.cells import Batches, Cells, UnusualError
from trainwright.trainer.data.sources.source import unreadable
from trainwright.trainer.data.sources.tables import Numbers, Table, Texts

BLOCK_BYTES = 1 << 20
"""Of a file that are parsed together: as many as fit into a core's cache."""


class _File(Table):
    """A text file of rows."""

    name: ClassVar[str] = "csv"
    endings: ClassVar[tuple[str, ...]] = ("csv", "tsv")
    delimiter: Annotated[str, Field(min_length=1, max_length=1)] = ","

    def cells(self, path: Path) -> Cells:
        """Return the cells of a table with a header line; blank lines are left out.

        Raises:
            DataError: unreadable, empty, two columns of one name, or a row that is longer or shorter than the header.
        """
        try:
            with path.open(encoding="utf-8-sig", newline="") as file:
                reader = csv.reader(file, delimiter=self.delimiter)
                lines = [(reader.line_num, row) for row in reader if any(cell.strip() for cell in row)]
        except (OSError, UnicodeDecodeError, csv.Error) as error:
            raise unreadable(path, error) from error
        if len(lines) < 2:
            raise DataError(
                f"{path.name} has {len(lines)} line(s): a header line and at least one row are needed.",
                remedy="Point data.args.path at a table with data in it.",
            )
        header = [cell.strip() for cell in lines[0][1]]
        for line, row in lines[1:]:
            if len(row) != len(header):
                raise DataError(
                    f"{path.name} line {line} has {len(row)} cells, the header has {len(header)}.",
                    remedy="Repair the line, or set data.args.delimiter.",
                )
        return Cells(path, header, [row for _, row in lines[1:]], [line for line, _ in lines[1:]], "line")

    def batches(self, path: Path) -> Batches:
        """Return the rows as pyarrow parses them: the first column asked for as text, the others as numbers."""
        import pyarrow as pa
        from pyarrow import csv as arrow

        with path.open(encoding="utf-8-sig", newline="") as file:
            reader = csv.reader(file, delimiter=self.delimiter)
            header = [cell.strip() for cell in next(reader, [])]
            if reader.line_num != 1 or not any(header):
                raise UnusualError
        reading = arrow.ReadOptions(block_size=BLOCK_BYTES, skip_rows=1, column_names=header)
        parsing = arrow.ParseOptions(delimiter=self.delimiter, newlines_in_values=True)

        def read(names: list[str]) -> arrow.CSVStreamingReader:
            kinds = {names[0]: pa.string(), **{name: pa.float64() for name in names[1:]}}
            converting = arrow.ConvertOptions(column_types=kinds, include_columns=names, null_values=[])
            return arrow.open_csv(path, read_options=reading, parse_options=parsing, convert_options=converting)

        return Batches(header, read)


class CsvTexts(_File, Texts):
    """A text file of rows, one column of which holds texts."""


class Csv(_File, Numbers):
    """A table of numbers in a text file."""

    texts = CsvTexts
