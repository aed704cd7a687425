"""Masks: what their numbers or colours mean, settled once over all of them before training, and their decoding."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, NamedTuple

import numpy as np
from PIL import Image, ImageOps

from trainwright.trainer.base.errors import DataError
from trainwright.trainer.data.images.decoding import BROKEN, GREYS, ORIENTATION, PictureError, in_words, opened
from trainwright.trainer.data.images.walking import MAX_NAMED, listed
from trainwright.trainer.data.tensors import IGNORED

if TYPE_CHECKING:
    from trainwright.trainer.data.images.header_scan import Look
    from trainwright.trainer.data.images.listing import Listing
    from trainwright.trainer.data.sources.images import Images

HIGHEST = (255, 65535)
"""Of 8 and of 16 bits: the object in a mask of two values."""
ANEW = (
    "Write the masks as PNG from where they were drawn, scaled to the nearest pixel; those of two classes are brought "
    "back by a threshold: Image.open(file).convert('L').point(lambda v: 255 * (v > 127)).save('mask.png')."
)
MANY = 8
"""More numbers that no class has than this come from smoothing."""
UNKNOWN = -1
UPRIGHT = {
    2: Image.Transpose.FLIP_LEFT_RIGHT, 3: Image.Transpose.ROTATE_180, 4: Image.Transpose.FLIP_TOP_BOTTOM,
    5: Image.Transpose.TRANSPOSE, 6: Image.Transpose.ROTATE_270, 7: Image.Transpose.TRANSVERSE,
    8: Image.Transpose.ROTATE_90,
}  # fmt: skip
"""What turns a picture upright, by its orientation."""

Numbers = np.ndarray[Any, np.dtype[np.int64]]


class Seen(NamedTuple):
    """Values of one mask."""

    pixels: dict[int, int]
    """By value; of very many values the most frequent ones, and the last."""
    is_color: bool = False


@dataclass(frozen=True)
class Coding:
    """What the values of masks mean."""

    classes: dict[int, int]
    """Class by value: a number, or a colour as 0xRRGGBB."""
    names: list[str]
    ignored: frozenset[int] = frozenset()
    of_colors: bool = False
    as_stored: bool = False
    """Whether masks were drawn on pictures as they are stored, before EXIF turns them."""
    understood: dict[str, Any] = field(default_factory=dict)

    @cached_property
    def _table(self) -> np.ndarray[Any, np.dtype[np.int16]]:
        """Class by value, and behind the last one that of all others."""
        table = np.full(max([*self.classes, *self.ignored]) + 2, UNKNOWN, dtype=np.int16)
        for value, place in (dict.fromkeys(self.ignored, IGNORED) | self.classes).items():
            table[value] = place
        return table

    def of(self, values: Numbers) -> Numbers:
        """Return the classes of values, IGNORED for those that are ignored. Raises PictureError for any other."""
        places = np.minimum(values.view(np.uint64), len(self._table) - 1)  # a number below 0 is far above as well
        found = self._table[places].astype(np.int64)
        if (unknown := values[found == UNKNOWN]).size:
            raise PictureError(f"it has {said(int(unknown[0]), self.of_colors)}, which is no class's")
        return found


def decode_mask(
    file: str | Path | IO[bytes], coding: Coding, *, size: tuple[int, int] | None = None, orientation: int = 1
) -> Numbers:
    """Return a mask's classes, (height, width) of int64, scaled to the nearest pixel; IGNORED where none counts.

    Args:
        file: the mask.
        coding: what its values mean.
        size: (height, width) of the result.
        orientation: of its picture.

    Raises:
        PictureError: unreadable, of pixels that are no values of classes, or with a value that no class has.
    """
    turn = orientation if coding.as_stored else 1
    return coding.of(_values(file, of_colors=coding.of_colors, size=size, orientation=turn)[0])


def seen(file: str, *, of_colors: bool, most: int = 256) -> Seen:
    """Return a mask's values. Raises PictureError for an unreadable one, and for pixels that are no values."""
    values, is_color = _values(file, of_colors=of_colors)
    if values.min(initial=0) >= 0 and values.max(initial=0) < 1 << 16:  # counted, which is faster than sorted
        counts = np.bincount(values.reshape(-1))
        different = np.flatnonzero(counts)
        counts = counts[different]
    else:
        different, counts = np.unique(values, return_counts=True)
    chosen = sorted({*np.argsort(-counts, kind="stable")[:most].tolist(), len(different) - 1})
    return Seen({int(different[place]): int(counts[place]) for place in chosen}, is_color)


def _values(
    file: str | Path | IO[bytes], *, of_colors: bool, size: tuple[int, int] | None = None, orientation: int = 1
) -> tuple[Numbers, bool]:
    """Return a mask's values, (height, width), and whether they are colours."""
    try:
        with opened(file) as image:
            if Image.Image.getexif(image).get(ORIENTATION, 1) != 1:
                image = ImageOps.exif_transpose(image)  # noqa: PLW2901 - turned by its own note
            elif orientation != 1:
                image = image.transpose(UPRIGHT[orientation])  # noqa: PLW2901
            if size is not None and image.size != (size[1], size[0]):
                image = image.resize((size[1], size[0]), Image.Resampling.NEAREST)  # noqa: PLW2901
            return _plain(image, of_colors=of_colors)
    except BROKEN as error:
        raise in_words(error) from error


def _plain(image: Image.Image, *, of_colors: bool) -> tuple[Numbers, bool]:
    if image.mode in {"LA", "RGBA"}:
        alpha = image.getchannel("A").getextrema()
        if alpha[0] != alpha[1]:
            raise PictureError("its transparency varies; a mask's classes are its numbers or colours: draw them so")
        image = image.convert(image.mode[:-1])
    if of_colors and image.mode in {"1", "L", "P"}:
        image = image.convert("RGB")
    if image.mode in {"1", "L", "P", *GREYS} and not of_colors:
        return np.array(image).astype(np.int64), False
    if image.mode != "RGB":
        raise PictureError(f"its pixels are {image.mode}; a mask holds a class number a pixel, or a colour")
    red, green, blue = np.moveaxis(np.asarray(image).astype(np.int64), -1, 0)
    if not of_colors and (red == green).all() and (green == blue).all():
        return red, False  # grey numbers, saved as colours
    return red << 16 | green << 8 | blue, True


def said(value: int, of_colors: bool) -> str:
    """Return a value as the configuration has it."""
    return f"#{value:06x}" if of_colors else str(value)


def coding_of(options: Images, listing: Listing, found: Sequence[Seen | None], *, as_stored: bool) -> Coding:
    """Return what the values of all masks mean.

    Args:
        options: of the source, with classes.
        listing: the pictures and their masks.
        found: of each mask; None: it cannot be read.
        as_stored: as in `Coding`.

    Raises:
        DataError: colours without a table of them, values that no class has, a named class that no mask has, or fewer
            than two classes in all of them.
    """
    total: Counter[int] = Counter()
    for one in found:
        total.update(one.pixels if one is not None else {})
    colored = [place for place, one in enumerate(found) if one is not None and one.is_color]
    if colored and not options.of_colors:
        raise _colors(options, listing, found, colored)
    codes, ignored = options.class_codes, options.ignored_codes
    reading = None
    if not isinstance(options.classes, dict) and options.ignore is None and len(codes) == 2:
        top = max(total, default=0)
        if top in HIGHEST and total.keys() == {0, top}:
            codes, ignored = dict(zip(codes, ([0], [top]), strict=True)), []
            reading = f"all masks have 0 and {top} alone: {top} is class 1, {[*codes][1]!r}"
        kinds = [one.pixels.keys() for one in found if one is not None]
        if {0, 1} in kinds and {0, 255} in kinds and not any({1, 255} <= one for one in kinds):
            raise _written_twice([*codes], kinds)
    classes = {code: place for place, of in enumerate(codes.values()) for code in of}
    coding = Coding(classes, [*codes], frozenset(ignored), options.of_colors, as_stored)
    _require_known(options, listing, found, coding, total)
    _require_classes(options, coding, total)
    return replace(coding, understood=_understood(coding, total, reading))


def _written_twice(names: list[str], kinds: list[Any]) -> DataError:
    """Return the error for masks of which some may have the object as 1 and others as 255, which is ignored."""
    changes = {"data.args.classes": {names[0]: 0, names[1]: [1, 255]}}
    return DataError(
        f"{kinds.count({0, 1})} of {len(kinds)} masks have 0 and 1, {kinds.count({0, 255})} have 0 and 255, and none "
        f"both 1 and 255: it is {names[1]!r} written otherwise, or ignored.",
        remedy=f"Where 255 is {names[1]!r}: configure(project, changes={changes}); where it is ignored: "
        "configure(project, changes={'data.args.ignore': 255}).",
        details={"changes": changes},
    )


def _understood(coding: Coding, total: Counter[int], reading: str | None) -> dict[str, Any]:
    """Return each value's class and share of the pixels."""
    names = dict.fromkeys(coding.ignored, "ignored")
    names |= {value: coding.names[place] for value, place in coding.classes.items()}
    values = {said(value, coding.of_colors): f"{names[value]}, {share(total, value)}" for value in sorted(total)}
    found: dict[str, Any] = {"masks": dict([*values.items()][:MAX_NAMED])}
    return found | ({"read_as": reading} if reading else {})


def share(total: Counter[int], *values: int) -> str:
    """Return the share of the pixels that have these values."""
    return f"{100 * sum(total[value] for value in values) / max(total.total(), 1):.3g} %"


def _shares(total: Counter[int], of_colors: bool) -> str:
    most = total.most_common(MAX_NAMED)
    more = " …" if len(total) > MAX_NAMED else ""
    return ", ".join(f"{said(value, of_colors)} ({share(total, value)})" for value, _ in most) + more


def _colors(options: Images, listing: Listing, found: Sequence[Seen | None], colored: list[int]) -> DataError:
    """Return the error for colours that no table gives a class."""
    total: Counter[int] = Counter()
    for place in colored:
        total.update(found[place].pixels)  # type: ignore[union-attr]
    names = [*options.class_codes]
    fits = len(names) == len(total) == 2 and 0 in total  # black is what lies behind
    colors = ["#000000", said(max(total), True)] if fits else ["#rrggbb"] * len(names)
    changes = {"data.args.classes": dict(zip(names, colors, strict=True))}
    return DataError(
        f"{len(colored)} of {len(found)} masks are coloured, and no table says which class a colour is: "
        f"{_shares(total, True)}; first {listing.masks[colored[0]]}.",
        remedy=f"Give each class its colour: configure(project, changes={changes}); colours that count in no loss go "
        "into data.args.ignore."
        + (" As many colours as these come from smoothing or JPEG: write the masks anew." if len(total) > 99 else ""),
        details={
            "colors": [said(value, True) for value, _ in total.most_common(MAX_NAMED)],
            **({"changes": changes} if fits else {}),
        },
    )


def _require_known(
    options: Images, listing: Listing, found: Sequence[Seen | None], coding: Coding, total: Counter[int]
) -> None:
    """Refuse values that are neither a class's nor ignored."""
    known = coding.classes.keys() | coding.ignored
    if not (unknown := sorted(total.keys() - known)):
        return
    places = [place for place, one in enumerate(found) if one is not None and not one.pixels.keys() <= known]
    files = [listing.names[place] for place in places]
    if listing.is_table:
        files = [f"row {place + 1} ({name})" for place, name in zip(places, files, strict=True)]
    what, told = "colour" if coding.of_colors else "class number", [said(one, coding.of_colors) for one in unknown]
    ignored = [said(value, coding.of_colors) for value in sorted(coding.ignored)]
    is_smoothed = len(unknown) > max(MANY, 2 * len(coding.names))
    changes = {} if is_smoothed else _changes(options, coding, total, unknown)
    out = "or give these a class, or name them in data.args.ignore."
    raise DataError(
        f"{len(places)} of {len(found)} masks have {what} {listed(told)}, and there are {len(coding.names)} classes "
        f"({_bounds(options, coding)}; {listed(ignored) + ' is' if ignored else 'nothing is'} ignored): "
        f"{listed(files)}. In all masks: {_shares(total, coding.of_colors)}.",
        remedy=f"{len(unknown)} such values come from smoothing (masks scaled, soft edges, JPEG). {ANEW}"
        if is_smoothed
        else f"Correct the masks, {f'or configure(project, changes={changes}).' if changes else out}",
        details={
            "numbers": told[:MAX_NAMED] if coding.of_colors else unknown[:MAX_NAMED],
            "files": files[:MAX_NAMED],
            "count": len(places),
            **({"changes": changes} if changes else {}),
        },
    )


def _bounds(options: Images, coding: Coding) -> str:
    if not isinstance(options.classes, dict):
        return f"0 to {len(coding.names) - 1}"
    return listed([f"{said(one, coding.of_colors)} {coding.names[place]}" for one, place in coding.classes.items()])


def _changes(options: Images, coding: Coding, total: Counter[int], unknown: list[int]) -> dict[str, Any]:
    """Return the change that gives every value a class, where one reading fits."""
    if isinstance(options.classes, int):
        fits = unknown[0] >= 0 and unknown[-1] < 254
        return {"data.args.classes": unknown[-1] + 1} if fits else {}
    if isinstance(options.classes, list):
        for values in (sorted(total), sorted(total.keys() - coding.ignored)):
            if len(values) == len(coding.names) and values[0] >= 0:
                return {"data.args.classes": dict(zip(coding.names, values, strict=True))}
    return {}


def _require_classes(options: Images, coding: Coding, total: Counter[int]) -> None:
    """Refuse named classes that no mask has, and masks of one class."""
    there = {place for value, place in coding.classes.items() if total[value]}
    absent = [name for place, name in enumerate(coding.names) if place not in there]
    if not absent or (isinstance(options.classes, int) and len(there) > 1):
        return
    values = {coding.names[place]: said(value, coding.of_colors) for value, place in coding.classes.items()}
    out = [said(value, coding.of_colors) for value in sorted(coding.ignored) if total[value]]
    ignored = f"; {share(total, *coding.ignored)} of the pixels are {listed(out)}, which is ignored" if out else ""
    kept = {name: codes for name, codes in _written(options, coding).items() if name not in absent}
    with_out = {"data.args.classes": {**kept, absent[0]: out[0] if coding.of_colors else int(out[0])}} if out else {}
    without = {"data.args.classes": kept} if len(kept) > 1 else {}
    ways = [
        f"where {out[0]} is {absent[0]!r}: configure(project, changes={with_out})"
        if len(absent) == len(out) == 1
        else "",
        f"to do without {listed(absent)}: configure(project, changes={without})" if without else "",
    ]
    raise DataError(
        f"No mask has a pixel of class {', '.join(f'{name!r} ({values[name]})' for name in absent[:MAX_NAMED])}"
        f"{ignored}. In all masks: {_shares(total, coding.of_colors)}.",
        remedy="; ".join(["Correct the masks or data.args.classes", *filter(None, ways)]) + ".",
        details={"absent": absent[:MAX_NAMED], **({"changes": without} if without and not out else {})},
    )


def _written(options: Images, coding: Coding) -> dict[str, Any]:
    """Return the values of each class as the configuration takes them."""
    codes = {
        name: [said(one, True) if coding.of_colors else one for one in of] for name, of in options.class_codes.items()
    }
    return {name: of[0] if len(of) == 1 else of for name, of in codes.items()}


def require_lossless(listing: Listing, looks: Sequence[Look]) -> None:
    """Refuse masks of a format that changes values. Raises DataError."""
    lossy = [listing.masks[place] for place, look in enumerate(looks) if look.is_lossy]
    if lossy:
        raise DataError(
            f"{len(lossy)} of {len(looks)} masks are JPEG or another lossy format, which changes the pixels' numbers: "
            f"{listed(lossy)}.",
            remedy=ANEW,
            details={"files": lossy[:MAX_NAMED], "count": len(lossy)},
        )
