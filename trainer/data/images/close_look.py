"""Close look at picture files: all their pixels, decoded once; what is found in the same bytes is kept in the cache."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import PIL

from trainwright.trainer.base.canonical import digest_json
from trainwright.trainer.data import cache
from trainwright.trainer.data.images.decoding import PictureError, decode
from trainwright.trainer.data.images.first_look import READERS, Look
from trainwright.trainer.data.images.masks import Seen, seen

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
