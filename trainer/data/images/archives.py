"""Archives of pictures: unpacked once into the cache, after a check of every member's name, kind and size."""

from __future__ import annotations

import lzma
import stat
import tarfile
import zipfile
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path, PurePosixPath, PureWindowsPath
from typing import IO

from trainwright.trainer.base.errors import DataError
from trainwright.trainer.base.paths import is_left_by_system
from trainwright.trainer.data.file_digests import file_digests

ENDINGS = (".zip", ".tar", ".tar.gz", ".tgz", ".tar.xz", ".tar.bz2")
MAX_BYTES = 64 << 30
"""Of an archive's files, unpacked."""
MAX_FILES = 5_000_000
MAX_TIMES = 200
"""Times its size that an archive, or a file in it, may unpack to. Pictures are packed already: a few times at most."""
SMALL_BYTES = 64 << 20
"""Up to which that proportion does not count: a few blank pictures pack well."""
PIECE = 1 << 20
BROKEN = (zlib.error, lzma.LZMAError, EOFError, OSError, RuntimeError, ValueError)
"""Errors of the packers' libraries for torn bytes."""
REMEDY = (
    "Write it again with plain files under plain names, or unpack it yourself and point data.args.path at the folder."
)


@dataclass(frozen=True)
class _Member:
    name: str
    kind: str
    """file, folder, or what else it is."""
    size: int
    open: Callable[[], IO[bytes]]


def is_archive(path: Path) -> bool:
    """Return whether a file is one that `unpack` unpacks, by its name."""
    return path.name.lower().endswith(ENDINGS)


def archive_digest(path: Path) -> str:
    """Return the digest of an archive's bytes, by which its folder in the cache is known."""
    return file_digests([path])[0]


def unpack(path: Path, folder: Path) -> None:
    """Unpack an archive's files into a folder. Nothing is written before every member's name has been checked.

    Raises:
        DataError: unreadable, a member that would leave the folder, a link, or far more bytes than the archive has.
    """
    most = min(MAX_BYTES, max(MAX_TIMES * path.stat().st_size, SMALL_BYTES))
    try:
        with _opened(path) as (members, end):
            chosen = _checked(path, members, most)
            for place, member in chosen.items():
                target = folder / place
                target.parent.mkdir(parents=True, exist_ok=True)
                most -= _write(path, member, target, most)
            end()
    except (zipfile.BadZipFile, tarfile.TarError, *BROKEN) as error:
        raise _refused(path, f"cannot be read: {str(error)[:160] or type(error).__name__}") from error


def _checked(path: Path, members: Iterator[_Member], most: int) -> dict[str, _Member]:
    """Return the files to write by their place in the folder. Raises DataError for anything that is not plain."""
    found: dict[str, _Member] = {}
    promised = 0
    for number, member in enumerate(members):
        if number == MAX_FILES:
            raise _refused(path, f"has more than {MAX_FILES:,} members")
        place = _place(path, member.name)
        if member.kind == "folder" or is_left_by_system(Path(place)) or place.startswith("__MACOSX/"):
            continue
        if member.kind != "file":
            raise _refused(path, f"holds {member.name[:100]!r}, {member.kind}: only files and folders are unpacked")
        promised += member.size
        if promised > most:
            raise _too_much(path, most)
        found[place] = member
    folders = {parent.as_posix() for place in found for parent in PurePosixPath(place).parents}
    if both := sorted(folders & found.keys()):
        raise _refused(path, f"has {both[0][:100]!r} both as a file and as a folder")
    return found


def _place(path: Path, name: str) -> str:
    """Return where a member goes, relative to the folder. Raises DataError where that is outside of it."""
    plain = PurePosixPath(name)
    if not name or "\0" in name or plain.is_absolute() or PureWindowsPath(name).drive or "\\" in name:
        raise _refused(path, f"holds {name[:100]!r}, which is no relative path")
    if ".." in plain.parts:
        raise _refused(path, f"holds {name[:100]!r}, which leads out of the folder")
    return plain.as_posix()


def _write(path: Path, member: _Member, target: Path, most: int) -> int:
    """Write a member piece by piece; return its bytes, which its header may lie about: the bound is of what comes."""
    written = 0
    with member.open() as source, target.open("wb") as file:
        while piece := source.read(PIECE):
            written += len(piece)
            if written > most:
                raise _too_much(path, most)
            file.write(piece)
    return written


@contextmanager
def _opened(path: Path) -> Iterator[tuple[Iterator[_Member], Callable[[], None]]]:
    """Open an archive, and give its members and what checks its end once they are read."""
    if path.name.lower().endswith(".zip"):
        with zipfile.ZipFile(path) as archive:
            yield _of_zip(archive), lambda: None  # each member has its checksum
    else:
        with tarfile.open(path) as archive:
            yield _of_tar(archive), partial(_require_end, archive)


def _require_end(archive: tarfile.TarFile) -> None:
    """Read on to an archive's end, where its packer checks what it unpacked.

    Raises:
        TarError: bytes that are no member follow the last one, or the two empty blocks that end an archive are missing.
    """
    stream: IO[bytes] = archive.fileobj  # type: ignore[assignment]
    stream.seek(archive.offset)
    block = stream.read(2 * tarfile.BLOCKSIZE)
    is_end = len(block) == 2 * tarfile.BLOCKSIZE and not any(block)
    for _ in range(max(SMALL_BYTES // PIECE, 1)):  # an archive is padded by some blocks; by more than that in a bomb
        if not stream.read(PIECE):
            break
    if not is_end:
        raise tarfile.TarError("its last member is followed by no end of the archive: it was cut short or damaged")


def _of_zip(archive: zipfile.ZipFile) -> Iterator[_Member]:
    for info in archive.infolist():
        mode = stat.S_IFMT(info.external_attr >> 16)
        kind = "folder" if info.is_dir() else "a link" if mode == stat.S_IFLNK else "file"
        yield _Member(info.filename, kind, info.file_size, partial(archive.open, info))


def _of_tar(archive: tarfile.TarFile) -> Iterator[_Member]:
    for info in archive:
        other = "a link" if info.islnk() or info.issym() else "a device"
        kind = "file" if info.isreg() else "folder" if info.isdir() else other
        yield _Member(info.name, kind, info.size, partial(_file_of, archive, info))


def _file_of(archive: tarfile.TarFile, info: tarfile.TarInfo) -> IO[bytes]:
    found = archive.extractfile(info)
    assert found is not None, "of a file"  # noqa: S101
    return found


def _too_much(path: Path, most: int) -> DataError:
    return _refused(path, f"unpacks to more than {most:,} bytes, which its {path.stat().st_size:,} do not explain")


def _refused(path: Path, why: str) -> DataError:
    return DataError(f"The archive {path.name} {why}.", remedy=REMEDY)
