"""What was made of files is kept until one of them differs, and not a moment longer."""

from __future__ import annotations

import fcntl
from collections.abc import Callable
from pathlib import Path

import pytest

from trainwright.trainer.base import read_tracking
from trainwright.trainer.base.read_tracking import Memory, Trace, note, note_fleeting, note_mark
from trainwright.trainer.run import MetricStore

pytestmark = pytest.mark.requirement("MCP-5", "GATE-3")


@pytest.fixture
def settled(monkeypatch: pytest.MonkeyPatch) -> None:
    """Take every file for one that was written long ago."""
    monkeypatch.setattr(read_tracking, "SETTLED_NS", -(10**10))


class Reader:
    """Reads, and counts how often it had to."""

    def __init__(self, read: Callable[[], object]) -> None:
        self.memory, self.read, self.times = Memory(), read, 0

    def __call__(self, **how: object) -> object:
        def make() -> object:
            self.times += 1
            return self.read()

        return self.memory.recall("key", make, **how)  # type: ignore[arg-type]


@pytest.mark.usefixtures("settled")
def test_a_value_is_kept_until_a_file_that_it_was_read_from_differs(tmp_path: Path) -> None:
    file = tmp_path / "a.txt"
    file.write_text("one")
    look = Reader(file.read_text)
    assert (look(), look(), look.times) == ("one", "one", 1)
    file.write_text("two")
    assert (look(), look.times) == ("two", 2)
    file.unlink()
    with pytest.raises(FileNotFoundError):
        look()


@pytest.mark.usefixtures("settled")
def test_a_file_that_appears_beside_the_read_ones_counts(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("one")
    look = Reader(lambda: [(tmp_path / "a.txt").read_text(), (tmp_path / "b.txt").exists()])
    assert (look(), look(), look.times) == (["one", False], ["one", False], 1)
    (tmp_path / "b.txt").write_text("")
    assert look() == ["one", True]


def test_what_was_written_a_moment_ago_is_read_again(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("one")
    look = Reader((tmp_path / "a.txt").read_text)
    look()
    look()
    assert look.times == 2


@pytest.mark.usefixtures("settled")
def test_a_lock_counts_by_whether_it_is_held(tmp_path: Path) -> None:
    path = tmp_path / "run.lock"
    path.touch()
    look = Reader(path.read_bytes)
    with path.open("ab") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        look()
        look()
        assert look.times == 1
    look()
    assert look.times == 2


@pytest.mark.usefixtures("settled")
def test_recorded_metrics_count_and_a_reader_of_them_disturbs_nothing(tmp_path: Path) -> None:
    path = tmp_path / "metrics.sqlite"
    with MetricStore(path, writer=True) as store:
        store.write([("train/loss", 1, 0.5, 1.0)])
    look = Reader(lambda: MetricStore(path).last("train/loss"))
    look()
    MetricStore(path).keys()
    look()
    assert look.times == 1
    with MetricStore(path, writer=True) as store:
        store.write([("train/loss", 2, 0.25, 2.0)])
    assert look() == (2, 0.25, 2.0)


@pytest.mark.usefixtures("settled")
def test_what_leaves_no_stamp_is_never_kept() -> None:
    look = Reader(note_fleeting)
    look()
    look()
    assert look.times == 2


@pytest.mark.usefixtures("settled")
def test_a_value_within_another_brings_its_files_and_marks_with_it(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("one")

    def read() -> str:
        note_mark("elsewhere")
        return (tmp_path / "a.txt").read_text()

    inner = Reader(read)
    inner()
    marks: list[set[str]] = []
    outer = Reader(inner)
    outer(state=lambda trace: marks.append(set(trace.marks)))
    (tmp_path / "a.txt").write_text("two")
    assert outer(state=lambda _: None) == "two"
    assert marks == [{"elsewhere"}]


@pytest.mark.usefixtures("settled")
def test_a_file_that_is_only_named_counts_and_one_that_is_left_out_does_not(tmp_path: Path) -> None:
    for name in ("a.txt", "b.txt"):
        (tmp_path / name).write_text("one")
    named = Reader(lambda: note(tmp_path / "a.txt"))
    beside = Reader((tmp_path / "b.txt").read_text)
    named()
    beside(trim=Trace.forget_files)
    for name in ("a.txt", "b.txt"):
        (tmp_path / name).write_text("two")
    named()
    assert (named.times, beside(trim=Trace.forget_files)) == (2, "one")
