"""Tables as JSON lines: an object a line, all with the keys of the first."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, ClassVar

from trainwright.trainer.base.errors import DataError
from trainwright.trainer.data.sources.cells import Batches, Cells, UnusualError
from trainwright.trainer.data.sources.source import unreadable
from trainwright.trainer.data.sources.tables import Numbers, Table, Texts

BLOCK_BYTES = 1 << 20
MINUS_ZERO = re.compile(rb"-0[ \t\r]{0,8}[,}]")
LONGEST = 10


class _File(Table):
    """A file of JSON lines."""

    name: ClassVar[str] = "jsonl"
    endings: ClassVar[tuple[str, ...]] = ("jsonl",)

    def cells(self, path: Path) -> Cells:
        """Return the cells of one JSON object per line; blank lines are left out. The columns are the first's keys.

        Raises:
            DataError: unreadable, empty, a line that is no object, or one with other keys; it names the line.
        """
        records: list[tuple[int, dict[str, Any]]] = []
        try:
            text = path.read_text(encoding="utf-8-sig")
        except (OSError, UnicodeDecodeError) as error:
            raise unreadable(path, error) from error
        for line, content in enumerate(text.split("\n"), start=1):
            if not content.strip():
                continue
            try:
                record = json.loads(content)
            except (ValueError, RecursionError) as error:
                raise DataError(
                    f"{path.name} line {line} is no JSON: {str(error)[:120]}.", remedy="Repair or remove the line."
                ) from error
            if not isinstance(record, dict) or (records and record.keys() != records[0][1].keys()):
                wanted = f"an object with the keys {', '.join(records[0][1])}" if records else "an object"
                found = f"one with {', '.join(record) or 'none'}" if isinstance(record, dict) else type(record).__name__
                raise DataError(
                    f"{path.name} line {line} is not {wanted}, but {found}.", remedy="Give every line the same keys."
                )
            records.append((line, record))
        if not records:
            raise DataError(
                f"{path.name} has no line with data.", remedy="Point data.args.path at a file with data in it."
            )
        header = list(records[0][1])
        rows = [[record[name] for name in header] for _, record in records]
        return Cells(path, header, rows, [line for line, _ in records], "line")

    def batches(self, path: Path) -> Batches:
        """Return the rows as pyarrow parses them, all keys of the kinds that the first line has: numbers, or text."""
        import pyarrow as pa
        from pyarrow import json as arrow

        with path.open("rb") as file:
            first = json.loads(file.readline())
        kinds = {bool: pa.bool_(), int: pa.float64(), float: pa.float64(), str: pa.string()}
        if not isinstance(first, dict) or not {type(value) for value in first.values()} <= kinds.keys():
            raise UnusualError

        def read(names: list[str]) -> Iterator[Any]:
            types = {name: kinds[type(value)] for name, value in first.items()}
            if type(first[names[0]]) is int:
                types[names[0]] = pa.int64()  # so that it says what the file says
            parsing = arrow.ParseOptions(explicit_schema=pa.schema(types), unexpected_field_behavior="error")
            rows = 0
            for batch in arrow.open_json(path, arrow.ReadOptions(block_size=BLOCK_BYTES), parsing):
                batch.validate(full=True)
                if any(column.null_count for column in batch.columns):
                    raise UnusualError
                yield batch.select(names)
                rows += batch.num_rows
            if rows != _rows(path):
                raise UnusualError

        return Batches(list(first), read, rounds=True)


def _rows(path: Path) -> int:
    """Return how many rows a file has with one on each line. Raises UnusualError for a whole -0, which is 0."""
    lines, last = 0, b""
    with path.open("rb") as file:
        while block := file.read(BLOCK_BYTES):
            lines += block.count(b"\n")
            if MINUS_ZERO.search(last[-LONGEST:] + block):
                raise UnusualError
            last = block
    return lines + (not last.endswith(b"\n"))


class JsonLinesTexts(_File, Texts):
    """JSON lines, one key of which holds texts."""


class JsonLines(_File, Numbers):
    """A table of numbers in JSON lines."""

    texts = JsonLinesTexts
