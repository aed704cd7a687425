"""Loading of pictures: listed, looked at, named where they cannot be used, and decoded at once where they are few."""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from blake3 import blake3
from torch import Tensor

from trainwright.trainer.base.errors import DataError
from trainwright.trainer.base.paths import confine, confine_folder
from trainwright.trainer.data import cache
from trainwright.trainer.data.images import archives
from trainwright.trainer.data.images.decoding import understood_of
from trainwright.trainer.data.images.header_scan import Look, decoded, look_at, seen_masks
from trainwright.trainer.data.images.listing import (
    Listing,
    OneClassError,
    divided,
    of_class_folders,
    of_masked_folder,
    of_split_folders,
)
from trainwright.trainer.data.images.masks import Coding, coding_of, require_lossless
from trainwright.trainer.data.images.pairing import drawn_as_stored
from trainwright.trainer.data.images.samples import Pictures, made
from trainwright.trainer.data.images.table import ENDINGS, of_table
from trainwright.trainer.data.images.walking import MAX_NAMED, Folders
from trainwright.trainer.data.preprocessing import ToPixels
from trainwright.trainer.data.sections import BY_NAMES, SplitSection
from trainwright.trainer.data.sources.source import PATH, Loaded
from trainwright.trainer.data.split_methods.given import by_names
from trainwright.trainer.data.split_methods.rows import without_keys

if TYPE_CHECKING:
    import polars as pl

    from trainwright.trainer.data.sources.images import Images

DECODED_BYTES = 256 << 20
"""Up to which all pictures are decoded once, as uint8."""
MAX_LISTED = 50
"""Files beside a table that the evidence lists one by one."""
MAX_CLASSES = 1000
"""More than these, and than half as many as pictures, are no classes."""


def load_pictures(options: Images, code_root: Path, split: SplitSection) -> Loaded:
    """Return the pictures that the options name. Raises as `Images.load`."""
    listing, files = find(options, code_root, split.key)
    _require_as_divided(options, listing, split)
    looks, of_masks, coding = _looks(options, listing)
    bad = _problems(listing, looks, of_masks)
    if bad and not options.skip_unreadable:
        raise _unreadable(listing, bad)
    if bad:
        good = [place for place in range(len(looks)) if place not in bad]
        listing, looks = listing.taken(good), [looks[place] for place in good]
        of_masks = of_masks and [of_masks[place] for place in good]
    if not looks:
        raise DataError("No picture can be read.", remedy="Point data.args.path at other files.")
    targets, names = _targets(options, listing, coding)
    pictures = Pictures(
        listing.files,
        listing.names,
        [look.digest for look in looks] if of_masks is None else _joined(looks, of_masks),
        _size(options, listing, looks),
        options.channels,
        targets,
        listing.mask_files,
        names,
        coding=coding,
        orientations=[look.orientation for look in looks] if coding is not None else [],
    )
    _decode_if_few(pictures)
    keys = {name: np.asarray(values) for name, values in listing.columns.items()}
    return Loaded(
        made(pictures),
        names,
        preprocessing=ToPixels(options.standardize),
        files=files,
        keys=keys,
        augment=None if options.augment is None else options.augment.build(),
        skipped=[problem.partition(":")[0] for problem in bad.values()],
        understood=understood_of(listing, looks, coding, names),
        target_names=listing.classes if coding is None and isinstance(listing.labels[0], list) else None,
    )


def _looks(options: Images, listing: Listing) -> tuple[list[Look], list[Look] | None, Coding | None]:
    """Return the looks at the pictures, closely where bad ones are to be left out, and at their masks, always closely.

    Raises:
        DataError: as `coding_of`, `drawn_as_stored`, `require_lossless`.
    """
    looks = look_at([*listing.files, *listing.mask_files])
    looks, of_masks = looks[: len(listing.names)], looks[len(listing.names) :]
    if options.skip_unreadable:
        looks = decoded(listing.files, looks)
    if options.classes is None:
        return looks, None, None
    require_lossless(listing, of_masks)
    of_masks, found = seen_masks(listing.mask_files, of_masks, of_colors=options.of_colors)
    if not any(found):
        return looks, of_masks, None
    as_stored = drawn_as_stored(options, listing, looks, of_masks)
    return looks, of_masks, coding_of(options, listing, found, as_stored=as_stored)


def find(options: Images, code_root: Path, wanted: str | None = None) -> tuple[Listing, list[Path]]:
    """Return the pictures by name, and the files and folders that they come from. Raises as `Images.load`.

    Args:
        options: of the source.
        code_root: that every path is under.
        wanted: a column that the split needs.
    """
    tried = code_root / options.path
    if tried.suffix.lower() in ENDINGS:
        wanted = None if wanted == BY_NAMES else wanted
        table = confine(options.path, code_root, key=PATH)
        root, source = _folder(options.pictures, code_root, "data.args.pictures") if options.pictures else (None, None)
        listing = of_table(options, table, root or table.parent, code_root, wanted)
        return listing, [table, *([source] if source is not None else _tops(listing, code_root))]
    if wanted not in {None, BY_NAMES} or options.target is not None:
        key = f"data.split needs the column {wanted!r}" if wanted is not None else "data.args.target names a column"
        raise DataError(
            f"{key}, and {options.path} is no table.",
            remedy="Give a table of the pictures: data.args {path: labels.csv, picture: file, target: label}.",
        )
    folder, source = _folder(options.path, code_root, PATH)
    folders = Folders(folder, code_root)
    if options.masks is None:
        listing = _classes(options, folder, folders)
        return replace(listing, understood=listing.understood | folders.understood()), [source]
    masks = folder / options.masks if source != folder else None
    masks, of_masks = (masks, source) if masks is not None else _folder(options.masks, code_root, "data.args.masks")
    listing = of_masked_folder(folder, masks, folders, Folders(masks, code_root))
    named = {BY_NAMES: by_names(listing.names, [1] * len(listing.names))} if wanted == BY_NAMES else {}
    understood = listing.understood | folders.understood()
    return replace(listing, columns=named, understood=understood), list(dict.fromkeys([source, of_masks]))


def _classes(options: Images, folder: Path, folders: Folders) -> Listing:
    """Return the pictures of class folders. Raises as they do; where another folder has them, with that change."""
    try:
        return (of_split_folders if divided(folder, folders) else of_class_folders)(folder, folders)
    except DataError as error:
        root, given = folders.code_root, Path(options.path)
        if folder != (root / given).resolve() or not (root / given).parent.is_relative_to(root):
            raise
        if (inner := error.details.pop("inner", None)) is not None:
            error.details["changes"] = {"data.args.path": (given / inner).as_posix()}
        elif isinstance(error, OneClassError):
            error.details["changes"] = {"data.args.path": given.parent.as_posix()}
        raise


def _require_as_divided(options: Images, listing: Listing, split: SplitSection) -> None:
    """Refuse to divide anew what folders train, validation and test have divided, and the other way round."""
    is_divided = BY_NAMES in listing.columns
    if is_divided and split.key != BY_NAMES:
        raise DataError(
            f"{options.path} has a folder for each split ({', '.join(sorted({*listing.columns[BY_NAMES]}))}), not for "
            f"each class, and data.split.by is {split.by}.",
            remedy="Keep these splits: configure(changes={'data.split': {'by': 'given'}}); or put all pictures of a "
            "class into one folder.",
        )
    if split.key == BY_NAMES and not is_divided:
        raise without_keys(split)


def _tops(listing: Listing, code_root: Path) -> list[Path]:
    """Return the folders and files beside a table that its pictures are in; of many, the folder of the table.

    In the code root itself all are listed: as a whole it would be stale with every change of the code.
    """
    tops = sorted({name.split("/")[0] for name in (*listing.names, *listing.masks)})
    is_whole = len(tops) > MAX_LISTED and listing.root.resolve() != code_root.resolve()
    return [listing.root] if is_whole else [listing.root / name for name in tops]


def _folder(path: str, code_root: Path, key: str) -> tuple[Path, Path]:
    """Return a folder, that of an archive's files too, and the folder or archive itself."""
    if not archives.is_archive(code_root / path):
        folder = confine_folder(path, code_root, key=key)
        return folder, folder
    archive = confine(path, code_root, key=key)
    asked = f"archive {archives.archive_digest(archive)} {archive.suffix.lower()}"
    folder = cache.current().made(asked, lambda folder: archives.unpack(archive, folder))
    inside = sorted(folder.iterdir())
    while len(inside) == 1 and inside[0].is_dir():
        folder = inside[0]
        inside = sorted(folder.iterdir())
    return folder, archive


def scan_pictures(options: Images, code_root: Path) -> pl.LazyFrame:
    """Return a row for each picture, of its header. Raises as `Images.load`."""
    import polars as pl

    listing, _ = find(options, code_root)
    looks, of_masks, _ = _looks(options, listing)
    for place, mask in enumerate(of_masks or []):
        if mask.problem and not looks[place].problem:
            looks[place] = looks[place]._replace(problem=f"its mask {listing.masks[place]}: {mask.problem}")
    if options.skip_unreadable:
        order = sorted(range(len(looks)), key=lambda place: bool(looks[place].problem))
        listing, looks = listing.taken(order), [looks[place] for place in order]
    fields = ("height", "width", "mode", "bytes", "digest", "problem")
    columns = {name: [getattr(look, name) for look in looks] for name in fields}
    labels = {} if listing.masks else {"label": [_said(label, listing) for label in listing.labels]}
    frame = pl.DataFrame({"path": listing.names, **labels, **columns}, schema_overrides={"problem": pl.String})
    return frame.lazy()


def _said(label: Any, listing: Listing) -> str:
    if isinstance(label, list):
        return ", ".join(name for name, has in zip(listing.classes or [], label, strict=True) if has)
    return str(label)


def _problems(listing: Listing, looks: list[Look], masks: list[Look] | None) -> dict[int, str]:
    """Return what is wrong, by the picture's place."""
    found = {place: f"{listing.names[place]}: {look.problem}" for place, look in enumerate(looks) if look.problem}
    for place, look in enumerate(masks or []):
        if look.problem:
            found.setdefault(place, f"{listing.masks[place]}: {look.problem}")
    return found


def _unreadable(listing: Listing, bad: dict[int, str]) -> DataError:
    files, told = [listing.names[place] for place in bad], list(bad.values())
    if len(bad) == 1:
        file, _, problem = told[0].partition(": ")
        message = f"The image {file} cannot be read: {problem}."
    else:
        more = " …" if len(bad) > MAX_NAMED else ""
        message = f"{len(bad)} of {len(listing.names)} images cannot be read: {'; '.join(told[:MAX_NAMED])}{more}."
    remedy, details = "Replace the files or take them out", {"files": files[:MAX_NAMED], "count": len(bad)}
    if len(bad) == len(listing.names):
        return DataError(message, remedy=f"{remedy}.", details=details)
    changes = {"changes": {"data.args.skip_unreadable": True}}
    remedy += "; or set data.args.skip_unreadable true, which leaves them out."
    return DataError(message, remedy=remedy, details=details | changes)


def _joined(looks: list[Look], masks: list[Look]) -> list[str]:
    pairs = zip(looks, masks, strict=True)
    return [blake3(f"{one.digest}{two.digest}".encode()).hexdigest(length=16) for one, two in pairs]


def _size(options: Images, listing: Listing, looks: list[Look]) -> tuple[int, int]:
    """Return height and width of all pictures. Raises DataError where they differ and no size is set."""
    if isinstance(options.size, list):
        return options.size[0], options.size[1]
    if options.size is not None:
        return options.size, options.size
    first = looks[0].height, looks[0].width
    others = [place for place, look in enumerate(looks) if (look.height, look.width) != first]
    if others:
        common = Counter((look.height, look.width) for look in looks).most_common(1)[0][0]
        place = others[0]
        size = [min(common[0], 224), min(common[1], 224)]
        raise DataError(
            f"{listing.names[place]} is {looks[place].height} x {looks[place].width} pixels high and wide, the first "
            f"image {first[0]} x {first[1]}; {len(others)} of {len(looks)} differ from it.",
            remedy=f"Set data.args.size, for example {size} (height, width), to scale all.",
            details={
                "files": [listing.names[place] for place in others[:MAX_NAMED]],
                "count": len(others),
                "changes": {"data.args.size": size},
            },
        )
    return first


def _targets(options: Images, listing: Listing, coding: Coding | None) -> tuple[Tensor | None, list[str] | None]:
    """Return the targets and the names of the classes, or of the labels. Raises DataError."""
    if coding is not None:
        return None, coding.names
    labels = listing.labels
    if isinstance(labels[0], list):
        return torch.tensor(labels, dtype=torch.float32), listing.classes
    are_numbers = all(isinstance(label, int | float) and not isinstance(label, bool) for label in labels)
    fractions = are_numbers and any(label != math.floor(label) for label in labels)
    of_loss = options.asked.of_loss if options.target is not None else None  # else folders are classes
    asked = options.asked.task or ("regression" if fractions else of_loss)
    if asked == "regression":
        if not are_numbers:
            odd = next(label for label in labels if isinstance(label, bool | str))
            raise DataError(
                f"The target {options.target!r} is to be a number, and {str(odd)[:40]!r} is none.",
                remedy="Correct the cell. If the target is classes: data.args.task classification, with loss "
                "cross_entropy and metrics like accuracy.",
            )
        return torch.tensor(labels, dtype=torch.float32), None
    classes = listing.classes or sorted(set(labels))
    _require_classes(classes, len(labels), options)
    places = {label: place for place, label in enumerate(classes)}
    return torch.tensor([places[label] for label in labels]), [str(label) for label in classes]


def _require_classes(classes: list[Any], pictures: int, options: Images) -> None:
    if len(classes) < 2:
        raise DataError(
            f"All {pictures} pictures have one label, {str(classes[0])[:60]!r}: there is nothing to tell apart.",
            remedy="Name another column with data.args.target, or add pictures of other classes.",
        )
    if len(classes) > max(MAX_CLASSES, pictures // 2):
        raise DataError(
            f"The target {options.target!r} has {len(classes)} different values for {pictures} pictures: no classes.",
            remedy="Name another column with data.args.target, or set data.args.task: regression for numbers.",
        )


def _decode_if_few(pictures: Pictures) -> None:
    """Decode all pictures once where they take little memory."""
    shape = (len(pictures.files), pictures.channels, *pictures.size)
    if math.prod(shape) > DECODED_BYTES:
        return
    pixels = np.empty(shape, dtype=np.uint8)
    for row in range(len(pixels)):
        pixels[row] = pictures.raw(row)[0]
    pictures.pixels = torch.from_numpy(pixels)
