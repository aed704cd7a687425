"""Bad input of every kind: one clear sentence with its rows, a way on, and nothing half-done."""

from __future__ import annotations

import io
import json
import re
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from pyarrow import parquet

from trainwright.trainer.base.errors import DataError
from trainwright.trainer.data.assemble import from_loaded
from trainwright.trainer.data.sections import SplitSection
from trainwright.trainer.data.sources import load_source

pytestmark = pytest.mark.requirement("TRAIN-1", "PIPE-2")
HEADER = ["age", "plan", "left"]


def text(cells: dict[int, str] | None = None, header: str = ",".join(HEADER), rows: int = 40) -> str:
    """Return a table whose row n is `n,pN,a or b`, but for the rows that are given."""
    lines = [(cells or {}).get(row, f"{row},p{row % 3},{'ab'[row % 2]}") for row in range(rows)]
    return "\n".join([header, *lines]) + "\n"


def archive(**arrays: Any) -> bytes:
    file = io.BytesIO()
    np.savez(file, **arrays)
    return file.getvalue()


def boasting(rows: int, *, by_columns: bool = False) -> bytes:
    """An archive whose header promises so many rows, of which ten are there."""
    file, inside = io.BytesIO(), io.BytesIO()
    about = {"descr": "<f4", "fortran_order": by_columns, "shape": (rows, 3)}
    np.lib.format.write_array_header_1_0(inside, about)
    with zipfile.ZipFile(file, "w") as made:
        made.writestr("x.npy", inside.getvalue() + bytes(120))
        made.writestr("y.npy", b"")
    return file.getvalue()


def empty_parquet() -> bytes:
    file = io.BytesIO()
    parquet.write_table(pa.table({name: pa.array([], pa.string()) for name in HEADER}), file)
    return file.getvalue()


INPUTS = np.random.default_rng(0).standard_normal((40, 3))
BAD: dict[str, tuple[str, str | bytes, str, str]] = {
    "another encoding": (
        "csv", text({3: "3,café,b"}).encode("cp1252"), "line 5 has the byte 0xe9, .*'3,café,b'", "encoding to .cp1252",
    ),
    "UTF-16 without its mark": ("csv", text().encode("utf-16-le"), "zero bytes in its header", "utf-16-le"),
    "UTF-16 the other way": ("csv", text().encode("utf-16-be"), "zero bytes in its header", "utf-16-be"),
    "a longer row": ("csv", text({3: "3,p0,b,9"}), "line 5 has 4 cells, the header has 3", "Repair the line"),
    "a shorter row": ("csv", text({3: "3,p0"}), "line 5 has 2 cells, the header has 3", "Repair the line"),
    "an open quote": ("csv", text({3: '3,p0,"b'}), "line 5 opens a quote that is never closed", "Close the quote"),
    "mixed types": ("csv", text({3: "old,p0,b"}), "line 5, column 'age': 'old' is no finite", r"\{.age.: .category.\}"),
    "two columns of one name": ("csv", text(header="age,age,left"), "two columns named 'age'", "Rename"),
    "no byte": ("csv", "", "0 line", "Point data.args.path"),
    "a header alone": ("csv", "age,plan,left\n", "1 line", "Point data.args.path"),
    "no row in Parquet": ("parquet", empty_parquet(), "t.parquet has no rows", "Point data.args.path"),
    "one class": ("csv", text({row: f"{row},p,a" for row in range(40)}), "one class only .'a'", "add rows of other"),
    "names without end": (
        "csv", text({row: f"{row},p,name{row}" for row in range(1200)}, rows=1200), "more than 1000", "join rare",
    ),
    "a constant target": ("csv", text({row: f"{row},p,2.5" for row in range(40)}), "is constant .2.5", "Name"),
    "the same row": ("csv", text({row: "1,p,a" if row else "1,p,b" for row in range(40)}), "2 distinct", "Give"),
    "a list of objects": ("csv", json.dumps([{"age": 1, "left": 2}]), "is a JSON list", "Set data.use to jsonl"),
    "a billion rows": ("npz", boasting(10**9), "promises 12,000,000,000 bytes .* and 120 are there", "Point data.args"),
    "more than memory": ("npz", boasting(10**14), "'x' promises .* and 120 are there", "Point data.args.path"),
    "by columns": ("npz", boasting(10**14, by_columns=True), "'x' promises .* and 120 are there", "Point data.args"),
    "labels outside the classes": (
        "npz", archive(x=INPUTS, y=np.where(np.arange(40) % 20 == 3, -1, np.arange(40) % 2)),
        r"2 targets are negative, first -1 in sample 3 \(samples 3, 23\)", "Number the classes from 0",
    ),
    "one class in arrays": ("npz", archive(x=INPUTS, y=np.zeros(40, int)), "one class only .0", "data.args.targets"),
    "one number in arrays": ("npz", archive(x=INPUTS, y=np.full(40, 2.5)), "one value throughout", "data.args.targets"),
    "holes in arrays": (
        "npz", archive(x=np.where(INPUTS[3, 1] == INPUTS, np.nan, INPUTS), y=np.arange(40) % 2),
        r"NaN or infinite values, first in samples \[3\]", "Fill or drop",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", BAD)
def test_bad_input_is_one_clear_sentence_with_its_rows_and_a_way_on(name: str, tmp_path: Path) -> None:
    kind, content, told, remedy = BAD[name]
    (tmp_path / f"t.{kind}").write_bytes(content if isinstance(content, bytes) else content.encode())
    args = {"path": f"t.{kind}"} | ({} if kind == "npz" else {"target": "left"})
    with pytest.raises(DataError, match=told) as caught:
        loaded = load_source(kind, args, tmp_path, SplitSection())
        from_loaded(loaded, SplitSection(), source=kind)
    assert re.search(remedy, str(caught.value.remedy))
    assert [path.name for path in tmp_path.iterdir()] == [f"t.{kind}"]


@pytest.mark.parametrize(
    "content", [text().encode("utf-8-sig"), text().encode("utf-16"), text({3: '3,"a ""q"" b",b'}).encode()]
)
def test_a_mark_and_closed_quotes_are_no_fault(content: bytes, tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_bytes(content)
    found = load_source("csv", {"path": "t.csv", "target": "left"}, tmp_path, SplitSection())
    assert (len(found.samples), found.feature_names) == (40, ["age", "plan"])


@pytest.mark.parametrize("encoding", ["utf-16-le", "utf-16-be"])
def test_the_encoding_that_a_refusal_names_reads_the_file(encoding: str, tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_bytes(text().encode(encoding))
    args = {"path": "t.csv", "target": "left"}
    with pytest.raises(DataError) as caught:
        load_source("csv", args, tmp_path, SplitSection())
    changes = {key.removeprefix("data.args."): value for key, value in caught.value.details["changes"].items()}
    assert len(load_source("csv", args | changes, tmp_path, SplitSection()).samples) == 40
