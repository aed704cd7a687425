"""The data cache: made once, whole or not at all, intact, bounded; and digests of files that are kept."""

from __future__ import annotations

import multiprocessing
import os
import signal
import time
from pathlib import Path
from typing import Any

import pytest

from trainwright.trainer.base.canonical import digest_path
from trainwright.trainer.data import cache, file_digests
from trainwright.trainer.data.cache import DataCache
from trainwright.trainer.data.file_digests import FileDigests

FORK = multiprocessing.get_context("fork")


def write(text: str) -> Any:
    return lambda folder: (folder / "part.bin").write_text(text)


def refuse(_: Path) -> None:
    raise AssertionError("made again")


def _make_slowly(folder: Path, marks: Path) -> None:
    def make(place: Path) -> None:
        (marks / str(os.getpid())).touch()
        time.sleep(0.2)
        (place / "part.bin").write_text("whole")

    made = DataCache(folder).made("key", make)
    (marks / f"{os.getpid()}.read").write_text((made / "part.bin").read_text())


@pytest.mark.requirement("TRAIN-1")
def test_two_processes_make_one_entry_once(tmp_path: Path) -> None:
    marks = tmp_path / "marks"
    marks.mkdir()
    processes = [FORK.Process(target=_make_slowly, args=(tmp_path / "cache", marks)) for _ in range(2)]
    for process in processes:
        process.start()
    for process in processes:
        process.join()
    assert [path.read_text() for path in marks.glob("*.read")] == ["whole"] * 2
    assert len(list(marks.iterdir())) == 3, "one of them made it"


def _make_and_wait(folder: Path, begun: Path) -> None:
    def make(place: Path) -> None:
        (place / "part.bin").write_text("ha")
        begun.touch()
        signal.pause()

    DataCache(folder).made("key", make)


@pytest.mark.requirement("TRAIN-1")
def test_a_kill_in_the_middle_leaves_no_entry(tmp_path: Path) -> None:
    process = FORK.Process(target=_make_and_wait, args=(tmp_path / "cache", tmp_path / "begun"))
    process.start()
    while not (tmp_path / "begun").exists():
        time.sleep(0.01)
    process.kill()
    process.join()
    kept = DataCache(tmp_path / "cache")
    assert (kept.made("key", write("whole")) / "part.bin").read_text() == "whole"
    assert not list((tmp_path / "cache").glob(f"{cache.UNFINISHED}*")), "what was unfinished is gone"


@pytest.mark.requirement("TRAIN-1")
def test_an_entry_that_could_not_be_made_is_not_there(tmp_path: Path) -> None:
    kept = DataCache(tmp_path / "cache")
    with pytest.raises(AssertionError, match="made again"):
        kept.made("key", refuse)
    assert [path.suffix for path in kept.folder.iterdir()] == [".lock"]


def _cut(path: Path) -> None:
    path.write_text("who")


def _alter(path: Path) -> None:
    path.write_text("whale")


def _add(path: Path) -> None:
    path.with_name("more.bin").touch()


@pytest.mark.requirement("TRAIN-1", "REPRO-4")
@pytest.mark.parametrize("damage", [_cut, _alter, _add, Path.unlink])
def test_a_damaged_entry_is_made_anew(tmp_path: Path, damage: Any) -> None:
    made = DataCache(tmp_path).made("key", write("whole"))
    os.utime(made / "part.bin")
    assert DataCache(tmp_path).made("key", refuse) == made, "touched, and still what was written"
    entry = made.parent
    damage(made / "part.bin")
    assert DataCache(tmp_path).made("key", write("whole")) != made
    assert entry.exists(), "it is still read by somebody"


@pytest.mark.requirement("TRAIN-1")
def test_the_least_recently_used_entries_above_the_bound_are_dropped(tmp_path: Path) -> None:
    def age(key: str, seconds: int) -> None:
        manifest = made_by_others(tmp_path, key, f"{key:.<100}").parent / cache.MANIFEST
        os.utime(manifest, (time.time() - seconds,) * 2)

    age("old", 300)
    age("used", 200)
    age("newer", 100)
    kept = DataCache(tmp_path, most_bytes=250)
    kept.made("used", refuse)
    kept.made("fresh", write(f"{'fresh':.<100}"))
    left = {path.read_text().strip(".") for path in tmp_path.glob("*/*/content/part.bin")}
    assert left == {"used", "fresh"}, "an entry that is being read stays"


def made_by_others(folder: Path, key: str, text: str) -> Path:
    """Return an entry that another process made, which is gone."""
    process = FORK.Process(target=DataCache(folder).made, args=(key, write(text)))
    process.start()
    process.join()
    return next(path.parent for path in folder.glob("*/*/content/part.bin") if path.read_text() == text)


@pytest.mark.requirement("REPRO-4")
def test_a_run_that_decides_planning_makes_its_own(tmp_path: Path) -> None:
    older = DataCache(tmp_path).made("key", write("older"))
    assert DataCache(tmp_path, since_ns=time.time_ns() + 10**9).made("key", write("own")) != older
    assert (older / "part.bin").read_text() == "older"


@pytest.mark.requirement("REPRO-4")
def test_digests_are_those_of_the_record_and_follow_every_change(tmp_path: Path, monkeypatch: Any) -> None:
    monkeypatch.setattr(file_digests, "LARGE_BYTES", 4000)
    folder = tmp_path / "data"
    (folder / "sub").mkdir(parents=True)
    for number in range(5):
        (folder / "sub" / f"{number}.bin").write_bytes(bytes([number]) * 1000 * number)
        os.utime(folder / "sub" / f"{number}.bin", (1, 1))
    (folder / ".hidden").touch()
    digests = FileDigests(tmp_path / "kept")
    assert digests.of(folder) == digest_path(folder)
    assert digests.of(folder / "sub" / "4.bin") == digest_path(folder / "sub" / "4.bin")
    (folder / "sub" / "2.bin").write_bytes(b"x" * 2000)
    os.utime(folder / "sub" / "2.bin", (1, 1))
    assert digests.of(folder) == digest_path(folder), "of the same size and time, and another inode's time"


@pytest.mark.requirement("REPRO-4")
def test_a_digest_is_kept_until_the_file_changes(tmp_path: Path, monkeypatch: Any) -> None:
    monkeypatch.setattr(file_digests, "SETTLED_NS", -(10**12))
    path = tmp_path / "data.bin"
    path.write_bytes(b"one")
    digests = FileDigests(tmp_path / "kept")
    first = digests.of(path)
    read: list[Any] = []
    compute = file_digests.file_digests
    monkeypatch.setattr(file_digests, "file_digests", lambda paths: read.extend(paths) or compute(paths))
    assert digests.of(path) == first
    assert not read
    assert FileDigests(tmp_path / "kept", since_ns=time.time_ns() + 10**9).of(path) == first
    assert read, "kept before: computed again"
    path.write_bytes(b"two")
    assert digests.of(path) != first
