"""Spreadsheets: a sheet is a table, read in full, or refused with what to name."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest
from tests.trainer.data.spreadsheets import write_ods, write_xlsx

from trainwright.trainer.base.errors import ConfigurationError, DataError
from trainwright.trainer.data.sections import SplitSection
from trainwright.trainer.data.sources import load_source, scan_source

pytestmark = pytest.mark.requirement("TRAIN-1", "PIPE-2")
HEADER = ["size", "plan", "left"]
ROWS: list[list[Any]] = [[n + 0.5, f"p{n % 3}", "ab"[n % 2]] for n in range(40)]


def read(path: Path, **args: Any) -> list[list[Any]]:
    """Return the rows as validation sees them; training has as many."""
    args = {"path": path.name, "target": "left", **args}
    frame = scan_source("excel", args, path.parent)
    loaded: Any = load_source("excel", args, path.parent, SplitSection())
    assert frame is not None
    rows = frame.collect()
    assert loaded.samples.base[0][:, 0].tolist() == rows["size"].to_list()
    assert [loaded.class_names[label] for label in loaded.samples.base[1].tolist()] == rows["left"].to_list()
    return [list(row) for row in rows.select(HEADER).iter_rows()]


def test_a_sheet_is_a_table_wherever_it_begins(tmp_path: Path) -> None:
    write_xlsx(tmp_path / "a.xlsx", {"one": [HEADER, *ROWS], "empty": []})
    write_xlsx(tmp_path / "b.xlsx", {"notes": [["see the other"]], "two": [[], [], HEADER, *ROWS]})
    write_xlsx(tmp_path / "c.xlsx", {"one": [["Report"], HEADER, *ROWS]})
    write_xlsx(tmp_path / "d.xlsx", {"one": ROWS})
    write_ods(tmp_path / "e.ods", [HEADER, *ROWS])
    cases = {
        "a.xlsx": {},
        "b.xlsx": {"sheet": "two"},
        "c.xlsx": {"header": 2},
        "d.xlsx": {"names": HEADER},
        "e.ods": {},
    }
    for name, args in cases.items():
        assert read(tmp_path / name, **args) == ROWS, name


def test_cells_of_several_types_stay_as_they_are(tmp_path: Path) -> None:
    rows = [[n, "word" if n == 39 else n, n % 2 == 0, None if n == 5 else n, f"k{n % 2}"] for n in range(40)]
    write_xlsx(tmp_path / "t.xlsx", {"one": [["n", "mixed", "truth", "hole", "left"], *rows]})
    frame = scan_source("excel", {"path": "t.xlsx", "target": "left"}, tmp_path)
    assert frame is not None
    found = frame.collect()
    assert found["mixed"].to_list() == [*map(str, range(39)), "word"]
    assert found["truth"].to_list() == [row[2] for row in rows]
    assert found["hole"].to_list() == [row[3] for row in rows]


REFUSED: dict[str, tuple[dict[str, Any], dict[str, Any], str, dict[str, Any]]] = {
    "two sheets": ({"a": [HEADER, *ROWS], "b": ROWS}, {}, "2 sheets with rows: a, b", {"data.args.sheet": "a"}),
    "no such sheet": ({"rows": [HEADER]}, {"sheet": "row"}, "no sheet 'row': rows", {"data.args.sheet": "rows"}),
    "a formula's error": (
        {"a": [HEADER, *ROWS[:3], ["#!DIV/0!", "p", "a"], *ROWS]}, {}, "row 5, column 'size': .*a formula failed", {},
    ),
    "no header": ({"a": ROWS}, {}, "looks like a row", {"data.args.names": ["column_1", "column_2", "column_3"]}),
    "a header alone": ({"a": [HEADER]}, {}, "no rows", {}),
    "nothing": ({"a": []}, {}, "0 line", {}),
}  # fmt: skip


@pytest.mark.parametrize("name", REFUSED)
def test_a_sheet_that_is_no_table_is_refused_with_what_to_name(name: str, tmp_path: Path) -> None:
    sheets, args, told, changes = REFUSED[name]
    write_xlsx(tmp_path / "t.xlsx", sheets)
    with pytest.raises(DataError, match=told) as caught:
        load_source("excel", {"path": "t.xlsx", "target": "left", **args}, tmp_path, SplitSection())
    assert caught.value.details.get("changes", {}) == changes


def test_without_its_library_the_message_says_what_to_install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_xlsx(tmp_path / "t.xlsx", {"one": [HEADER, *ROWS]})
    monkeypatch.setitem(sys.modules, "fastexcel", None)
    with pytest.raises(ConfigurationError, match="fastexcel, which reads it, is not installed") as caught:
        load_source("excel", {"path": "t.xlsx", "target": "left"}, tmp_path, SplitSection())
    assert "pip install 'trainwright[excel]'" in caught.value.remedy
