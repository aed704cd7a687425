"""First look at picture files: their bytes' digest, size and defects, by header and end, without decoding them."""

from __future__ import annotations

import io
import json
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, NamedTuple

import PIL
from blake3 import blake3

from trainwright.trainer.base.canonical import digest_json
from trainwright.trainer.base.file_stamps import Stamp, stamp_of
from trainwright.trainer.data import cache
from trainwright.trainer.data.images.decoding import PictureError, decode, header
from trainwright.trainer.data.images.masks import Seen, seen

READERS = 4
"""Threads: of many small files most of the time is waiting for them."""
MAX_BYTES = 256 << 20
"""Of one picture's file."""
NO_PICTURES = {
    b"version https://git-lfs": "it is a pointer of Git LFS; `git lfs pull` brings the picture",
    b"<!doctype html": "it is a web page, not a picture: its download failed",
    b"<html": "it is a web page, not a picture: its download failed",
}
"""How files begin that stand in a picture's place, in lower case, and what they are."""
ENDS = {b"\x89PNG": (b"IEND", 32), b"\xff\xd8\xff": (b"\xff\xd9", 1 << 16)}
"""How files of a kind begin, what they end with, and within how many last bytes."""


class Look(NamedTuple):
    """What is known of a picture without its pixels."""

    digest: str
    """32 hex digits of the BLAKE3 of the file's bytes."""
    bytes: int
    height: int = 0
    width: int = 0
    mode: str = ""
    orientation: int = 1
    is_animated: bool = False
    has_alpha: bool = False
    """These are of the header."""
    is_lossy: bool = False
    """Whether its format changes the pixels' values: as masks these are no numbers any more."""
    problem: str | None = None


def look_at(files: Sequence[str]) -> list[Look]:
    """Return a look at every file, in order. A file that cannot be used has a `problem`; nothing is raised for it.

    The last looks of this process are kept: what is loaded is validated next.
    """
    stamps = [stamp_of(file) for file in files]
    known = {} if _LAST.keys() != {*files} else _LAST
    again = [file for file, stamp in zip(files, stamps, strict=True) if file not in known or known[file][0] != stamp]
    with ThreadPoolExecutor(READERS) as pool:
        fresh = dict(zip(again, pool.map(_look, again), strict=True))
    found = [fresh[file] if file in fresh else known[file][1] for file in files]
    _LAST.clear()
    _LAST.update(zip(files, zip(stamps, found, strict=True), strict=True))
    return found


_LAST: dict[str, tuple[Stamp, Look]] = {}


def _look(file: str) -> Look:
    try:
        size = Path(file).stat().st_size
        if size > MAX_BYTES:
            return Look("", size, problem=f"its file has {size:,} bytes, more than {MAX_BYTES:,}")
        content = Path(file).read_bytes()
    except OSError as error:
        return Look("", 0, problem=error.strerror or str(error))
    digest = blake3(content).hexdigest(length=16)
    if not content:
        return Look(digest, 0, problem="the file is empty")
    begin = content[:64].lower()
    if told := next((told for start, told in NO_PICTURES.items() if begin.startswith(start)), None):
        return Look(digest, len(content), problem=told)
    try:
        found = header(io.BytesIO(content))
        if not _has_end(content):
            decode(io.BytesIO(content))  # some files without their end can still be read
    except PictureError as error:
        return Look(digest, len(content), problem=str(error))
    return Look(digest, len(content), *found, is_lossy=_is_lossy(content))


def _is_lossy(content: bytes) -> bool:
    """Return whether a file is a JPEG, a WebP that is no lossless one, or an AVIF."""
    is_webp = content[8:12] == b"WEBP" and b"VP8 " in content[12:4096]
    return content.startswith(b"\xff\xd8\xff") or is_webp or content[4:12] == b"ftypavif"


def _has_end(content: bytes) -> bool:
    """Return whether a file ends as its kind does; True for kinds of which that is not known."""
    for begin, (end, within) in ENDS.items():
        if content.startswith(begin):
            return end in content[-within:]
    return True


# Close look at picture files: all their pixels, decoded once; what is found in the same bytes is kept in the cache.

VERSION = 2
"""Of what is found: entries of another version are not read."""
FOUND = "found.json"


def decoded(files: Sequence[str], looks: Sequence[Look]) -> list[Look]:
    """Return the looks at pictures, of those whose pixels do not decode with the problem."""

    def problem(file: str) -> str | None:
        try:
            decode(file)
        except PictureError as error:
            return str(error)
        return None

    found = _of_each("pixels", files, looks, problem)
    return [look if told is None else look._replace(problem=told) for look, told in zip(looks, found, strict=True)]


def seen_masks(files: Sequence[str], looks: Sequence[Look], *, of_colors: bool) -> tuple[list[Look], list[Seen | None]]:
    """Return the looks at masks as `decoded` does, and the values of each; None where it cannot be read."""

    def values(file: str) -> str | list[Any]:
        try:
            found = seen(file, of_colors=of_colors)
        except PictureError as error:
            return str(error)
        return [[*found.pixels.items()], found.is_color]

    found = _of_each("colours" if of_colors else "values", files, looks, values)
    again = [
        look._replace(problem=told) if isinstance(told, str) else look for look, told in zip(looks, found, strict=True)
    ]
    return again, [Seen(dict(told[0]), told[1]) if isinstance(told, list) else None for told in found]


def _of_each(what: str, files: Sequence[str], looks: Sequence[Look], find: Callable[[str], Any]) -> list[Any]:
    """Return what is found in each file, None for one that has a problem already; from the cache where it is known."""
    chosen = [file for file, look in zip(files, looks, strict=True) if look.problem is None]

    def make(folder: Path) -> None:
        with ThreadPoolExecutor(READERS) as pool:
            (folder / FOUND).write_text(json.dumps(list(pool.map(find, chosen))), encoding="utf-8")

    digests = [look.digest for look in looks if look.problem is None]
    folder = cache.current().made(digest_json(["close look", VERSION, PIL.__version__, what, digests]), make)
    found = iter(json.loads((folder / FOUND).read_text(encoding="utf-8")))
    return [next(found) if look.problem is None else None for look in looks]
