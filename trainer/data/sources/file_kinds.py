"""Kinds of files by their first bytes, whatever their endings say, each with the source that reads it."""

from __future__ import annotations

import json
import re
import zipfile
from pathlib import Path
from typing import NamedTuple

from trainwright.trainer.data.table import transform

HEAD_BYTES = 4096


class FileKind(NamedTuple):
    """Kind of a file."""

    said: str
    """As a message names it: `a PDF document`."""
    use: str | None = None
    """The source that reads it, if one does."""
    remedy: str = "Save its table as CSV or Parquet"


MAGIC = {
    b"PAR1": FileKind("a Parquet file", "parquet"),
    b"ARROW1": FileKind("an Arrow file", "arrow"),
    b"ORC": FileKind("an ORC file", "orc"),
    b"\x93NUMPY": FileKind("a NumPy array (.npy)", None, "Save inputs and targets by numpy.savez, for source npz"),
    b"FEA1": FileKind("a Feather file of version 1", None, "Write it again with a newer pyarrow, or as Parquet"),
    b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1": FileKind("a file of an old Microsoft Office (.xls, .doc)", "excel"),
    b"%PDF-": FileKind("a PDF document"),
    b"SQLite format 3\0": FileKind("an SQLite database", None, "Read it by source sql: url sqlite:///…, table"),
    b"\x89HDF\r\n\x1a\n": FileKind("an HDF5 file"),
    b"\x89PNG": FileKind("a PNG picture", None, "Pictures are read by source images"),
    b"\xff\xd8\xff": FileKind("a JPEG picture", None, "Pictures are read by source images"),
    b"GIF8": FileKind("a GIF picture", None, "Pictures are read by source images"),
    b"7z\xbc\xaf\x27\x1c": FileKind("a 7z archive", None, "Unpack it"),
    b"Rar!": FileKind("a RAR archive", None, "Unpack it"),
    b"$FL2": FileKind("an SPSS file"),
    b"<stata_dta>": FileKind("a Stata file"),
    b"version https://git-lfs": FileKind("a pointer of Git LFS, and not the file itself", None, "Run git lfs pull"),
}
MARKUP = re.compile(rb"\s*(?:\xef\xbb\xbf)?\s*<(!doctype html|html|\?xml|head|body|table)\b", re.IGNORECASE)
PICKLED = re.compile(rb"\x80[\x02-\x05](\x95|c|}|\]|q|\()", re.DOTALL)
"""Beginning of a pickle, which nothing here opens: it may run code."""
MEMBERS = {"xl/workbook.xml": "excel", "xl/workbook.bin": "excel", "word/document.xml": None, "mimetype": "excel"}
"""Members that tell an office document from other zip archives, and the source that reads it."""


def kind_of_file(path: Path) -> FileKind | None:
    """Return what a file is by its content, looking into a compressed one; None for text, folders and unknown files."""
    try:
        return _of_zip(path) or _of_head(path)
    except (OSError, ValueError, *transform.TORN):
        return None


def _of_head(path: Path) -> FileKind | None:
    with transform.unpacked(path) as file:
        head = file.read(HEAD_BYTES)
    if (known := next((kind for magic, kind in MAGIC.items() if head.startswith(magic)), None)) is not None:
        return known
    if head[257:262] == b"ustar":
        return FileKind("a tar archive", None, "Unpack it")
    if PICKLED.match(head):
        return FileKind("a pickle, which may run code and is not opened", None, "Save its table as CSV or Parquet")
    if markup := MARKUP.match(head):
        return FileKind("an XML file" if b"?xml" in markup[1] else "an HTML page", None, "Download or export the table")
    return _of_json(head)


def _of_zip(path: Path) -> FileKind | None:
    if not zipfile.is_zipfile(path):
        return None
    with path.open("rb") as file:
        if not file.read(4).startswith(b"PK"):  # a zip archive may stand at any file's end
            return None
    with zipfile.ZipFile(path) as archive:
        names = archive.namelist()
    for member, use in MEMBERS.items():
        if member in names:
            return FileKind("a spreadsheet (Excel or OpenDocument)" if use else "a Word document", use)
    if names and all(name.endswith(".npy") for name in names):
        return FileKind("a NumPy archive", "npz")
    return None


def _of_json(head: bytes) -> FileKind | None:
    """Return JSON's kind: lines of objects, or one list, by the first line or sign."""
    begun = head.removeprefix(b"\xef\xbb\xbf").lstrip()
    if re.match(rb"\[\s*\{", begun):
        return FileKind("a JSON list", "jsonl")
    if not begun.startswith(b"{"):
        return None
    try:
        is_object = isinstance(json.loads(begun.split(b"\n", 1)[0]), dict)
    except ValueError:
        is_object = begun.count(b"\n") == 0  # a line longer than the head
    return FileKind("JSON lines", "jsonl") if is_object else None
