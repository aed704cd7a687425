"""Decoding of one picture to the numbers that a model takes. Needs Pillow: it is a part of `predict.py`."""

from __future__ import annotations

import struct
from collections import Counter
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, NamedTuple

import numpy as np
from PIL import Image, ImageOps

from trainwright.trainer.base.errors import DataError
from trainwright.trainer.data.images.walking import MAX_NAMED

if TYPE_CHECKING:
    from trainwright.trainer.data.images.header_scan import Look
    from trainwright.trainer.data.images.listing import Listing
    from trainwright.trainer.data.images.masks import Coding

MAX_PIXELS = 64_000_000
"""Pixels of one picture; a small file may promise more than memory holds."""
TURNED = frozenset({5, 6, 7, 8})
"""Orientations, as a camera notes them, that exchange height and width."""
ORIENTATION = 0x0112
GREYS = ("I;16", "I;16B", "I;16L", "I;16N", "I")
"""Kinds of pixels with 16 bits."""


BROKEN = (OSError, ValueError, SyntaxError, EOFError, IndexError, KeyError, TypeError, struct.error)
"""Errors that Pillow raises for torn files."""


class PictureError(ValueError):
    """The file is no picture that can be used."""


class Header(NamedTuple):
    """What a picture's first bytes say."""

    height: int
    """Of the upright picture, as its width."""
    width: int
    mode: str
    """Kind of pixels, as Pillow names it."""
    orientation: int = 1
    """As the camera noted it (EXIF), 1 to 8; 1: it is stored upright."""
    is_animated: bool = False
    """Whether it has several frames or pages, of which the first is read."""
    has_alpha: bool = False


def header(file: str | Path | IO[bytes]) -> Header:
    """Return what a picture's first bytes say. Raises as `decode`."""
    with opened(file) as image:
        width, height = image.size
        try:
            noted = Image.Image.getexif(image).get(ORIENTATION)  # that of PNG would decode all of it
        except BROKEN:
            noted = None
        orientation = noted if noted in range(1, 9) else 1
        if orientation in TURNED:
            height, width = width, height
        try:
            is_animated = bool(getattr(image, "is_animated", False))
        except BROKEN:
            is_animated = True
        has_alpha = "transparency" in image.info or "A" in image.getbands()
        return Header(height, width, image.mode, orientation, is_animated, has_alpha)


def decode(
    file: str | Path | IO[bytes], *, size: tuple[int, int] | None = None, channels: int = 3
) -> np.ndarray[Any, np.dtype[np.uint8]]:
    """Return a picture's pixels, (channels, height, width) of uint8.

    It is turned upright as the camera noted, brought to grey (1) or colours (3), then scaled bilinearly to `size`,
    (height, width). Transparency is dropped; of 16 bits the upper eight are kept.

    Raises:
        PictureError: unreadable, cut short, too large, or of a kind of pixels that has no fixed range.
    """
    try:
        with opened(file) as stored:
            image = _in_channels(ImageOps.exif_transpose(stored), channels)
            if size is not None and image.size != (size[1], size[0]):
                image = image.resize((size[1], size[0]), Image.Resampling.BILINEAR)
            pixels = np.array(image, dtype=np.uint8)
    except BROKEN as error:
        raise in_words(error) from error
    return np.ascontiguousarray(pixels[None] if channels == 1 else pixels.transpose(2, 0, 1))


def opened(file: str | Path | IO[bytes]) -> Image.Image:
    """Open a picture without decoding it; one of too many pixels is refused by its header."""
    try:
        image = Image.open(file)
    except (Image.DecompressionBombError, Image.DecompressionBombWarning) as error:
        raise PictureError(f"it promises more than {MAX_PIXELS:,} pixels") from error
    except BROKEN as error:
        raise in_words(error) from error
    if image.width * image.height > MAX_PIXELS:
        image.close()
        raise PictureError(f"it promises {image.width} x {image.height} pixels, more than {MAX_PIXELS:,}")
    return image


def _in_channels(image: Image.Image, channels: int) -> Image.Image:
    if image.mode in GREYS:
        numbers = np.asarray(image).astype(np.int64)
        if numbers.min() < 0 or numbers.max() > 65535:
            raise PictureError(f"its values go from {numbers.min()} to {numbers.max()}: more than 16 bits")
        image = Image.fromarray((numbers >> 8).astype(np.uint8))
    if image.mode == "F":
        raise PictureError("its pixels are floating-point numbers without a fixed range")
    if image.mode == "P" and "transparency" in image.info:
        image = image.convert("RGBA")
    return image.convert("L" if channels == 1 else "RGB")


def in_words(error: Exception) -> PictureError:
    """Return Pillow's error for a torn file as one of ours."""
    if isinstance(error, PictureError):
        return error
    if isinstance(error, Image.UnidentifiedImageError):
        return PictureError("it is no picture of a known format")
    return PictureError(str(error)[:160] or type(error).__name__)


# Evidence of what pictures were taken for: sizes, kinds of pixels, and what of the files is not used.

MAX_OPENED = 64
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
    some = wide[:: max(len(wide) // MAX_OPENED, 1)]
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
    if len(names) > MAX_NAMED:
        return {"classes": len(names)}
    if isinstance(listing.labels[0], list):
        counts = [int(sum(column)) for column in zip(*listing.labels, strict=True)]
        return {"labels": dict(zip(names, counts, strict=True))}
    found = Counter(map(str, listing.labels))
    return {"classes": {name: found[name] for name in names}}
