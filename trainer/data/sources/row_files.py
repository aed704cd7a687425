"""Rows of files whose cells may be lists and texts: JSON lines, JSON, Parquet, CSV, or a folder of save_to_disk."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain
from pathlib import Path
from typing import Annotated, Any

from pydantic import Field

from trainwright.trainer.base.errors import DataError
from trainwright.trainer.base.paths import confine_folder
from trainwright.trainer.data.sources.cells import Wanted, files_of
from trainwright.trainer.data.sources.csv_file import CsvTexts
from trainwright.trainer.data.sources.json_lines import records_of
from trainwright.trainer.data.sources.parquet_file import ParquetTexts
from trainwright.trainer.data.sources.source import PATH, Files, Name, unreadable
from trainwright.trainer.data.sources.tables import UNREADABLE, Texts
from trainwright.trainer.data.sources.text_files import find_files

Row = tuple[str, dict[str, Any]]
"""A row's place, and its columns."""
TABLES = (".csv", ".tsv")


class RowFiles(Files):
    """A source that reads its files row by row, each a mapping of columns to cells of any kind."""

    path: Name | Annotated[list[Name], Field(min_length=1)]
    """Files (jsonl, json, parquet; csv, tsv where cells are texts), patterns, or a folder of save_to_disk."""

    def rows(self, code_root: Path) -> tuple[list[Path], list[Row]]:
        """Return the files, and all rows of them. Raises DataError where one is unreadable, or there is no row."""
        if isinstance(self.path, str) and (code_root / self.path).is_dir():
            folder = confine_folder(self.path, code_root, key=PATH)
            files, rows = files_of(folder), list(_of_folder(folder))
        else:
            files = find_files(self.path, code_root)
            for file in files:
                self.require_readable(file)
            rows = [row for file in files for row in _of_file(file)]
        if not rows:
            raise DataError("There is no row in the files.", remedy="Point data.args.path at files with rows.")
        return files, rows

    def require_readable(self, file: Path) -> None:
        """Refuse a kind of file that the source does not take. Raises DataError."""


def _of_file(file: Path) -> Iterator[Row]:
    endings = {suffix.lower() for suffix in file.suffixes[-2:]}
    if not endings.isdisjoint((*TABLES, ".parquet")):
        yield from _of_table(file, ParquetTexts if ".parquet" in endings else CsvTexts)
        return
    try:
        for place, row in records_of(file):
            yield f"{file.name} {place}", row
    except UNREADABLE as error:
        raise unreadable(file, error) from error


def _of_table(file: Path, kind: type[Texts]) -> Iterator[Row]:
    """Yield the rows of a table; an empty cell of text is left out."""
    table = kind(path=file.name, text="*")
    batches = table.read(file, Wanted(table.header_of(file)))
    for place, row in zip(
        table.places(file), chain.from_iterable(batch.to_pylist() for batch in batches), strict=False
    ):
        yield place, {name: cell for name, cell in row.items() if cell != ""} if kind is CsvTexts else row


def _of_folder(folder: Path) -> Iterator[Row]:
    from pyarrow import ArrowException

    from trainwright.trainer.data.sources.arrow_folder import rows_of

    try:
        for number, row in enumerate(rows_of(folder), start=1):
            yield f"{folder.name} row {number}", row
    except (OSError, ValueError, KeyError, TypeError, ArrowException) as error:
        raise unreadable(folder, error) from error
