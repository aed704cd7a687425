"""Archives: nothing leaves the folder, nothing unpacks to far more than it was."""

from __future__ import annotations

import io
import random
import stat
import tarfile
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest

from trainwright.trainer.base.errors import DataError
from trainwright.trainer.data.images import archives


def zip_of(path: Path, **members: bytes) -> None:
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in members.items():
            archive.writestr(name, content)


def zip_with_link(path: Path) -> None:
    with zipfile.ZipFile(path, "w") as archive:
        info = zipfile.ZipInfo("a/1.png")
        info.external_attr = (stat.S_IFLNK | 0o777) << 16
        archive.writestr(info, "/etc/passwd")


def torn_inside(path: Path) -> None:
    with zipfile.ZipFile(path, "w", zipfile.ZIP_LZMA) as archive:
        archive.writestr("a/1.png", bytes(n * n % 251 for n in range(100_000)))
    content = bytearray(path.read_bytes())
    for place in range(60, 400):
        content[place] ^= 0xFF
    path.write_bytes(content)


def tar_of(path: Path, name: str, kind: bytes = tarfile.REGTYPE, target: str = "") -> None:
    with tarfile.open(path, "w") as archive:
        info = tarfile.TarInfo(name)
        info.type, info.linkname = kind, target
        info.size = 4 if kind == tarfile.REGTYPE else 0
        archive.addfile(info, io.BytesIO(b"data") if info.size else None)


def lying_zip(path: Path) -> None:
    """Write a zip whose header promises a few bytes where many are."""
    zip_of(path, **{"a/1.png": b"\0" * 3_000_000})
    content = path.read_bytes()
    path.write_bytes(content.replace((3_000_000).to_bytes(4, "little"), (100).to_bytes(4, "little")))


@pytest.mark.requirement("TRAIN-1")
@pytest.mark.parametrize(
    ("name", "write", "told"),
    [
        ("up.zip", lambda path: zip_of(path, **{"../1.png": b"x"}), "leads out of the folder"),
        ("absolute.zip", lambda path: zip_of(path, **{"/tmp/1.png": b"x"}), "no relative path"),
        ("drive.tar", lambda path: tar_of(path, "C:/1.png"), "no relative path"),
        ("link.zip", zip_with_link, "a link: only files"),
        ("symlink.tar", lambda path: tar_of(path, "a/1.png", tarfile.SYMTYPE, "/etc"), "a link: only files"),
        ("hard.tar", lambda path: tar_of(path, "a/1.png", tarfile.LNKTYPE, "../x"), "a link: only files"),
        ("device.tar", lambda path: tar_of(path, "a/1.png", tarfile.CHRTYPE), "a device: only files"),
        ("up.tar", lambda path: tar_of(path, "a/../../1.png"), "leads out of the folder"),
        ("bomb.zip", lambda path: zip_of(path, **{"a/1.png": b"\0" * 3_000_000}), "unpacks to more than"),
        ("lying.zip", lying_zip, "unpacks to more than|cannot be read"),
        ("both.zip", lambda path: zip_of(path, **{"a": b"x", "a/1.png": b"y"}), "both as a file and as a folder"),
        ("torn.zip", lambda path: path.write_bytes(b"PK\3\4 torn"), "cannot be read"),
        ("torn_inside.zip", torn_inside, "cannot be read"),
        ("torn.tar.gz", lambda path: path.write_bytes(b"\x1f\x8b torn"), "cannot be read"),
    ],
)
def test_an_archive_that_is_not_plain_is_refused_and_writes_nothing_outside(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, write: Callable[[Path], None], told: str
) -> None:
    monkeypatch.setattr(archives, "SMALL_BYTES", 1 << 20)
    write(tmp_path / name)
    target = tmp_path / "deep" / "target"
    target.mkdir(parents=True)
    with pytest.raises(DataError, match=told):
        archives.unpack(tmp_path / name, target)
    assert sorted(path.name for path in tmp_path.rglob("*.png") if target not in path.parents) == []
    assert sum(file.stat().st_size for file in target.rglob("*.png")) <= 2 << 20


@pytest.mark.requirement("TRAIN-1")
def test_too_many_members_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(archives, "MAX_FILES", 3)
    zip_of(tmp_path / "many.zip", **{f"a/{number}.png": b"x" for number in range(4)})
    with pytest.raises(DataError, match="more than 3 members"):
        archives.unpack(tmp_path / "many.zip", tmp_path)


@pytest.mark.requirement("TRAIN-1")
@pytest.mark.parametrize("ending", ["tar", "tar.gz", "tar.xz", "tar.bz2"])
def test_an_archive_that_is_damaged_or_cut_anywhere_loses_no_picture_in_silence(tmp_path: Path, ending: str) -> None:
    path, draw = tmp_path / f"photos.{ending}", random.Random(0)
    with tarfile.open(path, f"w:{ending.partition('.')[2]}") as archive:
        for number in range(4):
            info = tarfile.TarInfo(f"a/{number}.png")
            info.size = 300
            archive.addfile(info, io.BytesIO(draw.randbytes(300)))
    content = path.read_bytes()
    archives.unpack(path, tmp_path / "intact")
    intact = contents_below(tmp_path / "intact")
    assert len(intact) == 4
    damaged = [content[:at] for at in range(1, len(content) - 1, 97)]
    if ending != "tar":  # which has no checksum of its content
        damaged += [content[:at] + bytes([content[at] ^ 255]) + content[at + 1 :] for at in range(0, len(content), 23)]
    for number, other in enumerate(damaged):
        path.write_bytes(other)
        try:
            archives.unpack(path, tmp_path / str(number))
        except DataError:
            continue
        assert contents_below(tmp_path / str(number)) == intact


def contents_below(folder: Path) -> dict[str, bytes]:
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in folder.rglob("*.png")}
