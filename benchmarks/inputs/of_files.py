"""Files: read as they are meant, or named for what they are; no row is lost without a word."""

from __future__ import annotations

import bz2
import csv
import gzip
import io
import lzma
import tarfile
import zipfile
from collections.abc import Callable
from pathlib import Path

from case import EITHER, REFUSED, ROWS, Case, Column, chosen, numbers
from tables import table
from writing import arrow, delimited, lines, raw, several, table_of, text_of, workbook

Y = {"y": numbers()}
FLOATS = {"y": numbers(float)}
NOTES = {
    "y": numbers(),
    "note": Column(
        [f'it is {row}" long' if row % 5 == 0 else f"note of {row}" for row in range(ROWS)], [None] * ROWS, ()
    ),
}
PLAIN = text_of(table_of(Y))


def zipped(content: bytes, *names: str) -> bytes:
    """Return a zip archive with the content under each name."""
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as archive:
        for name in names:
            archive.writestr(name, content)
    return out.getvalue()


def tarred(content: bytes) -> bytes:
    """Return a tar archive with the content in it."""
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w:gz") as archive:
        info = tarfile.TarInfo("rows.csv")
        info.size = len(content)
        archive.addfile(info, io.BytesIO(content))
    return out.getvalue()


def packed(name: str, source: str, ending: str, pack: Callable[[bytes], bytes], words: str) -> Case:
    """Return an input whose file is compressed: it is read, or named for what it is."""
    path = f"rows.csv.{ending}" if ending else "rows.csv"
    return table(f"file-{name}", source, path=path, write=raw(path, pack(PLAIN.encode())), may=EITHER, words=(words,))


def text(name: str, source: str, change: Callable[[str], str] = str, **options: object) -> Case:
    """Return an input whose text is changed after it was written."""
    columns = options.pop("columns", Y)
    return table(f"file-{name}", source, columns, dialect={"change": change, **options.pop("dialect", {})}, **options)


def line(number: int, change: Callable[[str], str]) -> Callable[[str], str]:
    """Return what changes one line; the header is line 1."""

    def changed(whole: str) -> str:
        found = whole.split("\n")
        found[number - 1] = change(found[number - 1])
        return "\n".join(found)

    return changed


def zstd(content: bytes) -> bytes:
    """Return content compressed by Zstandard."""
    import pyarrow as pa

    return pa.compress(content, codec="zstd", asbytes=True)


BODY = PLAIN.split("\n", 1)[1]
HALF = PLAIN.split("\n")
TURNED = "".join(f"{f'9{n}' if n else 'y'},{','.join(row.split(',')[1::-1])}\n" for n, row in enumerate(HALF[:-1]))
HTML = "<!DOCTYPE html>\n<html><body><h1>404 Not Found</h1></body></html>\n"
POINTER = f"version https://git-lfs.github.com/spec/v1\noid sha256:{'4d7a2146' * 8}\nsize 12345\n"
CASES = [
    text("plain", "kind: nothing is odd"),
    packed("gzip", "cytomining/pycytominer#95", "gz", gzip.compress, r"compress|archive|unpack"),
    packed("gzip-named-csv", "stanford-crfm/helm#660", "", gzip.compress, r"compress|archive|unpack"),
    packed("zstandard", "kind: Zstandard", "zst", zstd, r"compress|archive|unpack"),
    packed("zip", "kind: a zip of one file", "zip", lambda content: zipped(content, "rows.csv"),
          r"compress|archive|unpack"),
    packed("zip-of-two", "kind: a zip of two files", "zip", lambda content: zipped(content, "a.csv", "b.csv"),
          r"compress|archive|unpack"),
    packed("bzip2", "kind: bzip2", "bz2", bz2.compress, r"compress|archive|unpack"),
    packed("xz", "kind: xz", "xz", lzma.compress, r"compress|archive|unpack"),
    packed("tar", "kind: a tar of one file", "tar.gz", tarred, r"compress|archive|unpack"),
    text("mark-utf8", "biolab/orange3#7000", dialect={"encoding": "utf-8-sig"}),
    text("mark-utf8-quoted", "pandas-dev/pandas#4793", dialect={"encoding": "utf-8-sig", "quoting": csv.QUOTE_ALL}),
    text("utf16", "harelba/q#98", dialect={"encoding": "utf-16"}),
    text("utf16-big-endian", "harelba/q#98", lambda t: "\ufeff" + t, dialect={"encoding": "utf-16-be"}),
    text("utf16-unmarked", "genspark-ai/genoffice#438", dialect={"encoding": "utf-16-le"}, may=EITHER, may_encode=True,
          words=("utf-16",)),
    text("utf32", "kind: UTF-32", dialect={"encoding": "utf-32"}, may=EITHER, may_encode=True, words=("utf-32",)),
    text("latin1", "kind: ü in Latin 1", columns={**Y, "ort": chosen(["Köln", "Mülheim"])},
          dialect={"encoding": "latin-1"}, may=EITHER, may_encode=True, words=("latin-1|cp1252", "line 2")),
    text("latin1-said", "kind: ü in Latin 1", columns={**Y, "ort": chosen(["Köln", "Mülheim"])},
          dialect={"encoding": "latin-1"}, args={"encoding": "latin-1"}),
    text("cp1252-said", "kind: € in Windows' code page", columns={**Y, "art": chosen(["low €", "high €"])},
          dialect={"encoding": "cp1252"}, args={"encoding": "cp1252"}),
    table("file-two-encodings", "kind: two encodings in one file", {**Y, "ort": chosen(["Köln", "Mülheim"])},
          may=REFUSED, may_encode=True, words=("utf-8", r"line \d+"),
          write=raw("rows.csv", b"\n".join(row.encode("latin-1" if n > 60 else "utf-8")
          for n, row in enumerate(text_of(table_of({**Y, "ort": chosen(["Köln", "Mülheim"])})).split("\n"))))),
    text("carriage-returns", "fivethirtyeight/data#287", dialect={"end": "\r"}, may=EITHER,
          words=(r"\bCR\b|carriage|line end",)),
    text("windows", "kind: CRLF", dialect={"end": "\r\n"}),
    text("line-ends-mixed", "kind: CRLF and LF", lambda t: t.replace("\n", "\r\n", 40)),
    text("no-end", "kind: no end of the last line", lambda t: t.rstrip("\n")),
    text("empty-lines", "kind: blank lines between", lambda t: t.replace("\n", "\n\n")),
    text("end-of-file-mark", "kind: DOS's end of file", lambda t: t + "\x1a", may=EITHER, words=("x1a|1A|line 122",)),
    text("separator-line", "stanford-crfm/helm#660", lambda t: "sep=;\n" + t, dialect={"sep": ";"}, may=EITHER,
          words=("sep=",)),
    text("comments-above", "kind: comment lines above", lambda t: "# exported by a tool\n# on 2024-05-01\n" + t,
          may=EITHER, words=("#|comment|header", "line")),
    text("title-above", "kind: a title and a blank line above", lambda t: "Report of May\n\n" + t, may=EITHER,
          words=("header|line [13]|Report of May",)),
    text("comment-between", "kind: a comment within", line(60, lambda row: "# checked up to here\n" + row), may=EITHER,
          words=("line 60|line 61|#",)),
    text("blank-lines-above", "kind: blank lines above", lambda t: "\n\n" + t),
    text("no-header", "pytorch/tutorials#1708", lambda t: t.split("\n", 1)[1], may=REFUSED, words=("header",
          r"\b0\.\d+|1,")),
    text("no-header-first-row-named", "apache/superset#9874", lambda t: t.split("\n", 1)[1],
          args={"target": BODY.split("\n")[0].split(",")[2]}, may=REFUSED, words=("header",)),
    text("header-twice", "kind: two exports in one file", line(60, lambda row: HALF[0] + "\n" + row), may=REFUSED,
          words=("line 60|header",)),
    text("names-equal", "kind: two columns of one name", lambda t: t.replace("dose_given", "size", 1), may=REFUSED,
          words=("two columns|twice", "size")),
    text("names-padded", "kind: blanks around names", lambda t: t.replace("size,dose_given,y",
          " size , dose_given , y ", 1)),
    text("index-unnamed", "kind: the index that pandas writes",
          lambda t: "\n".join(f"{n - 1 if n else ''},{row}" for n, row in enumerate(t.rstrip("\n").split("\n"))) +
          "\n"),
    text("comma-behind-each-line", "kind: a comma behind every line", lambda t: t.replace("\n", ",\n")),
    text("comma-behind-rows", "kind: a comma behind rows, none behind the header", lambda t: t.replace("\n",
          ",\n").replace(",\n", "\n", 1), may=EITHER, words=("line 2|cells|columns",)),
    text("cell-more", "kind: a comma within a cell", line(60, lambda row: row + ",7"), may=REFUSED, words=("line 60",
          "cells|columns")),
    text("cell-less", "kind: a torn row", line(60, lambda row: row.rpartition(",")[0]), may=REFUSED, words=("line 60",
          "cells|columns")),
    text("cut-short", "kind: the download ended early", lambda t: t[: len(t) // 2 - 3], rows=None, may=EITHER,
          words=("line",), target=None),
    text("quote-open", "apple/turicreate#1692", line(60, lambda row: row.replace(",", ',"', 1)), may=REFUSED,
          words=("quote", r"line \d+")),
    text("quotes-within", "pola-rs/polars#19078", columns=NOTES, dialect={"quoting": csv.QUOTE_MINIMAL,
          "change": lambda t: t.replace('""', '"').replace('"it is', "it is").replace('long"', "long")}, may=EITHER,
          words=("quote|\"", r"line \d+")),
    text("quotes-doubled", "kind: quotes within, doubled", columns=NOTES),
    text("quotes-escaped", "kind: backslashes before quotes", columns=NOTES, change=lambda t: t.replace('""', '\\"'),
          may=EITHER, words=("quote|\\\\", r"line \d+")),
    text("quotes-single", "kind: single quotes around cells", columns={**Y, "town": chosen(["'Bonn, am Rhein'",
          "'Ulm'"], kinds=())}, may=EITHER, words=("line",)),
    text("line-breaks-within", "kind: line breaks in quoted cells", columns={**Y,
          "note": Column([f"first\nsecond {row}" for row in range(ROWS)], [None] * ROWS, ())}),
    text("everything-quoted", "kind: every cell quoted", dialect={"quoting": csv.QUOTE_ALL}),
    text("semicolons", "kind: ; between", dialect={"sep": ";"}),
    text("pipes", "kind: | between", dialect={"sep": "|"}),
    text("tabs", "kind: tabs between, named csv", dialect={"sep": "\t"}),
    text("tabs-named-tsv", "kind: tsv", path="rows.tsv", dialect={"sep": "\t", "name": "rows.tsv"}),
    text("blanks-between", "kind: blanks between", dialect={"sep": " "}, may=EITHER, words=("delimiter|header|column",
          )),
    text("carets", "kind: ^ between, said", dialect={"sep": "^"}, args={"delimiter": "^"}),
    text("named-txt", "kind: .txt", path="rows.txt", dialect={"name": "rows.txt"}),
    text("named-nothing", "kind: no ending", path="rows", dialect={"name": "rows"}),
    text("named-capitals", "kind: .CSV", path="ROWS.CSV", dialect={"name": "ROWS.CSV"}),
    text("zero-bytes", "turicas/rows#273", line(60, lambda row: row[:3] + "\0" + row[3:]), may=REFUSED,
          words=("line 60|zero|NUL|\\\\x00",)),
    text("sum-below", "kind: a line of sums below", lambda t: t + "Total,,4711\n", may=REFUSED, words=("Total",
          "line 122")),
    text("repeated-rows", "kind: copies of rows", lambda t: t + "\n".join(HALF[1:30]) + "\n", columns=Y, rows=None),
    table("file-empty", "kind: no byte", write=raw("rows.csv", ""), may=REFUSED,
          words=("empty|no rows|no header|0 line",)),
    table("file-header-alone", "kind: a header alone", write=raw("rows.csv", "size,dose_given,y\n"), may=REFUSED,
          words=("no rows|at least one row",)),
    table("file-one-row", "kind: one row", write=raw("rows.csv", "size,dose_given,y\n1,2,3\n"), may=REFUSED,
          words=("few|constant|one row|one value|samples",)),
    table("file-blank", "kind: blanks and line ends alone", write=raw("rows.csv", "\n \n\n"), may=REFUSED,
          words=("empty|no rows|header",)),
    table("file-page", "kind: a web page where the table was to be", write=raw("rows.csv", HTML), may=REFUSED,
          words=("html (page|document)|is (an)?html|web page",)),
    table("file-pointer", "kind: a pointer of Git LFS", write=raw("rows.csv", POINTER), may=REFUSED,
          words=("Git LFS|LFS pointer|lfs pull",)),
    table("file-folder", "kind: a folder where a file is due", write=raw("rows.csv/one.csv", PLAIN), may=EITHER,
          words=("folder|directory",)),
    table("file-absent", "kind: another name", write=raw("row.csv", PLAIN), may=REFUSED, words=(r"rows\.csv",
          r"row\.csv")),
    table("file-workbook", "kind: Excel", FLOATS, path="rows.xlsx", write=workbook(FLOATS), may=EITHER,
          words=("Excel|workbook|spreadsheet",)),
    table("file-workbook-named-csv", "kind: Excel, named csv", FLOATS, write=workbook(FLOATS, "rows.csv"), may=EITHER,
          words=("Excel|workbook|spreadsheet|zip archive",)),
    table("file-old-workbook", "kind: .xls", path="rows.xls", write=raw("rows.xls",
          b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1" + bytes(600)), may=REFUSED, words=("Excel|workbook|spreadsheet",)),
    table("file-open-document", "kind: .ods", path="rows.ods", write=raw("rows.ods",
          zipped(b"application/vnd.oasis.opendocument.spreadsheet", "mimetype", "content.xml")), may=REFUSED,
          words=("OpenDocument|LibreOffice|spreadsheet",)),
    table("file-parquet", "kind: parquet", FLOATS, use="parquet", path="rows.parquet", write=arrow(FLOATS,
          "rows.parquet")),
    table("file-parquet-as-csv", "kind: parquet under data.use csv", FLOATS, path="rows.parquet", write=arrow(FLOATS,
          "rows.parquet"), may=EITHER, words=("parquet",)),
    table("file-parquet-named-csv", "kind: parquet, named csv", FLOATS, write=lambda folder: (arrow(FLOATS,
          "r.parquet")(folder), (folder / "r.parquet").rename(folder / "rows.csv")), may=EITHER,
          words=("parquet",)),
    table("file-csv-named-parquet", "kind: csv, named parquet", use="parquet", path="rows.parquet",
          write=raw("rows.parquet", PLAIN), may=EITHER, words=("parquet", "csv|text|magic")),
    table("file-parquet-cut-short", "kind: parquet cut short", FLOATS, use="parquet", path="rows.parquet", may=REFUSED,
          words=(r"rows\.parquet", "whole|cut|short|magic|footer"), write=lambda folder: (arrow(FLOATS,
          "rows.parquet")(folder),
          (folder / "rows.parquet").write_bytes((folder / "rows.parquet").read_bytes()[:-40]))),
    table("file-feather", "kind: feather", FLOATS, use="arrow", path="rows.feather", write=arrow(FLOATS,
          "rows.feather")),
    table("file-feather-as-csv", "kind: feather under data.use csv", FLOATS, path="rows.feather", write=arrow(FLOATS,
          "rows.feather"), may=EITHER, words=("arrow|feather",)),
    table("file-orc", "kind: ORC", FLOATS, use="orc", path="rows.orc", write=arrow(FLOATS, "rows.orc")),
    table("file-lines-of-json", "kind: JSON lines", FLOATS, use="jsonl", path="rows.jsonl", write=lines(FLOATS)),
    table("file-lines-as-csv", "kind: JSON lines under data.use csv", FLOATS, path="rows.jsonl", write=lines(FLOATS),
          may=EITHER, words=("jsonl",)),
    table("file-list-of-json", "kind: one list of objects", FLOATS, use="jsonl", path="rows.json", write=lines(FLOATS,
          "rows.json"), may=EITHER, words=("list|array|line",)),
    table("file-lines-torn", "kind: a torn line of JSON", use="jsonl", path="rows.jsonl", may=REFUSED,
          words=("line 60",), write=lambda folder: (lines(FLOATS)(folder), (folder / "rows.jsonl").write_text(line(60,
          lambda row: row[:-9])((folder / "rows.jsonl").read_text())))),
    table("files-by-pattern", "kind: several files", {"y": Column([*Y["y"].cells] * 2, [])}, path="rows/*.csv",
          rows=2 * ROWS, write=several(delimited(Y, "rows/a.csv"), delimited(Y, "rows/b.csv",
          change=lambda t: t.replace(",0.", ",1.")))),
    table("files-other-order", "kind: columns in another order in the second file", path=["a.csv", "b.csv"],
          rows=2 * ROWS, may=EITHER, words=("order", r"b\.csv"),
          write=several(delimited(Y, "a.csv"), raw("b.csv", TURNED))),
    table("files-other-names", "kind: other columns in the second file", path=["a.csv", "b.csv"],
          write=several(delimited(Y, "a.csv"), raw("b.csv", PLAIN.replace("dose_given", "dose", 1))), may=REFUSED,
          words=(r"b\.csv", "dose_given")),
    table("files-one-empty", "kind: an empty file among several", path="rows/*.csv", write=several(delimited(Y,
          "rows/a.csv"), raw("rows/b.csv", "")), may=EITHER, words=(r"b\.csv",), named=(r"b\.csv",)),
    table("files-other-delimiter", "kind: another delimiter in the second file", {"y": Column([*Y["y"].cells] * 2,
          [])}, path=["a.csv", "b.csv"], rows=2 * ROWS, write=several(delimited(Y, "a.csv"), delimited(Y, "b.csv",
          sep=";", change=lambda t: t.replace(";0.", ";1.")))),
    table("files-header-once", "kind: a header in the first file alone", path=["a.csv", "b.csv"],
          write=several(delimited(Y, "a.csv"), raw("b.csv", BODY)), may=REFUSED, words=(r"b\.csv", "header|column")),
]  # fmt: skip


def at(name: str, source: str, path: str, folder: str = "code") -> Case:
    """Return an input under an odd path."""
    return table(f"path-{name}", source, path=path, folder=folder, dialect={"name": path})


def _make(folder: Path) -> None:
    (folder / "elsewhere").mkdir()
    delimited(Y, "elsewhere/rows.csv")(folder)
    (folder / "rows.csv").symlink_to("elsewhere/rows.csv")


CASES += [
    at("percent", "NevaMind-AI/memU#503", "rows.csv", "my%20project"),
    at("question-mark", "mar-file-system/GUFI#126", "rows.csv", "what?"),
    at("hash", "abrignoni/ALEAPP#711", "rows.csv", "a#b & c"),
    at("blanks", "kind: blanks in the file's name", "my rows (1).csv"),
    at("brackets", "kind: brackets in the file's name", "rows[1].csv"),
    at("scripts", "kind: other scripts", "данные/行.csv"),
    at("long", "kind: 200 characters", "r" * 196 + ".csv", "d" * 120),
    table("path-linked", "huggingface/datasets#5098", write=_make),
]  # fmt: skip
