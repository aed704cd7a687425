"""Evidence of what pictures were taken for: sizes, kinds of pixels, and what of the files is not used."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from trainwright.trainer.base.errors import DataError
from trainwright.trainer.data.images.decoding import BROKEN, GREYS, opened
from trainwright.trainer.data.images.walking import MOST_NAMED

if TYPE_CHECKING:
    from trainwright.trainer.data.images.first_look import Look
    from trainwright.trainer.data.images.listing import Listing
    from trainwright.trainer.data.images.masks import Coding

MOST_OPENED = 64
"""Pictures of 16 bits whose values are read."""


def understood_of(
    listing: Listing, looks: Sequence[Look], coding: Coding | None, names: list[str] | None
) -> dict[str, Any]:
    """Return what was understood of pictures that can be read; a count that is 0 is left out.

    Args:
        listing: of the same pictures.
        looks: at them.
        coding: of their masks, where they have some.
        names: of classes or labels.
    """
    sizes = Counter((look.height, look.width) for look in looks)
    (height, width), _ = sizes.most_common(1)[0]
    counts: dict[str, Any] = {
        "turned_by_exif": sum(look.orientation != 1 for look in looks),
        "only_first_frame_of": sum(look.is_animated for look in looks),
        "transparency_dropped": sum(look.has_alpha for look in looks),
        "upper_8_of_16_bits": _upper_bits(listing, looks),
    }
    found: dict[str, Any] = {
        "pictures": len(looks),
        "height_x_width": f"{height} x {width}" + (f", and {len(sizes) - 1} other sizes" if len(sizes) > 1 else ""),
        "pixels": dict(Counter(look.mode for look in looks).most_common()),
        **{name: count for name, count in counts.items() if count},
    }
    if coding is None:
        return found | _classes(listing, names) | listing.understood
    if coding.as_stored:
        found["masks_drawn"] = "stored: turned with their pictures"
    return found | listing.understood | coding.understood


def _upper_bits(listing: Listing, looks: Sequence[Look]) -> str | None:
    """Return of how many pictures the upper 8 of 16 bits are kept, and what that leaves, as some of them show.

    Raises:
        DataError: it leaves nothing.
    """
    wide = [file for file, look in zip(listing.files, looks, strict=True) if look.mode in GREYS]
    if not wide:
        return None
    some = wide[:: max(len(wide) // MOST_OPENED, 1)]
    highest = 0
    for file in some:
        with suppress(*BROKEN), opened(file) as image:  # a torn one is named when it is decoded
            highest = max(highest, int(image.getextrema()[1]))
    if highest < 256:
        raise DataError(
            f"{len(wide)} pictures have 16 bits a pixel and, in {len(some)} that were read, no value above {highest}: "
            "the upper 8 bits, which are kept, are 0.",
            remedy="Save them with 8 bits: Image.fromarray(np.asarray(Image.open(file)).astype('uint8')).save(file).",
        )
    return f"{len(wide)}; values up to {highest} leave {highest // 256 + 1} levels"


def _classes(listing: Listing, names: list[str] | None) -> dict[str, Any]:
    """Return the pictures of each class, or of each of several labels; of very many classes their number."""
    if names is None:
        return {"target": "numbers"}
    if len(names) > MOST_NAMED:
        return {"classes": len(names)}
    if isinstance(listing.labels[0], list):
        counts = [int(sum(column)) for column in zip(*listing.labels, strict=True)]
        return {"labels": dict(zip(names, counts, strict=True))}
    found = Counter(map(str, listing.labels))
    return {"classes": {name: found[name] for name in names}}
