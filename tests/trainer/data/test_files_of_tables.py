"""One reader for a table's file: training, validation and serving have the same rows, or it is refused in words."""

from __future__ import annotations

import bz2
import csv
import gzip
import io
import json
import lzma
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyarrow import feather, parquet

from trainwright.trainer.base.errors import ConfigurationError, DataError
from trainwright.trainer.base.paths import matching
from trainwright.trainer.data.sections import SplitSection
from trainwright.trainer.data.sources import load_source, scan_source
from trainwright.trainer.data.sources.csv_file import CsvTexts
from trainwright.trainer.data.table import transform

pytestmark = pytest.mark.requirement("TRAIN-1", "PIPE-2")
HEADER = ["size", "plan", "left"]
ROWS = [[str(n + 0.5), f"p{n % 3}", "ab"[n % 2]] for n in range(40)]


def text(rows: list[list[str]] | None = None, header: list[str] | None = None, **dialect: Any) -> str:
    file = io.StringIO(newline="")
    writer = csv.writer(file, **{"lineterminator": "\n", **dialect})
    writer.writerows([HEADER if header is None else header, *(ROWS if rows is None else rows)])
    return file.getvalue()


def zipped(**members: bytes) -> bytes:
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as archive:
        for name, content in members.items():
            archive.writestr(name, content)
    return file.getvalue()


def zstd(content: bytes) -> bytes:
    file = pa.BufferOutputStream()
    with pa.CompressedOutputStream(file, "zstd") as stream:
        stream.write(content)
    return bytes(file.getvalue())


def columnar(write: Callable[..., None]) -> bytes:
    file = io.BytesIO()
    write(pa.table({name: [row[n] for row in ROWS] for n, name in enumerate(HEADER)}), file)
    return file.getvalue()


def seen_by_each(path: Path, **args: Any) -> list[list[list[str]]]:
    """Return the rows as training, validation and the shipped transform read them, every cell as text."""
    args = {"path": path.name, "target": "left", **args}
    loaded: Any = load_source("csv", args, path.parent, SplitSection())
    frame = scan_source("csv", args, path.parent)
    assert frame is not None
    rows = frame.collect()
    inputs, targets = loaded.samples.base[0], loaded.samples.base[1]
    plans = {code: name for name, code in loaded.schema.columns[-1].values.items()}
    trained = [[str(cells[0].item()), plans[int(cells[-1])], loaded.class_names[int(target)]]
               for cells, target in zip(inputs, targets, strict=True)]  # fmt: skip
    validated = [[str(cell) for cell in row] for row in rows.select(HEADER).iter_rows()]
    schema = loaded.schema.shipped({one.name: set(one.values.values()) for one in loaded.schema.columns})
    served = transform.encode_rows(transform.read_rows(path, schema), schema)
    assert np.array_equal(served, inputs.numpy())
    return [trained, validated]


PLAIN = text().encode()
READ: dict[str, tuple[bytes, dict[str, Any]]] = {
    "gzip": (gzip.compress(PLAIN), {}),
    "gzip of two members": (gzip.compress(PLAIN[:100]) + gzip.compress(PLAIN[100:]), {}),
    "bzip2": (bz2.compress(PLAIN), {}),
    "xz": (lzma.compress(PLAIN), {}),
    "zstd": (zstd(PLAIN), {}),
    "a zip of one file": (zipped(rows=PLAIN, **{"__MACOSX/rows": b"\0"}), {}),
    "UTF-8 with its mark": (text().encode("utf-8-sig"), {}),
    "UTF-16 with its mark": (text().encode("utf-16"), {}),
    "UTF-32 with its mark": (text().encode("utf-32"), {}),
    "UTF-16 in gzip": (gzip.compress(text().encode("utf-16")), {}),
    "UTF-16 without a mark": (text().encode("utf-16-le"), {"encoding": "utf-16-le"}),
    "lines that end in CR": (text(lineterminator="\r").encode(), {}),
    "lines that end in CRLF": (text(lineterminator="\r\n").encode(), {}),
    "Excel's sep line": (("sep=;\r\n" + text(delimiter=";", lineterminator="\r\n")).encode(), {}),
    "another sep": (('"sep=|"\n' + text(delimiter="|")).encode(), {}),
    "comments above": (("# exported by tool, 2024-05-01\n#\n\n" + text()).encode(), {}),
    "a header that begins with #": (
        text(header=["#id", *HEADER], rows=[["x", *row] for row in ROWS]).encode(),
        {"features": HEADER[:2]},
    ),
    "blank lines": (("\n\n" + text().replace("p1", "p1", 1).replace("\n3", "\n\n\n3") + "\n\n").encode(), {}),
    "no header": (text(header=[], rows=ROWS).lstrip("\n").encode(), {"names": HEADER}),
    "other names than the header's": (text(header=["a", "a", "b"]).encode(), {"names": HEADER, "header": 1}),
    "lines above the header": (("Report of 2024\nby us\n" + text()).encode(), {"header": 3}),
    "every cell quoted": (text(quoting=csv.QUOTE_ALL).encode(), {}),
    "no line end at the end": (PLAIN.rstrip(b"\n"), {}),
}


@pytest.mark.parametrize("name", READ)
def test_a_file_is_read_alike_by_training_validation_and_serving(name: str, tmp_path: Path) -> None:
    content, args = READ[name]
    for file in ("rows.csv", "rows"):
        (tmp_path / file).write_bytes(content)
        assert seen_by_each(tmp_path / file, **args) == [ROWS, ROWS]


ODD = [
    '5" steel',
    '"Big" House',
    'a "b" c',
    "it's",
    "a,b",
    "a\nb",
    "a\r\nb",
    "#1",
    " x ",
    "Größe",
    "x\x0by",
    "'",
    '""',
    "a;b",
]


@pytest.mark.parametrize("quoting", [csv.QUOTE_MINIMAL, csv.QUOTE_ALL, csv.QUOTE_NONE])
def test_quotes_and_line_ends_within_cells_are_the_same_text_to_each(quoting: Any, tmp_path: Path) -> None:
    fitting = [cell for cell in ODD if quoting != csv.QUOTE_NONE or not ({",", "\n"} & set(cell) or cell[0] == '"')]
    rows = [[f"{n + 0.5}", fitting[n % len(fitting)], "ab"[n % 2]] for n in range(60)]
    dialect = {"quoting": quoting, **({"quotechar": None} if quoting == csv.QUOTE_NONE else {})}
    (tmp_path / "t.csv").write_bytes(text(rows, **dialect).encode())
    bare = [[size, cell.strip(), left] for size, cell, left in rows]
    trained, validated = seen_by_each(tmp_path / "t.csv", columns={"plan": "category"})
    assert (trained, validated) == (bare, rows)


cells = st.text(st.sampled_from('ab1.5,;"\n\r# é|\t-'), max_size=6)


@settings(max_examples=25, deadline=None)
@given(
    rows=st.integers(2, 4).flatmap(lambda width: st.lists(st.lists(cells, min_size=width, max_size=width), min_size=1)),
    dialect=st.tuples(st.sampled_from(",;\t|"), st.sampled_from(["\n", "\r\n", "\r"])),
    encoding=st.sampled_from(["utf-8", "utf-8-sig", "utf-16"]),
    pack=st.sampled_from([bytes, gzip.compress, zstd]),
)
def test_whatever_is_written_is_read_in_full_or_refused(
    tmp_path_factory: Any, rows: list[list[str]], dialect: tuple[str, str], encoding: str, pack: Any
) -> None:
    """No row is lost or altered, by any reader; and the places in messages are those of the rows."""
    folder = tmp_path_factory.mktemp("drawn")
    header = [f"name{n}" for n in range(len(rows[0]))]
    whole = text(rows, header, delimiter=dialect[0], quoting=csv.QUOTE_ALL, lineterminator=dialect[1])
    (folder / "t.csv").write_bytes(pack(whole.encode(encoding)))
    table = CsvTexts(path="t.csv", text="name0")
    try:
        frame = table.scan(folder).collect()
    except DataError as error:
        if "opens a quote" not in error.message:  # whole rows within a cell
            raise
        return
    assert frame.columns == header
    assert frame.height == len(rows)
    how = table.reading(folder / "t.csv")
    served = [list(row.values()) for row in transform.read_rows(folder / "t.csv", {**how, "targets": ["name0"]})]
    read = [list(row.values()) for batch in table.read(folder / "t.csv", wanted(header)) for row in batch.to_pylist()]
    assert served == read == rows
    lines = [int(place.rpartition(" ")[2]) for place in table.places(folder / "t.csv")]
    assert len(lines) == len(rows)
    assert lines[-1] == len(whole.replace("\r\n", "\n").replace("\r", "\n").rstrip("\n").split("\n"))


def wanted(header: list[str]) -> Any:
    from trainwright.trainer.data.sources.cells import Wanted

    return Wanted(header)


def torn(row: int, cell: str) -> bytes:
    return text().replace(f"\n{row}.5,p{row % 3},", f"\n{row}.5,{cell},").encode()


HTML = b"<!DOCTYPE html><html><body>Sign in</body></html>"
REFUSED: dict[str, tuple[bytes, str, str]] = {
    "a spreadsheet": (zipped(**{"xl/workbook.xml": b""}), "is a spreadsheet", "use to excel"),
    "a zip of two": (zipped(a=PLAIN, b=PLAIN), r"zip archive of 2 files \(a, b\)", ""),
    "a cut gzip": (gzip.compress(PLAIN)[:-30], "cannot be read: Compressed file ended", ""),
    "Parquet": (columnar(parquet.write_table), "is a Parquet file", "data.use to parquet"),
    "Feather": (columnar(feather.write_feather), "is an Arrow file", "data.use to arrow"),
    "NumPy": (zipped(**{"x.npy": b""}), "is a NumPy archive", "data.use to npz"),
    "a PDF": (b"%PDF-1.7\n%\xe2\xe3\xcf\xd3\n", "is a PDF document", "Save its table as CSV"),
    "a web page": (HTML, "is an HTML page", "export the table"),
    "a web page in gzip": (gzip.compress(HTML), "is an HTML page", "export the table"),
    "JSON lines": (b'{"size": 1, "left": "a"}\n', "is JSON lines", "data.use to jsonl"),
    "a pickle": (b"\x80\x04\x95\x10\x00", "is a pickle", "CSV or Parquet"),
    "Git LFS": (b"version https://git-lfs.github.com/spec/v1\noid sha256:0\n", "pointer of Git LFS", "git lfs pull"),
    "no header": (text(header=[], rows=ROWS).lstrip().encode(), r"line 1 \(0.5, p0, a\) looks .* no header", "names"),
    "no header of words": (b"x,yes\ny,no\nz,yes\nx,no\n", "the file seems to have no header", "data.args.header to 1"),
    "no header of numbers": (b"1.5,0.2,3\n2.5,0.1,4\n", "the file seems to have no header", "data.args.names"),
    "lines above": (("Report of 2024\n\n" + text()).encode(), "the header seems to be in line 3", "header to 3"),
    "names of rows": (text(header=HEADER[1:]).encode(), "names of rows, as R writes them", "Name the first column"),
    "two of one name": (text(header=["size", "size", "left"]).encode(), "two columns named 'size'", "Rename"),
    "a comment below": (PLAIN + b"# 40 rows\n", "line 42 has 1 cells", "comments are skipped above the header"),
    "an open quote": (torn(3, '"p'), "line 5 opens a quote that is never closed", "Close the quote"),
    "an open quote below a quoted word": (
        torn(3, '"p').replace(b",p0,a\n", b',"Big" House,a\n', 1), "line 5 opens a quote that is never", "Close",
    ),
    "a torn quote": (
        torn(3, '"p').replace(b"\n9.5,p0,", b'\n9.5,"p0",'), "line 5 opens .* closed in line 11", "Close the quote",
    ),
    "a torn quote with rows in it": (
        torn(3, '"p').replace(b"\n9.5,p0,", b'\n9.5,p0",'), "line 5 opens .* closed in line 11", "Close the quote",
    ),
    "mixed encodings": (
        "size,plan,left\n1,Größe,a\n".encode() + "2,Maß,b\n".encode("cp1252"), "mixes encodings: line 3 .* 2", "UTF-8",
    ),
    "nothing": (b"", "0 line", "Point data.args.path"),
    "nothing in gzip": (gzip.compress(b""), "0 line", "Point data.args.path"),
}  # fmt: skip


@pytest.mark.parametrize("name", REFUSED)
def test_a_file_that_is_none_is_named_for_what_it_is_and_no_cell_is_proposed_as_a_name(
    name: str, tmp_path: Path
) -> None:
    content, told, remedy = REFUSED[name]
    (tmp_path / "t.csv").write_bytes(content)
    for act in (load_source, scan_source):
        with pytest.raises(DataError, match=told) as caught:
            act("csv", {"path": "t.csv", "target": "left"}, tmp_path, *([SplitSection()] if act is load_source else []))
        assert remedy in caught.value.remedy
        assert "Name one of its columns" not in caught.value.remedy


def test_a_file_of_texts_or_arrays_is_named_for_what_it_is_too(tmp_path: Path) -> None:
    (tmp_path / "t.txt").write_bytes(gzip.compress(PLAIN) + b"\0")
    (tmp_path / "p.txt").write_bytes(columnar(parquet.write_table))
    for use, told in (("text", "is a Parquet file"), ("npz", "is a Parquet file"), ("seq2seq", "is a Parquet file")):
        with pytest.raises(DataError, match=told):
            load_source(use, {"path": "p.txt"}, tmp_path, SplitSection())
    with pytest.raises(DataError, match="unknown encoding: nope"):
        load_source("csv", {"path": "t.txt", "target": "left", "encoding": "nope"}, tmp_path, SplitSection())


@pytest.mark.parametrize("name", ["Parquet", "Feather", "JSON lines", "lines above", "no header"])
def test_the_changes_that_a_refusal_gives_go_on(name: str, tmp_path: Path) -> None:
    content = REFUSED[name][0] if name != "JSON lines" else b'{"size": 1, "left": "a"}\n{"size": 2, "left": "b"}\n' * 20
    (tmp_path / "t.csv").write_bytes(content)
    data: dict[str, Any] = {"use": "csv", "args": {"path": "t.csv", "target": "left"}}
    with pytest.raises(DataError) as caught:
        load_source(data["use"], data["args"], tmp_path, SplitSection())
    changes = caught.value.details["changes"]
    use, args = changes.get("data.use", "csv"), changes.get("data.args", dict(data["args"]))
    args |= {key.removeprefix("data.args."): value for key, value in changes.items() if key.startswith("data.args.")}
    if "names" in args:
        args["target"] = args["names"][-1]
    assert len(load_source(use, args, tmp_path, SplitSection()).samples) == 40  # type: ignore[union-attr]


def test_columns_that_turn_out_otherwise_are_read_in_full(tmp_path: Path) -> None:
    """A column is of a kind only where each filled cell is: whole numbers, numbers, truths, dates; else it is text."""
    rows = [[str(n), str(n), str(n), "true", "2024-01-05", "03.01.2024 10:30", "", f"{n % 2}"] for n in range(30_000)]
    rows[29_000][1], rows[29_001][2], rows[29_002][3], rows[29_003][4] = "2.5", "word", "NA", "?"
    header = ["whole", "number", "text", "truth", "day", "time", "hole", "left"]
    (tmp_path / "t.csv").write_text(text(rows, header))
    frame = scan_source("csv", {"path": "t.csv", "target": "left"}, tmp_path)
    assert frame is not None
    found = frame.collect()
    assert [str(kind).partition("(")[0] for kind in found.dtypes] == [
        "Int64", "Float64", "String", "Boolean", "Date", "Datetime", "String", "Int64",
    ]  # fmt: skip
    assert found.height == 30_000
    assert found["text"][29_001] == "word"
    assert [found[name].null_count() for name in header] == [0, 0, 0, 1, 1, 0, 30_000, 0]


def test_rows_of_a_large_file_are_scanned_from_the_cache_as_they_are(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from trainwright.trainer.data.sources import typed_frame

    (tmp_path / "a.csv").write_text(text(ROWS[:20]))
    (tmp_path / "b.csv").write_bytes(gzip.compress(text([[size, "7", left] for size, _, left in ROWS[20:]]).encode()))
    args = {"path": ["a.csv", "b.csv"], "target": "left"}
    frames = []
    for most in (1 << 28, 10):
        monkeypatch.setattr(typed_frame, "MAX_IN_MEMORY_BYTES", most)
        frame = scan_source("csv", args, tmp_path)
        assert frame is not None
        frames.append(frame.collect())
    assert frames[0].equals(frames[1])
    assert frames[0]["plan"].to_list() == [*(row[1] for row in ROWS[:20]), *["7"] * 20]


def test_a_cell_that_is_larger_than_a_block_is_read(tmp_path: Path) -> None:
    rows = [[size, "word " * 300_000 if n == 7 else plan, left] for n, (size, plan, left) in enumerate(ROWS)]
    (tmp_path / "t.csv").write_text(text(rows))
    frame = scan_source("csv", {"path": "t.csv", "target": "left"}, tmp_path)
    assert frame is not None
    assert frame.collect()["plan"].to_list() == [row[1] for row in rows]


@pytest.mark.parametrize(
    "name", ["50%20 a.csv", "what?.csv", "a#b.csv", "[x].csv", "*.csv", "行 é.csv", "a&b;c.csv", "b\\c.csv"]
)
def test_any_name_of_a_file_is_its_name_and_a_pattern_only_where_no_such_file_is(name: str, tmp_path: Path) -> None:
    (tmp_path / name).write_bytes(PLAIN)
    (tmp_path / "a.csv").write_bytes(PLAIN)
    assert seen_by_each(tmp_path / name) == [ROWS, ROWS]
    parquet.write_table(pa.table({"size": [1.0, 2.0] * 9, "left": ["a", "b"] * 9}), tmp_path / f"{name}.parquet")
    args = {"path": f"{name}.parquet", "target": "left"}
    frame = scan_source("parquet", args, tmp_path)
    assert frame is not None
    loaded: Any = load_source("parquet", args, tmp_path, SplitSection())
    assert frame.collect().height == len(loaded.samples) == 18


def test_hidden_files_and_those_of_a_workspace_match_no_pattern_without_a_dot(tmp_path: Path) -> None:
    for name in ("a.csv", "b/c.csv", ".a.csv.orig.csv", ".trainwright/projects/t/final_model/rows.csv"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_bytes(PLAIN)
    assert matching("*.csv", tmp_path, key="data.args.path") == ["a.csv"]
    assert matching("**/*.csv", tmp_path, key="data.args.path") == ["a.csv", "b/c.csv"]
    assert matching(".a*.csv", tmp_path, key="data.args.path") == [".a.csv.orig.csv"]


def test_files_of_other_endings_that_a_pattern_matches_are_counted_and_named(tmp_path: Path) -> None:
    for name in ("a.csv", "b.csv.gz", "notes.txt", "x.pdf", ".DS_Store"):
        (tmp_path / name).write_bytes(gzip.compress(PLAIN) if name.endswith("gz") else PLAIN)
    args = {"path": "*", "target": "left"}
    with pytest.raises(ConfigurationError, match=r"matches 2 csv and 2 other files: notes.txt, x.pdf") as caught:
        load_source("csv", args, tmp_path, SplitSection())
    assert caught.value.details["changes"] == {"data.args.path": "*.csv"}
    listed = load_source("csv", args | {"path": ["a.csv", "b.csv.gz", "notes.txt"]}, tmp_path, SplitSection())
    assert len(listed.samples) == 120  # type: ignore[union-attr]


def test_compressed_lines_of_json_and_forms_are_read(tmp_path: Path) -> None:
    lines = "".join(
        json.dumps({"text": f"say {n}", "target": f"said {n}", "left": "ab"[n % 2]}) + "\n" for n in range(40)
    )
    (tmp_path / "t.jsonl.gz").write_bytes(gzip.compress(lines.encode()))
    (tmp_path / "t.csv.gz").write_bytes(gzip.compress(("text;target\n" + "say;said\n" * 40).encode("utf-8-sig")))
    args = {"path": "t.jsonl.gz", "text": "text", "target": "left"}
    frame = scan_source("jsonl", args, tmp_path)
    assert frame is not None
    assert frame.collect()["text"].to_list() == [f"say {n}" for n in range(40)]
    for path in ("t.jsonl.gz", "t.csv.gz"):
        found = scan_source("seq2seq", {"path": path}, tmp_path)
        assert found is not None
        assert found.collect().height == 40


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("rows.csv.gz", bytes.fromhex("1f8b08000776096bf9fcfb6bfc26da")),
        ("rows.csv.gz", bytes.fromhex("1f8b08000776096bf9fcfb6bfc260000003000007a3700da")),
        ("rows.csv", zipped(**{"ö.csv": text().encode()}).replace("ö".encode(), b"\xd0.")),
        ("rows.csv", zipped(rows=text().encode(), more=b"").replace(b"rows", b"\0ows")),
    ],
    ids=["gzip cut short", "gzip of another block", "zip whose names are no text", "zip with a nameless member"],
)
def test_a_damaged_archive_is_refused_by_training_and_its_cause_is_told_by_no_traceback(
    name: str, content: bytes, tmp_path: Path
) -> None:
    """Four that an hour of `make fuzz` found, in 1.2 million files."""
    (tmp_path / name).write_bytes(content)
    with pytest.raises(DataError, match=r"rows.csv(.gz)? (cannot be read|is )"):
        load_source("csv", {"path": name, "target": "left"}, tmp_path, SplitSection())
