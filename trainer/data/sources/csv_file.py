"""Tables in text files with a header line: comma-separated, or with another delimiter, which is found."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Iterator
from functools import partial
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar

from pydantic import Field

from trainwright.trainer.base.errors import DataError
from trainwright.trainer.data.sources.cells import OddNumbersError, Wanted, named
from trainwright.trainer.data.sources.source import Name, unreadable
from trainwright.trainer.data.sources.tables import Numbers, Table, Texts

if TYPE_CHECKING:
    import polars as pl
    import pyarrow as pa

BLOCK_BYTES = 1 << 20
"""Of a file that are parsed together: as many as fit into a core's cache."""
UTF8 = "utf-8-sig"
UTF16 = re.compile(rb"\xff\xfe[\x09-\x7e]\x00|\xfe\xff\x00[\x09-\x7e]")
"""Its mark and a first letter."""
DELIMITERS = (",", ";", "\t", "|")
LINES = 50
"""In which the delimiter is looked for."""
EMPTY = ["", "NA", "N/A", "n/a", "#N/A", "NaN", "nan", "NULL", "null", "None", "<NA>", "?"]
"""Cells of numbers that hold none; `transform.MISSING` knows them in any case."""
ODD = re.compile(r"column #(\d+): (?:Row #\d+: )?CSV conversion error to (?:double|float)")


class _File(Table):
    """A text file of rows."""

    name: ClassVar[str] = "csv"
    endings: ClassVar[tuple[str, ...]] = ("csv", "tsv")
    delimiter: Annotated[str, Field(min_length=1, max_length=1)] | None = None
    """Left out: found in the first lines."""
    encoding: Name | None = None
    """Left out: UTF-8, or UTF-16 with its mark."""

    def _encoding(self, path: Path) -> str:
        with path.open("rb") as file:
            head = file.read(4)
        return self.encoding or ("utf-16" if UTF16.match(head) else UTF8)

    def _delimiter(self, path: Path) -> str:
        """Return the delimiter that most of the first lines have as often as the header."""
        if self.delimiter is not None:
            return self.delimiter
        with path.open(encoding=self._encoding(path), newline="") as file:
            lines = [line for line in islice(file, LINES) if line.strip()]
        best = (0.0, ",")
        for delimiter in DELIMITERS:
            widths = [len(row) for row in csv.reader(lines, delimiter=delimiter)]
            if widths and widths[0] > 1:
                best = max(best, (widths.count(widths[0]) / len(widths), delimiter), key=lambda found: found[0])
        return best[1]

    def _start(self, path: Path) -> tuple[list[str], int, str]:
        """Return the columns' names, the number of lines up to them, and the delimiter."""
        delimiter = self._delimiter(path)
        with path.open(encoding=self._encoding(path), newline="") as file:
            reader = csv.reader(file, delimiter=delimiter)
            header = next((row for row in reader if any(cell.strip() for cell in row)), None)
            if header is None:
                raise _too_short(path, 0)
            if any("\0" in cell for cell in header):
                raise _zero_bytes(path)
            return named(header, path), reader.line_num, delimiter

    def _header(self, path: Path) -> list[str]:
        return self._start(path)[0]

    def _batches(self, path: Path, wanted: Wanted) -> Iterator[pa.RecordBatch]:
        import pyarrow as pa
        from pyarrow import csv as arrow

        header, lines, delimiter = self._start(path)
        encoding = self._encoding(path).replace(UTF8, "utf8")
        reading = arrow.ReadOptions(block_size=BLOCK_BYTES, skip_rows=lines, column_names=header, encoding=encoding)
        parsing = arrow.ParseOptions(delimiter=delimiter, newlines_in_values=True)
        kinds = {name: pa.float64() if name in wanted.numbers else pa.string() for name in wanted.names}
        converting = arrow.ConvertOptions(
            column_types=kinds, include_columns=wanted.names, null_values=EMPTY, decimal_point=wanted.decimal
        )
        try:
            yield from arrow.open_csv(path, read_options=reading, parse_options=parsing, convert_options=converting)
        except pa.ArrowInvalid as error:
            odd = ODD.search(str(error))
            if odd is None:
                raise
            raise OddNumbersError(header[int(odd[1])]) from error
        self._require_closed_quotes(path, delimiter)

    def _require_closed_quotes(self, path: Path, delimiter: str) -> None:
        """Check that no cell goes on to the file's end because its quote is never closed. Raises DataError."""
        with path.open("rb") as file:
            count = sum(piece.count(b'"') for piece in iter(partial(file.read, BLOCK_BYTES), b""))
        if count % 2 == 0 and self._encoding(path) != "utf-16":
            return
        with path.open(encoding=self._encoding(path), newline="") as file:
            reader, line = csv.reader(file, delimiter=delimiter, strict=True), 0
            try:
                for _ in reader:
                    line = reader.line_num
            except csv.Error as error:
                if "unexpected end" in str(error):
                    raise DataError(
                        f"{path.name} line {line + 1} opens a quote that is never closed; all after it is one cell.",
                        remedy='Close the quote, or write one within a cell twice: "a ""quoted"" word".',
                        details={"line": line + 1},
                    ) from error

    def diagnosed(self, path: Path, error: Exception) -> DataError:
        """Return what is wrong: bytes of another encoding, or a row that is longer or shorter than the header."""
        try:
            with path.open(encoding=self._encoding(path), newline="") as file:
                reader = csv.reader(file, delimiter=self._delimiter(path))
                rows = ((reader.line_num, row) for row in reader if row)
                header, count = next(rows, (0, []))[1], 1
                for line, row in rows:
                    count += 1
                    if len(row) != len(header):
                        return DataError(
                            f"{path.name} line {line} has {len(row)} cells, the header has {len(header)}.",
                            remedy="Repair the line, or set data.args.delimiter.",
                        )
        except UnicodeDecodeError:
            return _wrong_encoding(path, self._encoding(path))
        except (OSError, LookupError, csv.Error) as problem:
            return unreadable(path, problem)
        return _too_short(path, count) if count < 2 else unreadable(path, error)

    def without_rows(self, path: Path) -> DataError:
        """Return the error for a file that has a header alone."""
        return _too_short(path, 1)

    def where(self, path: Path, row: int) -> str:
        """Return a row's line, where it ends."""
        with path.open(encoding=self._encoding(path), newline="") as file:
            reader = csv.reader(file, delimiter=self._delimiter(path))
            next(islice((one for one in reader if one), row + 1, None), None)
            return f"{path.name} line {reader.line_num}"

    def reading(self, path: Path) -> dict[str, Any]:
        """Return delimiter and encoding."""
        return {"delimiter": self._delimiter(path), "encoding": self._encoding(path)}

    def _scanned(self, path: Path) -> pl.LazyFrame:
        """Return the rows, without blank lines, as polars infers their kinds from all of them."""
        import polars as pl

        header, lines, delimiter = self._start(path)
        encoding = self._encoding(path)
        text = path if encoding == UTF8 else io.BytesIO(path.read_text(encoding=encoding).encode())
        frame = pl.scan_csv(
            text, separator=delimiter, has_header=False, skip_rows=lines, new_columns=header, null_values=EMPTY,
            infer_schema_length=None, try_parse_dates=True,
        )  # fmt: skip
        return frame.filter(~pl.all_horizontal(pl.all().is_null()))


def _zero_bytes(path: Path) -> DataError:
    with path.open("rb") as file:
        other = "utf-16-be" if file.read(1) == b"\0" else "utf-16-le"
    return DataError(
        f"{path.name} has zero bytes in its header: it is no text in UTF-8, but perhaps UTF-16 without its mark.",
        remedy=f'Set data.args.encoding to "{other}", or save the file as UTF-8.',
        details={"changes": {"data.args.encoding": other}},
    )


def _too_short(path: Path, lines: int) -> DataError:
    return DataError(
        f"{path.name} has {lines} line(s): a header line and at least one row are needed.",
        remedy="Point data.args.path at a table with data in it.",
    )


def _wrong_encoding(path: Path, encoding: str) -> DataError:
    """Return the error for bytes of another encoding, with the line and the encoding that fits."""
    with path.open("rb") as file:
        for line, data in enumerate(file, start=1):
            try:
                data.decode(encoding)
            except UnicodeDecodeError as error:
                return _named_encoding(path, encoding, line, data, error)
    return DataError(
        f"{path.name} cannot be read as {encoding}.", remedy='Set data.args.encoding, for example "utf-16".'
    )


def _named_encoding(path: Path, encoding: str, line: int, data: bytes, error: UnicodeDecodeError) -> DataError:
    for other in ("cp1252", "latin-1"):
        try:
            around = data.decode(other)[max(error.start - 12, 0) : error.start + 12].strip()
        except UnicodeDecodeError:
            continue
        return DataError(
            f"{path.name} cannot be read as {encoding.removesuffix('-sig')}: line {line} has the byte "
            f"0x{data[error.start]:02x}, which in {other} reads as {around!r}.",
            remedy=f'Set data.args.encoding to "{other}" if that is what it says, or save the file as UTF-8.',
            details={"line": line, "changes": {"data.args.encoding": other}},
        )
    return DataError(f"{path.name} line {line} is no {encoding}.", remedy="Save the file as UTF-8.")


class CsvTexts(_File, Texts):
    """A text file of rows, one column of which holds texts."""


class Csv(_File, Numbers):
    """A table in a text file."""

    texts: ClassVar[type[Texts]] = CsvTexts
