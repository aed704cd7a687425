"""A large file is read again exactly when it may have changed, whatever was done to its times."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from trainwright.trainer.base import file_stamps
from trainwright.trainer.base.canonical import digest_file
from trainwright.trainer.run import digests
from trainwright.trainer.run.digests import LARGE_BYTES, remembered_digest


@pytest.fixture
def reads(monkeypatch: pytest.MonkeyPatch) -> list[Path]:
    """The paths that were read; nothing is remembered from before."""
    found: list[Path] = []

    def reading(path: Path) -> str:
        found.append(path)
        return digest_file(path)

    monkeypatch.setattr(file_stamps, "_kept", {})
    monkeypatch.setattr(digests, "digest_file", reading)
    return found


def settle(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let it be later than the clock's grain."""
    monkeypatch.setattr(file_stamps, "SETTLED_NS", -(10**10))


@pytest.mark.requirement("GATE-1", "GATE-3")
def test_an_unchanged_large_file_is_read_once_and_a_small_or_fresh_one_each_time(
    tmp_path: Path, reads: list[Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    large, small = tmp_path / "large", tmp_path / "small"
    large.write_bytes(os.urandom(LARGE_BYTES))
    small.write_bytes(b"small")
    assert remembered_digest(large) == remembered_digest(large) == digest_file(large)
    assert reads == [large, large]  # it was written this moment: its time cannot tell yet
    settle(monkeypatch)
    reads.clear()
    assert {remembered_digest(large) for _ in range(3)} == {digest_file(large)}
    assert {remembered_digest(small) for _ in range(2)} == {digest_file(small)}
    assert reads == [large, small, small]


@pytest.mark.requirement("GATE-3", "GATE-5")
@pytest.mark.parametrize("how", ["in place", "replaced"])
def test_an_edit_that_keeps_size_and_times_is_seen(
    how: str, tmp_path: Path, reads: list[Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "model.safetensors"
    path.write_bytes(bytes(LARGE_BYTES))
    before = path.stat()
    settle(monkeypatch)
    first = remembered_digest(path)
    forged = b"1" + bytes(LARGE_BYTES - 1)
    while path.stat().st_ctime_ns == before.st_ctime_ns:  # the kernel's clock has a grain of some milliseconds
        if how == "in place":
            path.write_bytes(forged)
        else:
            (tmp_path / "other").write_bytes(forged)
            (tmp_path / "other").replace(path)
        os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
    assert path.stat().st_mtime_ns == before.st_mtime_ns
    assert remembered_digest(path) == digest_file(path) != first
    assert len(reads) == 2
    path.unlink()
    with pytest.raises(FileNotFoundError):
        remembered_digest(path)
