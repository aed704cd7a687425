"""Close look at picture files: all their pixels, decoded once; what is found in the same bytes is kept in the cache."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import PIL

from trainwright.trainer.base.canonical import digest_json
from trainwright.trainer.base.errors import DataError
from trainwright.trainer.data import cache
from trainwright.trainer.data.images.decoding import IGNORED, PictureError, decode, decode_mask
from trainwright.trainer.data.images.first_look import READERS, Look
from trainwright.trainer.data.images.listing import MOST_NAMED, Listing

VERSION = 1
"""Of what is found: entries of another version are not read."""
FOUND = "found.json"
MOST_NUMBERS = 256
"""Of one mask that are kept, beside its last."""
SMALL = 1 << 16
"""Numbers up to which they are counted, which is faster than sorting them."""


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


def decoded_masks(files: Sequence[str], looks: Sequence[Look]) -> tuple[list[Look], list[list[int]]]:
    """Return the looks at masks as `decoded` does, and the different class numbers of each."""

    def numbers(file: str) -> str | list[int]:
        try:
            mask = decode_mask(file)
        except PictureError as error:
            return str(error)
        mask = mask[mask != IGNORED]
        is_small = mask.min(initial=0) >= 0 and mask.max(initial=0) < SMALL
        different = np.flatnonzero(np.bincount(mask)) if is_small else np.unique(mask)
        return [int(number) for number in different[:MOST_NUMBERS].tolist() + different[-1:].tolist()]

    found = _of_each("numbers", files, looks, numbers)
    again = [
        look._replace(problem=told) if isinstance(told, str) else look for look, told in zip(looks, found, strict=True)
    ]
    return again, [told if isinstance(told, list) else [] for told in found]


def require_classes(listing: Listing, numbers: Sequence[Sequence[int]], count: int, *, is_table: bool) -> None:
    """Check that masks have no numbers but those of the classes. Raises DataError that names numbers and masks."""
    outside = {
        place: wrong for place, of in enumerate(numbers) if (wrong := [one for one in of if not 0 <= one < count])
    }
    if not outside:
        return
    every = sorted({number for wrong in outside.values() for number in wrong})
    told = ", ".join(map(str, every[:MOST_NAMED])) + (" …" if len(every) > MOST_NAMED else "")
    named = [f"row {place + 1} ({listing.names[place]})" if is_table else listing.names[place] for place in outside]
    fits = every[0] >= 0 and every[-1] < 254
    raise DataError(
        f"{len(outside)} of {len(numbers)} masks have class number {told}, and there are {count} classes (0 to "
        f"{count - 1}; 255 is ignored): {', '.join(named[:MOST_NAMED])}{' …' if len(named) > MOST_NAMED else ''}.",
        remedy="Correct the masks"
        + (f", or configure(project, changes={{'data.args.classes': {every[-1] + 1}}})." if fits else "."),
        details={"numbers": every[:MOST_NAMED], "files": named[:MOST_NAMED], "count": len(outside)},
    )


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
