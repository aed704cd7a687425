"""`make environments`: what it compares, what it writes down, and that its oldest row is as old as we allow."""

from __future__ import annotations

import importlib
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from packaging.requirements import Requirement
from packaging.version import Version
from tests.house.sources import ROOT

FOLDER = ROOT / "benchmarks" / "environments"
PARTS = ("making", "playing", "recording", "rows", "comparing")
pytestmark = pytest.mark.requirement("ENV-1")


@pytest.fixture
def part() -> Iterator[Any]:
    """Imports a file of benchmarks/environments, whatever other benchmarks' files have its name."""
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(FOLDER))
        for name in PARTS:
            patch.delitem(sys.modules, name, raising=False)
        before = list(sys.path)
        yield importlib.import_module
        sys.path[:] = before
        for name in PARTS:
            sys.modules.pop(name, None)


def test_a_changed_an_added_and_a_removed_file_are_named_and_bytecode_is_not(part: Any, tmp_path: Path) -> None:
    making = part("making")
    site = tmp_path / "lib" / "site-packages"
    (site / "__pycache__").mkdir(parents=True)
    for name in ("kept.py", "changed.py", "gone.py"):
        (site / name).write_text("1")
    (site / "link").symlink_to("kept.py")
    before = making.state(tmp_path)
    (site / "__pycache__" / "kept.pyc").write_text("compiled")
    assert making.touched(before, making.state(tmp_path)) == []
    (site / "changed.py").write_text("2")
    (site / "gone.py").unlink()
    (site / "new.py").write_text("3")
    (site / "link").unlink()
    (site / "link").symlink_to("changed.py")
    names = [Path(path).name for path in making.touched(before, making.state(tmp_path))]
    assert names == ["changed.py", "gone.py", "link", "new.py"]


def test_the_table_keeps_the_lines_of_rows_that_were_not_played(part: Any, tmp_path: Path) -> None:
    recording, rows = part("recording"), part("rows")
    document = tmp_path / "environments.md"
    document.write_text(f"before\n{recording.BEGIN}\n{recording.END}\nafter\n")
    played = part("playing").Played(released=True, verified=True, predicted=True, bit_equal=True)
    first, second = rows.ROWS[:2]
    recording.record({second.name: played}, document)
    recording.record({first.name: part("playing").Played()}, document)
    lines = document.read_text().splitlines()
    assert (lines[0], lines[-1]) == ("before", "after")
    assert [line.split(" | ")[0] for line in lines[4:6]] == [f"| {first.name}", f"| {second.name}"]
    assert lines[4].split(" | ")[3:5] == ["no", "no"]
    assert lines[5].split(" | ")[3:5] == ["yes", "yes"]


def test_the_oldest_row_has_the_lowest_releases_that_a_worker_takes(part: Any) -> None:
    oldest = {one.name: one.specifier for one in map(Requirement, part("rows").OLDEST)}
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    for text in (*extras["worker"], *extras["export"]):
        wanted = Requirement(text)
        if wanted.name in oldest:
            (floor,) = (Version(one.version) for one in wanted.specifier if one.operator == ">=")
            (pinned,) = (Version(one.version) for one in oldest[wanted.name])
            assert pinned.release[: len(floor.release)] == floor.release, wanted.name
