"""Writers of tables: one table of columns in many dialects and formats."""

from __future__ import annotations

import csv
import io
import json
import zipfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any
from xml.sax.saxutils import escape

from case import KEY, Column, signal

Table = dict[str, list[Any]]


def table_of(columns: Mapping[str, Column]) -> Table:
    """Return the columns' cells by name, with the key and the signal before them."""
    rows = len(next(iter(columns.values())).cells)
    keys = {KEY: [3 * row + 1 for row in range(rows)], "dose_given": signal(rows)}
    return keys | {name: list(column.cells) for name, column in columns.items()}


def text_of(table: Table, *, sep: str = ",", end: str = "\n", quoting: int = csv.QUOTE_MINIMAL) -> str:
    """Return a table as delimited text."""
    out = io.StringIO()
    writer = csv.writer(out, delimiter=sep, lineterminator=end, quoting=quoting)
    writer.writerow(table)
    writer.writerows(zip(*table.values(), strict=True))
    return out.getvalue()


def delimited(
    columns: Mapping[str, Column],
    name: str = "rows.csv",
    *,
    change: Callable[[str], str] = str,
    pack: Callable[[bytes], bytes] = bytes,
    encoding: str = "utf-8",
    **dialect: Any,
) -> Callable[[Path], object]:
    """Return what writes a text file.

    Args:
        columns: beside the key and the signal.
        name: of the file.
        change: changes the text before it is encoded.
        pack: changes the bytes, to compress them, say.
        encoding: of the text.
        dialect: as `text_of`.
    """
    return lambda folder: _bytes(folder / name, pack(change(text_of(table_of(columns), **dialect)).encode(encoding)))


def _bytes(path: Path, content: bytes) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)


def raw(name: str, content: bytes | str) -> Callable[[Path], object]:
    """Return what writes a file as it is."""
    return lambda folder: _bytes(folder / name, content.encode() if isinstance(content, str) else content)


def several(*writers: Callable[[Path], object]) -> Callable[[Path], object]:
    """Return what writes several files."""
    return lambda folder: [writer(folder) for writer in writers]


def arrow(columns: Mapping[str, Column], name: str, types: Mapping[str, Any] | None = None) -> Callable[[Path], object]:
    """Return what writes parquet, feather or ORC, by the name's ending."""

    def write(folder: Path) -> None:
        import pyarrow as pa
        from pyarrow import feather, orc, parquet

        given = types or {}
        arrays = {key: pa.array(cells, given.get(key)) for key, cells in table_of(columns).items()}
        writers = {"parquet": parquet.write_table, "feather": feather.write_feather, "arrow": feather.write_feather}
        writers.get(name.rpartition(".")[2], orc.write_table)(pa.table(arrays), str(folder / name))

    return write


def lines(columns: Mapping[str, Column], name: str = "rows.jsonl") -> Callable[[Path], object]:
    """Return what writes JSON lines, or one list of objects where the name ends in json."""

    def write(folder: Path) -> None:
        table = table_of(columns)
        rows = [dict(zip(table, row, strict=True)) for row in zip(*table.values(), strict=True)]
        text = json.dumps(rows) if name.endswith(".json") else "\n".join(map(json.dumps, rows)) + "\n"
        _bytes(folder / name, text.encode())

    return write


def workbook(columns: Mapping[str, Column], name: str = "rows.xlsx") -> Callable[[Path], object]:
    """Return what writes an Excel workbook of one sheet: the least that is one."""

    def cell(value: Any) -> str:
        if isinstance(value, int | float):
            return f"<c><v>{value}</v></c>"
        return f'<c t="inlineStr"><is><t>{escape(str(value))}</t></is></c>'

    def write(folder: Path) -> None:
        table = table_of(columns)
        rows = [list(table), *map(list, zip(*table.values(), strict=True))]
        sheet = "".join(f"<row>{''.join(map(cell, row))}</row>" for row in rows)
        main = "http://schemas.openxmlformats.org/spreadsheetml/2006/main"
        office = "http://schemas.openxmlformats.org/officeDocument/2006/relationships"
        package = "http://schemas.openxmlformats.org/package/2006"
        of_sheet = "application/vnd.openxmlformats-officedocument.spreadsheetml"
        with zipfile.ZipFile(folder / name, "w", zipfile.ZIP_DEFLATED) as archive:
            archive.writestr(
                "[Content_Types].xml",
                f'<Types xmlns="{package}/content-types">'
                '<Default Extension="rels" ContentType="application/vnd.openxmlformats-package.relationships+xml"/>'
                f'<Override PartName="/xl/workbook.xml" ContentType="{of_sheet}.sheet.main+xml"/>'
                f'<Override PartName="/xl/worksheets/sheet1.xml" ContentType="{of_sheet}.worksheet+xml"/></Types>',
            )
            related = f'<Relationships xmlns="{package}/relationships"><Relationship Id="r1" Type="{office}/'
            archive.writestr("_rels/.rels", f'{related}officeDocument" Target="xl/workbook.xml"/></Relationships>')
            archive.writestr(
                "xl/workbook.xml",
                f'<workbook xmlns="{main}" xmlns:r="{office}"><sheets>'
                '<sheet name="data" sheetId="1" r:id="r1"/></sheets></workbook>',
            )
            archive.writestr(
                "xl/_rels/workbook.xml.rels", f'{related}worksheet" Target="worksheets/sheet1.xml"/></Relationships>'
            )
            archive.writestr(
                "xl/worksheets/sheet1.xml", f'<worksheet xmlns="{main}"><sheetData>{sheet}</sheetData></worksheet>'
            )

    return write
