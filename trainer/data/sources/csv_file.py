"""Tables in text files: comma-separated, or with another delimiter, which is found; compressed ones too.

pyarrow reads the rows, for training and validation alike: polars takes quotes within cells and lines that end in CR for
faults. Its rules are those of Python's csv, which reads the first lines, names places, and serves (`transform`).
"""

from __future__ import annotations

import csv
import re
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar

from pydantic import Field

from trainwright.trainer.base.errors import DataError
from trainwright.trainer.data.sources import csv_faults as faults
from trainwright.trainer.data.sources.cells import OddNumbersError, Wanted
from trainwright.trainer.data.sources.csv_faults import Line
from trainwright.trainer.data.sources.headed import Headed
from trainwright.trainer.data.sources.source import Name, unreadable
from trainwright.trainer.data.sources.tables import UNREADABLE, Numbers, Texts
from trainwright.trainer.data.table import transform

if TYPE_CHECKING:
    import pyarrow as pa

BLOCKS_BYTES = (1 << 20, 1 << 24, 1 << 30)
"""Of a file that are parsed together: as many as fit into a core's cache; more where one row takes more."""
UTF8 = "utf-8-sig"
UTF16 = re.compile(rb"\xff\xfe[^\0]|\xfe\xff")
"""Its mark, and a first letter."""
UTF32 = (b"\xff\xfe\0\0", b"\0\0\xfe\xff")
DELIMITERS = (",", ";", "\t", "|")
LINES = 50
"""In which the delimiter is looked for, and whether the first one is a header."""
EMPTY = ["", "NA", "N/A", "n/a", "#N/A", "NaN", "nan", "NULL", "null", "None", "<NA>", "?"]
"""Cells of numbers that hold none; `transform.MISSING` knows them in any case."""
ODD = re.compile(r"column #(\d+): (?:Row #\d+: )?CSV conversion error to (?:double|float|int64)")


class _File(Headed):
    """A text file of rows."""

    name: ClassVar[str] = "csv"
    endings: ClassVar[tuple[str, ...]] = ("csv", "tsv")
    is_text: ClassVar[bool] = True
    delimiter: Annotated[str, Field(min_length=1, max_length=1)] | None = None
    """Left out: found in the first lines."""
    encoding: Name | None = None
    """Left out: UTF-8, or UTF-16 with its mark."""

    def _encoding(self, path: Path) -> str:
        if self.encoding is not None:
            return self.encoding
        with transform.unpacked(path) as file:
            head = file.read(4)
        if head in UTF32:
            return "utf-32"
        return "utf-16" if UTF16.match(head) else UTF8

    def _delimiter(self, path: Path) -> str:
        """Return the delimiter that most of the first lines have as often as the header, or as `sep=` says it."""
        if self.delimiter is not None:
            return self.delimiter
        with transform.opened(path, self._encoding(path)) as file:
            above, reader = transform.begun(file, {"header": self.header})
            if above and reader.dialect.delimiter != ",":
                return str(reader.dialect.delimiter)
        with transform.opened(path, self._encoding(path)) as file:
            lines = [line for line in islice(file, above, above + LINES) if line.strip()]
        best = (0.0, ",")
        for delimiter in DELIMITERS:
            widths = [len(row) for row in csv.reader(lines, delimiter=delimiter)]
            width = widths[0] if widths and widths[0] > 1 else 0
            best = max(best, (widths.count(width) / max(len(widths), 1), delimiter), key=lambda found: found[0])
        return best[1]

    def _lines(self, path: Path) -> Iterator[Line]:
        """Yield each line that is not blank; the header first, where there is one."""
        how = self._how(path)
        with transform.opened(path, how["encoding"]) as file:
            above, reader = transform.begun(file, how)
            before = above
            for cells in reader:
                if cells:
                    yield Line(before, above + reader.line_num, cells)
                before = above + reader.line_num

    def _how(self, path: Path) -> dict[str, Any]:
        found = {"delimiter": self._delimiter(path), "encoding": self._encoding(path)}
        return found if self.header is None else found | {"header": self.header}

    def _start(self, path: Path) -> tuple[list[str], int]:
        """Return the columns' names, and the number of lines above the first row."""
        lines = list(islice(self._lines(path), LINES))
        if any("\0" in cell for line in lines[:1] for cell in line.cells):
            raise faults.zero_bytes(path)
        return self.started(path, lines)

    def _header(self, path: Path) -> list[str]:
        return self._start(path)[0]

    def _batches(self, path: Path, wanted: Wanted) -> Iterator[pa.RecordBatch]:
        import pyarrow as pa
        from pyarrow import csv as arrow

        (header, above), how, done = self._start(path), self._how(path), 0
        kinds = {name: pa.float64() if name in wanted.numbers else pa.string() for name in wanted.names}
        kinds |= dict.fromkeys(wanted.whole, pa.int64())
        converting = arrow.ConvertOptions(
            column_types=kinds, include_columns=wanted.names, null_values=EMPTY, decimal_point=wanted.decimal
        )
        parsing = arrow.ParseOptions(delimiter=how["delimiter"], newlines_in_values=True)
        for size in BLOCKS_BYTES:
            reading = arrow.ReadOptions(
                block_size=size, skip_rows=above, column_names=header, encoding=how["encoding"].replace(UTF8, "utf8")
            )
            skipped = done
            try:
                with transform.unpacked(path) as file:
                    source = file if transform.packed(path) else pa.OSFile(str(path))
                    for batch in arrow.open_csv(source, reading, parsing, converting):
                        new = batch.slice(min(skipped, batch.num_rows))
                        skipped -= batch.num_rows - new.num_rows
                        done += new.num_rows
                        if new.num_rows:
                            yield new
                break
            except pa.ArrowInvalid as error:
                odd = ODD.search(str(error))
                if odd is not None:
                    raise OddNumbersError(header[int(odd[1])]) from error
                if "straddling" not in str(error) or size == BLOCKS_BYTES[-1]:
                    raise
        faults.require_closed_quotes(path, how, above, done, len(header))

    def diagnosed(self, path: Path, error: Exception) -> DataError:
        """Return what is wrong: bytes of another encoding, or a row that is longer or shorter than the header."""
        try:
            header, above = self._start(path)
            count = 0
            for line in self._lines(path):
                count += line.line > above
                if line.line > above and len(line.cells) != len(header):
                    if line.line > line.above + 1:
                        faults.require_closed_quotes(path, self._how(path), above, 0, len(header))
                    return faults.ragged(path, line, header)
        except UnicodeDecodeError:
            return faults.wrong_encoding(path, self._encoding(path))
        except UNREADABLE as problem:
            return unreadable(path, problem)
        return self.without_rows(path) if not count else unreadable(path, error)

    def without_rows(self, path: Path) -> DataError:
        """Return the error for a file that has a header alone."""
        return faults.too_short(path, int(self.is_headed))

    def places(self, path: Path) -> Iterator[str]:
        """Yield the line of each row, where it ends."""
        above = self._start(path)[1]
        return (f"{path.name} line {line.line}" for line in self._lines(path) if line.line > above)

    def reading(self, path: Path) -> dict[str, Any]:
        """Return delimiter, encoding, and what the configuration says of the header."""
        said = {"names": self._header(path), "header": self.header or 0} if self.names or self.header == 0 else {}
        return self._how(path) | said


class CsvTexts(_File, Texts):
    """A text file of rows, one column of which holds texts."""


class Csv(_File, Numbers):
    """A table in a text file."""

    texts: ClassVar[type[Texts]] = CsvTexts
