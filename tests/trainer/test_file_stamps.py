"""What was read of files is kept until one of them differs, and not a moment longer."""

from __future__ import annotations

import fcntl
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from trainwright.trainer.base import file_stamps
from trainwright.trainer.base.file_stamps import stamp_of, stamps_below, while_unchanged
from trainwright.trainer.run import MetricStore

pytestmark = pytest.mark.requirement("MCP-5", "GATE-3")


@pytest.fixture
def settled(monkeypatch: pytest.MonkeyPatch) -> None:
    """Take every file for one that was written long ago."""
    monkeypatch.setattr(file_stamps, "SETTLED_NS", -(10**10))


@pytest.fixture(autouse=True)
def nothing_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(file_stamps, "_kept", {})


class Reader:
    """Reads, and counts how often it had to."""

    def __init__(self, read: Callable[[], object], *paths: Path) -> None:
        self.read, self.paths, self.times = read, paths, 0

    def __call__(self) -> object:
        def make() -> object:
            self.times += 1
            return self.read()

        return while_unchanged(self, [str(path) for path in self.paths], make)


@pytest.mark.usefixtures("settled")
def test_a_value_is_kept_until_a_file_that_it_was_read_from_differs(tmp_path: Path) -> None:
    file = tmp_path / "a.txt"
    file.write_text("one")
    look = Reader(file.read_text, file)
    assert (look(), look(), look.times) == ("one", "one", 1)
    file.write_text("two")
    assert (look(), look.times) == ("two", 2)
    file.unlink()
    with pytest.raises(FileNotFoundError):
        look()


@pytest.mark.usefixtures("settled")
def test_a_file_that_was_missing_and_appears_counts(tmp_path: Path) -> None:
    look = Reader((tmp_path / "b.txt").exists, tmp_path / "b.txt")
    assert (look(), look(), look.times) == (False, False, 1)
    (tmp_path / "b.txt").write_text("")
    assert look() is True


def test_what_was_written_a_moment_ago_is_read_again(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("one")
    look = Reader((tmp_path / "a.txt").read_text, tmp_path / "a.txt")
    look()
    look()
    assert look.times == 2


def test_a_lock_counts_by_whether_it_is_held(tmp_path: Path) -> None:
    path = tmp_path / "run.lock"
    path.touch()
    with path.open("ab") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        held = stamp_of(path)
        assert stamp_of(path) == held
    assert stamp_of(path) != held


def test_a_folder_has_the_stamps_of_all_files_below_it_but_for_temporary_ones(tmp_path: Path) -> None:
    before = stamps_below(tmp_path)
    (tmp_path / "deep" / "deeper").mkdir(parents=True)
    assert (before, stamps_below(tmp_path)) == ({}, {}), "folders without files are none"
    for name in ("a.txt", "deep/b.txt", "deep/deeper/c.txt", "deep/d.txt.tmp", "metrics.sqlite-wal"):
        (tmp_path / name).touch()
    found = stamps_below(tmp_path)
    assert {Path(path).name for path in found} == {"a.txt", "b.txt", "c.txt"}, "an empty log is none"
    assert {Path(path).name for path in stamps_below(tmp_path, without="deep")} == {"a.txt"}
    (tmp_path / "deep" / "deeper" / "c.txt").write_text("more")
    assert stamps_below(tmp_path) != found
    (tmp_path / "project").mkdir()
    (tmp_path / "project" / "runs").symlink_to(tmp_path / "deep")
    assert len(stamps_below(tmp_path / "project")) == 2, "runs may lie on another disk"
    (tmp_path / "deep" / "data").symlink_to(tmp_path)
    assert len(stamps_below(tmp_path / "project")) == 3, "what a snapshot links to is not walked through"


def test_a_reader_of_recorded_metrics_changes_no_stamp_and_a_writer_does(tmp_path: Path) -> None:
    with MetricStore(tmp_path / "metrics.sqlite", writer=True) as store:
        store.write([("train/loss", 1, 0.5, 1.0)])
    before = stamps_below(tmp_path)
    assert MetricStore(tmp_path / "metrics.sqlite").last("train/loss") == (1, 0.5, 1.0)
    assert stamps_below(tmp_path) == before
    with MetricStore(tmp_path / "metrics.sqlite", writer=True) as store:
        store.write([("train/loss", 2, 0.25, 2.0)])
    assert stamps_below(tmp_path) != before


@pytest.mark.usefixtures("settled")
def test_of_too_many_values_the_older_half_goes(monkeypatch: pytest.MonkeyPatch, numbers: Iterator[int]) -> None:
    monkeypatch.setattr(file_stamps, "MAX_VALUES", 4)
    readers = [Reader(lambda: next(numbers)) for _ in range(5)]
    for look in readers:
        look()
    assert [look() for look in readers[2:]] == [2, 3, 4]
    assert readers[0]() == 5


@pytest.fixture
def numbers() -> Iterator[int]:
    return iter(range(9))
