"""Pictures and their masks: which mask is a picture's, and whether they show the same pixels."""

from __future__ import annotations

import os.path
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from trainwright.trainer.base.errors import DataError
from trainwright.trainer.data.images.decoding import TURNED
from trainwright.trainer.data.images.walking import MAX_NAMED, listed

if TYPE_CHECKING:
    from trainwright.trainer.data.images.header_scan import Look
    from trainwright.trainer.data.images.listing import Listing
    from trainwright.trainer.data.sources.images import Images

Key = Callable[[str], str]


def paired(names: list[str], masks: list[str], folder: str) -> list[str]:
    """Return the mask of each picture: the one of its name without ending, or of its name but for what all share.

    `1.png` and `1_mask.png`, or `img_1.jpg` and `seg_1.png`, are such names.

    Args:
        names: of the pictures.
        masks: names of the masks.
        folder: the masks', for messages.

    Raises:
        DataError: pictures without a mask, or several files of one name.
    """
    plain = _by_key(masks, _stem)
    if any(_stem(name) not in plain for name in names):
        shared = _by_key(masks, _unshared(masks))
        key = _unshared(names)
        if 1 < len(names) == len({*map(key, names)}) and all(len(shared.get(key(name), ())) == 1 for name in names):
            return [shared[key(name)][0] for name in names]
    if without := [name for name in names if _stem(name) not in plain]:
        spare = sorted({*masks} - {mask for name in names for mask in plain.get(_stem(name), ())})
        raise DataError(
            f"{len(without)} of {len(names)} images have no mask in {folder}: {listed(without)}"
            f"{f'; masks of no image: {listed(spare[:5])}' if spare else ''}.",
            remedy="A mask has its picture's name, with any ending, or one addition for all: photos/a/1.jpg, "
            "masks/a/1.png or masks/a/1_mask.png. Add them, or take the pictures out.",
            details={"files": without[:MAX_NAMED]},
        )
    of_pictures = _by_key(names, _stem)
    if several := [of for of in (*of_pictures.values(), *map(plain.get, of_pictures)) if of and len(of) > 1]:
        raise DataError(
            f"{len(several)} names stand for several files each, so that a picture and its mask are no pair: "
            f"{'; '.join(' and '.join(of) for of in several[:5])}.",
            remedy="Keep one of each.",
            details={"files": [name for of in several for name in of][:MAX_NAMED]},
        )
    return [plain[_stem(name)][0] for name in names]


def _stem(name: str) -> str:
    return Path(name).with_suffix("").as_posix()


def _by_key(names: Sequence[str], key: Key) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for name in names:
        found.setdefault(key(name), []).append(name)
    return found


def _unshared(names: Sequence[str]) -> Key:
    """Return what gives a name's stem without what all stems begin and end with; digits there belong to each."""
    stems = [Path(name).stem for name in names]
    begin = os.path.commonprefix(stems).rstrip("0123456789")  # noqa: RUF071 - of names, not of paths
    end = os.path.commonprefix([stem[::-1] for stem in stems])[::-1].lstrip("0123456789")  # noqa: RUF071

    def key(name: str) -> str:
        return (Path(name).parent / Path(name).stem.removeprefix(begin).removesuffix(end)).as_posix()

    return key


def drawn_as_stored(options: Images, listing: Listing, looks: Sequence[Look], masks: Sequence[Look]) -> bool:
    """Return whether masks were drawn on pictures as they are stored, before EXIF turns them.

    Raises:
        DataError: a mask of another size than its picture, or pictures that EXIF turns and no size shows whether
            their masks are turned already.
    """
    whole = [place for place, look in enumerate(looks) if not look.problem and not masks[place].problem]
    doubtful = [place for place in whole if looks[place].orientation != 1 and masks[place].orientation == 1]
    votes = Counter(_vote(looks[place], masks[place]) for place in doubtful)
    as_stored = options.masks_drawn == "stored" or (options.masks_drawn is None and votes["stored"] > votes["upright"])
    for place in whole:
        stored = as_stored and looks[place].orientation != 1 and masks[place].orientation == 1
        _require_size(listing, place, _size(looks[place], stored=stored), masks[place], stored=stored)
    if options.masks_drawn is None and votes[None] and not (votes["stored"] or votes["upright"]):
        named = [listing.names[place] for place in doubtful if _vote(looks[place], masks[place]) is None]
        raise DataError(
            f"EXIF turns {len(named)} pictures, and no size shows whether their masks were drawn before or after: "
            f"{listed(named)}.",
            remedy="Look at one with its mask: configure(project, changes={'data.args.masks_drawn': 'upright'}) where "
            "the mask fits the picture as viewers show it, 'stored' where it fits the pixels as the file has them.",
            details={"files": named[:MAX_NAMED], "changes": {"data.args.masks_drawn": "upright"}},
        )
    return as_stored


def _size(look: Look, *, stored: bool) -> tuple[int, int]:
    return (look.width, look.height) if stored and look.orientation in TURNED else (look.height, look.width)


def _vote(look: Look, mask: Look) -> str | None:
    """Return how a mask was drawn, where its size shows it."""
    upright, stored = _size(look, stored=False), _size(look, stored=True)
    if upright == stored:
        return None
    return {upright: "upright", stored: "stored"}.get((mask.height, mask.width))


def _require_size(listing: Listing, place: int, size: tuple[int, int], mask: Look, *, stored: bool) -> None:
    if (mask.height, mask.width) != size:
        raise DataError(
            f"{listing.names[place]} is {size[0]} x {size[1]} pixels high and wide{' as stored' * stored}, its mask "
            f"{listing.masks[place]} {mask.height} x {mask.width}.",
            remedy="A mask has its picture's size: scale it to the nearest pixel, or bring the right one.",
            details={"files": [listing.names[place], listing.masks[place]]},
        )
