"""Tables as JSON: an object a line, or one list of objects; a key that a row lacks is a missing value."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from trainwright.trainer.base.errors import DataError
from trainwright.trainer.data.sources.cells import Wanted, named
from trainwright.trainer.data.sources.tables import Numbers, Table, Texts
from trainwright.trainer.data.table import transform
from trainwright.trainer.data.table.schema import ROWS

if TYPE_CHECKING:
    import pyarrow as pa

ROWS_AT_ONCE = 1 << 13


class _File(Table):
    """A file of JSON lines, or of one list."""

    name: ClassVar[str] = "jsonl"
    endings: ClassVar[tuple[str, ...]] = ("jsonl", "ndjson", "json")

    def _header(self, path: Path) -> list[str]:
        keys: dict[str, None] = {}
        for _, record in islice(records_of(path), ROWS):
            keys |= dict.fromkeys(record)
        if not keys:
            raise DataError(
                f"{path.name} has no row with data.", remedy="Point data.args.path at a file with data in it."
            )
        return named(keys, path)

    def _batches(self, path: Path, wanted: Wanted) -> Iterator[pa.RecordBatch]:
        """Yield the rows as Arrow parses them; from where it cannot, line by line, so that what is wrong is named."""
        import pyarrow as pa

        done = 0
        with suppress(pa.ArrowInvalid, UnicodeDecodeError):
            for batch in _parsed(path, self._header(path)):
                yield batch.select(wanted.names)
                done += batch.num_rows
        if done == 0 or done != _lines(path):
            yield from self._line_by_line(path, wanted.names, done)

    def _line_by_line(self, path: Path, names: list[str], done: int) -> Iterator[pa.RecordBatch]:
        import pyarrow as pa

        known = set(self._header(path))
        records = islice(records_of(path), done, None)
        while some := list(islice(records, ROWS_AT_ONCE)):
            for place, record in some:
                if not record.keys() <= known:
                    other = ", ".join(sorted(record.keys() - known))
                    raise DataError(
                        f"{path.name} {place} has keys that none of the first {ROWS} rows has: {other}.",
                        remedy="Remove them, or give the first row all keys, null where it has no value.",
                    )
            columns = [_column([record.get(name) for _, record in some]) for name in names]
            yield pa.RecordBatch.from_arrays(columns, names=names)

    def places(self, path: Path) -> Iterator[str]:
        """Yield the line of each row, or its number in the list."""
        return (f"{path.name} {place}" for place, _ in records_of(path))


def _parsed(path: Path, header: list[str]) -> Iterator[pa.RecordBatch]:
    """Yield rows whose cells are of one plain type in each column, as in the first rows.

    Raises:
        ArrowInvalid, UnicodeDecodeError: a line that is not of these columns and types.
    """
    import pyarrow as pa
    from pyarrow import json as arrow

    kinds: dict[str, set[type]] = {name: set() for name in header}
    for _, record in islice(records_of(path), ROWS):
        for name, cell in record.items():
            kinds.setdefault(name.strip(), set()).add(type(cell))
    types = {
        name: next((kind for of, kind in _TYPES.items() if met - {type(None)} <= of), None)
        for name, met in kinds.items()
    }
    if None in types.values() or list(types) != header or not hasattr(arrow, "open_json"):  # pyarrow before 20
        return
    schema = pa.schema([(name, getattr(pa, str(kind))()) for name, kind in types.items()])
    parsing = arrow.ParseOptions(explicit_schema=schema, unexpected_field_behavior="error")
    with transform.unpacked(path) as file, arrow.open_json(file, parse_options=parsing) as batches:
        yield from batches


_TYPES = {frozenset({str}): "string", frozenset({int}): "int64", frozenset({int, float}): "float64",
          frozenset({bool}): "bool_"}  # fmt: skip
"""Arrow's type by the types of cells."""


def _lines(path: Path) -> int:
    """Return how many lines are not blank."""
    with transform.unpacked(path) as file:
        return sum(not line.isspace() for line in file)


def _column(cells: list[Any]) -> pa.Array:
    """Return cells as an array: of one type where they have one, else as text."""
    import pyarrow as pa

    kinds = {type(cell) for cell in cells if cell is not None}
    if kinds <= {int, float} or len(kinds) == 1:
        try:
            return pa.array(cells)
        except (pa.ArrowInvalid, OverflowError):  # whole numbers of more than 64 bits, beside floating ones
            return pa.array([None if cell is None else str(cell) for cell in cells], type=pa.string())
    return pa.array([transform.text_of(cell) for cell in cells], type=pa.string())


def records_of(path: Path) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield place and object of each row. Raises DataError for a row that is none."""
    try:
        yield from transform.objects_of(path)
    except UnicodeDecodeError:
        raise
    except ValueError as error:
        raise DataError(
            f"{path.name} {error}.",
            remedy='Repair or remove the row; each is an object of its columns: {"age": 41, "plan": "basic"}.',
        ) from error


class JsonLinesTexts(_File, Texts):
    """JSON lines, one key of which holds texts."""


class JsonLines(_File, Numbers):
    """A table in JSON lines."""

    texts: ClassVar[type[Texts]] = JsonLinesTexts
