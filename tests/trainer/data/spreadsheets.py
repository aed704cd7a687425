"""Small spreadsheets, written as their formats say, without a library."""

from __future__ import annotations

import zipfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any
from xml.sax.saxutils import escape

MAIN = "http://schemas.openxmlformats.org/spreadsheetml/2006/main"
RELATED = "http://schemas.openxmlformats.org/officeDocument/2006/relationships"
PACKAGE = "http://schemas.openxmlformats.org/package/2006"
OPEN_DOCUMENT = "urn:oasis:names:tc:opendocument:xmlns"


def write_xlsx(path: Path, sheets: dict[str, Sequence[Sequence[Any]]]) -> None:
    """Write sheets of cells: texts, numbers, truths, None; a text that begins with #! is a formula's error."""
    names = list(enumerate(sheets, start=1))
    listed = "".join(f'<sheet name="{escape(name)}" sheetId="{n}" r:id="r{n}"/>' for n, name in names)
    places = {n: f"worksheets/sheet{n}.xml" for n, _ in names}  # where older readers look for them
    links = "".join(f'<Relationship Id="r{n}" Type="{RELATED}/worksheet" Target="{places[n]}"/>' for n, _ in names)
    with zipfile.ZipFile(path, "w") as file:
        file.writestr("[Content_Types].xml", f'<Types xmlns="{PACKAGE}/content-types"/>')
        file.writestr(
            "xl/workbook.xml", f'<workbook xmlns="{MAIN}" xmlns:r="{RELATED}"><sheets>{listed}</sheets></workbook>'
        )
        file.writestr(
            "xl/_rels/workbook.xml.rels", f'<Relationships xmlns="{PACKAGE}/relationships">{links}</Relationships>'
        )
        root = f'<Relationship Id="r0" Type="{RELATED}/officeDocument" Target="xl/workbook.xml"/>'
        file.writestr("_rels/.rels", f'<Relationships xmlns="{PACKAGE}/relationships">{root}</Relationships>')
        for n, name in names:
            rows = "".join(_row(place, row) for place, row in enumerate(sheets[name], start=1) if row)
            file.writestr(f"xl/{places[n]}", f'<worksheet xmlns="{MAIN}"><sheetData>{rows}</sheetData></worksheet>')


def _row(place: int, row: Sequence[Any]) -> str:
    cells = [_cell(f"{chr(65 + n)}{place}", cell) for n, cell in enumerate(row) if cell is not None]
    return f'<row r="{place}">{"".join(cells)}</row>'


def _cell(name: str, cell: Any) -> str:
    if isinstance(cell, bool):
        return f'<c r="{name}" t="b"><v>{int(cell)}</v></c>'
    if isinstance(cell, str) and cell.startswith("#!"):
        return f'<c r="{name}" t="e"><v>{cell[1:].replace("!", "#", 1)}</v></c>'
    if isinstance(cell, str):
        return f'<c r="{name}" t="inlineStr"><is><t xml:space="preserve">{escape(cell)}</t></is></c>'
    return f'<c r="{name}"><v>{cell}</v></c>'


def write_ods(path: Path, rows: Sequence[Sequence[Any]]) -> None:
    """Write one sheet of texts and numbers."""
    body = "".join(f"<table:table-row>{''.join(map(_ods_cell, row))}</table:table-row>" for row in rows)
    spaces = "".join(f' xmlns:{name}="{OPEN_DOCUMENT}:{name}:1.0"' for name in ("office", "table", "text"))
    sheet = f'<office:spreadsheet><table:table table:name="one">{body}</table:table></office:spreadsheet>'
    with zipfile.ZipFile(path, "w") as file:
        file.writestr("mimetype", "application/vnd.oasis.opendocument.spreadsheet")
        file.writestr(
            "content.xml",
            f"<office:document-content{spaces}><office:body>{sheet}</office:body></office:document-content>",
        )
        file.writestr("META-INF/manifest.xml", "<manifest/>")


def _ods_cell(cell: Any) -> str:
    if isinstance(cell, str):
        return f'<table:table-cell office:value-type="string"><text:p>{escape(cell)}</text:p></table:table-cell>'
    return (
        f'<table:table-cell office:value-type="float" office:value="{cell}"><text:p>{cell}</text:p></table:table-cell>'
    )
