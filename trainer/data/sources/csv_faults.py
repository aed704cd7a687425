"""Faults of tables in text files: the header, quotes, the encoding, a row of another width."""

from __future__ import annotations

import csv
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from itertools import chain, islice, pairwise
from pathlib import Path
from typing import Any, NamedTuple

from trainwright.trainer.base.errors import DataError
from trainwright.trainer.data.table import transform
from trainwright.trainer.data.table.transform import is_number

PIECE_BYTES = 1 << 20
SHOWN = 8
"""Cells of a line that a message shows."""
CERTAIN_WIDTH = 3
"""Cells from which one line of as many within a quoted cell is a row; of fewer, so many lines together."""
END = "\x1f the end \x1f"
"""A last line, which an open quote swallows."""
CLOSE = 'Close the quote, or write one within a cell twice: "a ""quoted"" word".'


class Line(NamedTuple):
    """Cells of a line."""

    above: int
    """Number of the lines above it."""
    line: int
    """Its number, counted from 1, where it ends."""
    cells: list[str]


def too_short(path: Path, lines: int) -> DataError:
    """Return the error for a file without a header, or with a header alone."""
    return DataError(
        f"{path.name} has {lines} line(s) and no rows: a header line and at least one row are needed.",
        remedy="Point data.args.path at a table with data in it.",
    )


def ragged(path: Path, line: Line, header: Sequence[str]) -> DataError:
    """Return the error for a row that is longer or shorter than the header."""
    if line.cells[0].startswith("#"):
        remedy = "Remove the line if it is a comment: comments are skipped above the header alone."
    else:
        remedy = "Repair the line, or set data.args.delimiter."
    return DataError(
        f"{path.name} line {line.line} has {len(line.cells)} cells, the header has {len(header)}.",
        remedy=remedy,
        details={"line": line.line},
    )


def other_width(path: Path, names: Sequence[str], row: Sequence[str]) -> DataError:
    """Return the error for names of columns that are more or fewer than the cells of a row."""
    return DataError(
        f"{path.name} has {len(row)} columns ({_shown(row)}), and data.args.names has {len(names)} names.",
        remedy="Name each column once, in the order of the file, the target too.",
    )


def require_header(path: Path, lines: Sequence[Line]) -> None:
    """Check that the first of these lines is a header. Raises DataError, which shows it and has the key for each case.

    Args:
        lines: the first line that is not blank and no comment, and some below it.
    """
    (_, line, header), rows = lines[0], [line.cells for line in lines[1:]]
    width = Counter(map(len, rows)).most_common(1)[0][0] if rows else len(header)
    fitting = next((place for place, one in enumerate(lines) if len(one.cells) == width), 0)
    if len(header) == 1 and width > 1 and fitting:
        found = lines[fitting]
        raise DataError(
            f"{path.name} line {line} has one cell ({_shown(header)}), and most lines have {width}: the header "
            f"seems to be in line {found.line} ({_shown(found.cells)}).",
            remedy=f"Set data.args.header to {found.line}.",
            details={"changes": {"data.args.header": found.line}},
        )
    if len(header) == width - 1 and len(rows) > 1:
        names = ["row", *header]
        raise DataError(
            f"{path.name} line {line} has {width - 1} names, and the rows have {width} cells: names of rows, as R "
            "writes them, have no column name.",
            remedy="Name the first column: set data.args.header and data.args.names, or correct the header.",
            details={"changes": {"data.args.header": line, "data.args.names": names}},
        )
    if _is_row(header, [row for row in rows if len(row) == len(header) and row != header]):
        names = [f"column_{number}" for number in range(1, len(header) + 1)]
        raise DataError(
            f"{path.name} line {line} ({_shown(header)}) looks like a row of data: the file seems to have no header.",
            remedy="Say the columns' names, in order, the target too: data.args.names; or set data.args.header to "
            f"{line} if this line does name the columns.",
            details={"changes": {"data.args.names": names}},
        )


def _is_row(header: Sequence[str], rows: Sequence[Sequence[str]]) -> bool:
    """Return whether cells look like those below them: words that their columns hold too, or numbers in no order."""
    if not rows:
        return False
    filled = [place for place, cell in enumerate(header) if cell.strip()]
    places = [place for place in filled if is_number(header[place])]
    words = [place for place in filled if place not in places]
    recurring = [place for place in words if header[place] in {row[place] for row in rows}]
    of_numbers = [place for place in places if any(is_number(row[place]) for row in rows)]
    if recurring and (2 * len(recurring) >= len(words) or of_numbers):
        return True
    numbers = [float(header[place]) for place in of_numbers]
    if len(numbers) == 1:
        return len(words) <= 1 and (numbers[0] < 0 or not numbers[0].is_integer())
    return bool(numbers) and not all(one < other for one, other in pairwise(numbers))


def _shown(cells: Sequence[str]) -> str:
    return ", ".join(cell[:40] for cell in cells[:SHOWN]) + (", …" if len(cells) > SHOWN else "")


def require_closed_quotes(path: Path, how: dict[str, Any], above: int, rows: int, width: int) -> None:
    """Check that no row was lost within a cell whose quote is never closed, or closed rows below.

    Args:
        how: delimiter and encoding.
        above: lines above the first row.
        rows: that were read.
        width: cells of a row.

    Raises:
        DataError: it names the line in which the quote opens.
    """
    quotes = lines = 0
    last = b"\n"
    with transform.unpacked(path) as raw:
        for piece in iter(partial(raw.read, PIECE_BYTES), b""):
            quotes, lines, last = quotes + piece.count(b'"'), lines + piece.count(b"\n"), piece[-1:]
    if not quotes or lines + (last != b"\n") == above + rows:  # then each line is a row
        return
    with transform.opened(path, how["encoding"]) as file:
        recent: list[str] = []
        line, all_lines = above, _recorded(chain(islice(file, above, None), [f"{END}\n"]), recent)
        reader = csv.reader(all_lines, delimiter=how["delimiter"])
        for cells in reader:
            if cells and cells[-1].endswith(f"{END}\n"):
                raise DataError(
                    f"{path.name} line {line + 1} opens a quote that is never closed; all after it is one cell.",
                    remedy=CLOSE,
                    details={"line": line + 1},
                )
            if len(recent) > 1:
                _require_one_row(path, recent, line + 1, how["delimiter"], width)
            recent.clear()
            line = above + reader.line_num


def _recorded(lines: Iterable[str], recent: list[str]) -> Iterator[str]:
    for line in lines:
        recent.append(line)
        yield line


def _require_one_row(path: Path, lines: Sequence[str], first: int, delimiter: str, width: int) -> None:
    """Check that the lines of one row hold no other rows. Raises DataError."""
    within = lines[1:-1]
    are_rows = within and all(line.count(delimiter) == width - 1 for line in within)
    is_torn = bool(are_rows) and (width >= CERTAIN_WIDTH or (width > 1 and len(within) >= CERTAIN_WIDTH))
    try:
        for _ in csv.reader(lines, delimiter=delimiter, strict=True):
            pass
    except csv.Error as error:
        is_torn = is_torn or "unexpected end" not in str(error)
    if is_torn:
        raise DataError(
            f"{path.name} line {first} opens a quote that is closed in line {first + len(lines) - 1}; the lines "
            "between are one cell, and look like rows.",
            remedy=CLOSE,
            details={"line": first},
        )


def zero_bytes(path: Path) -> DataError:
    """Return the error for a header with zero bytes, and the encoding that has them there."""
    with transform.unpacked(path) as file:
        other = "utf-16-be" if file.read(1) == b"\0" else "utf-16-le"
    return DataError(
        f"{path.name} has zero bytes in its header: it is no text in UTF-8, but perhaps UTF-16 without its mark.",
        remedy=f'Set data.args.encoding to "{other}", or save the file as UTF-8.',
        details={"changes": {"data.args.encoding": other}},
    )


def wrong_encoding(path: Path, encoding: str) -> DataError:
    """Return the error for bytes of another encoding, with the line and the encoding that fits."""
    good: list[int] = []
    bad: tuple[int, bytes, UnicodeDecodeError] | None = None
    with transform.unpacked(path) as file:
        for line, data in enumerate(file, start=1):
            try:
                data.decode(encoding)
            except UnicodeDecodeError as error:
                bad = bad or (line, data, error)
            else:
                good += [] if data.isascii() or len(good) > SHOWN else [line]
    if bad is None:
        return DataError(
            f"{path.name} cannot be read as {encoding}.", remedy='Set data.args.encoding, for example "utf-16".'
        )
    return _mixed(path, good, *bad) if good else _named_encoding(path, encoding, *bad)


def _mixed(path: Path, good: list[int], line: int, data: bytes, error: UnicodeDecodeError) -> DataError:
    return DataError(
        f"{path.name} mixes encodings: line {line} has the byte 0x{data[error.start]:02x}, which is no "
        f"{error.encoding}, and the letters of line {', '.join(map(str, good[:3]))} are.",
        remedy=f"Save the whole file as UTF-8: no one encoding reads line {line} and line {good[0]} rightly.",
        details={"line": line},
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
