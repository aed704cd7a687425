"""Pictures by name, before any is opened: of a folder of class folders, or of one beside a folder of masks."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from trainwright.trainer.base.errors import ConfigurationError, DataError
from trainwright.trainer.data.images.pairing import paired
from trainwright.trainer.data.images.walking import MAX_NAMED, SUFFIXES, Folders, listed, require_inside
from trainwright.trainer.data.sections import BY_NAMES
from trainwright.trainer.data.split_methods.given import split_named

MASK_NAME = re.compile(r"(?i)(^|[_\-. ])(masks?|seg|segmentation|labels?|gt)([_\-. ]?\d*)$|^(mask|seg|label)[_\-. ]")
"""Name of a mask among pictures."""


class OneClassError(DataError):
    """A folder of pictures without folders, where one for each class is needed."""


@dataclass(frozen=True)
class Listing:
    """Pictures and what is known of them."""

    root: Path
    """The folder that names are relative to."""
    names: list[str]
    """Of the files, relative to the root, in the order of the samples."""
    labels: list[Any] = field(default_factory=list)
    """Of each picture: a class's name, a number, or a list of names; empty with masks."""
    masks: list[str] = field(default_factory=list)
    """Names of the mask files; empty where there are none."""
    masks_root: Path | None = None
    columns: dict[str, Any] = field(default_factory=dict)
    """Further columns of the table, that a split needs."""
    classes: list[str] | None = None
    """Names of all labels, where the source says them beforehand."""
    is_table: bool = False
    understood: dict[str, Any] = field(default_factory=dict)
    """How the files were found, where that is worth saying."""

    @property
    def files(self) -> list[str]:
        """Paths of the pictures."""
        return [f"{self.root}/{name}" for name in self.names]

    @property
    def mask_files(self) -> list[str]:
        """Paths of the masks."""
        return [f"{self.masks_root or self.root}/{name}" for name in self.masks]

    def taken(self, places: Sequence[int]) -> Listing:
        """Return a listing of the pictures at these places."""

        def chosen(values: Any) -> list[Any]:
            return [values[place] for place in places] if len(values) else []

        return replace(
            self,
            names=chosen(self.names),
            labels=chosen(self.labels),
            masks=chosen(self.masks),
            columns={name: chosen(values) for name, values in self.columns.items()},
        )


def of_class_folders(folder: Path, folders: Folders) -> Listing:
    """Return the pictures of a folder that has one folder for each class, by class, then by name.

    Raises:
        DataError: fewer than two classes, a class folder without a picture, or with some in folders below it.
        ConfigurationError: a link that leads where data may not be read.
    """
    found = {one.name: folders.pictures(one) for one in folders.inside(folder)}
    beside = folders.pictures(folder)
    if not found and beside:
        raise _one_class(folder, folders)
    deeper = {name: below for name in found if (below := _folders_below(folder / name, folders))}
    classes = sorted(name for name, names in found.items() if names)
    empty = sorted(found.keys() - set(classes))
    if len(classes) < 2 or empty or deeper:
        raise _no_classes(folder, classes, empty, deeper)
    names = [(label, name) for label in classes for name in found[label]]
    if masks := [f"{label}/{mask}" for label in classes for mask in _masks_among(found[label])]:
        raise DataError(
            f"{len(masks)} of {len(names)} pictures are named as masks of others beside them: {listed(masks)}.",
            remedy="As pictures of a class they would be learned. Move them to a folder of their own (data.args.masks "
            "takes them, with a class for each pixel), or name the pictures in a table.",
            details={"files": masks[:MAX_NAMED], "count": len(masks)},
        )
    understood = {"in_no_class_folder": len(beside)} if beside else {}
    return Listing(
        folder,
        [f"{label}/{name}" for label, name in names],
        [label for label, _ in names],
        classes=classes,
        understood=understood,
    )


def _masks_among(names: list[str]) -> list[str]:
    """Return the files that are named as a mask of another one among them: `1_mask.png` beside `1.png`."""
    stems = {Path(name).stem for name in names}
    return [name for name in names if (of := MASK_NAME.sub("", stem := Path(name).stem)) != stem and of in stems]


def _folders_below(folder: Path, folders: Folders) -> dict[str, int]:
    """Return how many pictures are in each of the folders in a folder, where there are any."""
    return {one.name: count for one in folders.inside(folder) if (count := len(folders.below(one)))}


def _no_classes(folder: Path, classes: list[str], empty: list[str], deeper: dict[str, dict[str, int]]) -> DataError:
    with_no = f"; {listed(empty)} {'has' if len(empty) == 1 else 'have'} none" if empty else ""
    below = [f"{name}/{inner} ({count})" for name, inside in deeper.items() for inner, count in inside.items()]
    lower = f"; images lie deeper, in {listed(below)}" if below else ""
    (only,) = deeper if len(deeper) == 1 else [""]
    is_higher = not classes and only != "" and len(deeper[only]) > 1
    return DataError(
        f"{folder.name} has {len(classes)} folder(s) with images{with_no}{lower}; one for each class is needed, at "
        "least two, with the images in it.",
        remedy=f"Point data.args.path at {folder.name}/{only}, whose folders would be the classes."
        if is_higher
        else "Put the images of each class into a folder of its own, not below it, delete empty ones, and point "
        "data.args.path above them; or give a table: data.args {path: labels.csv, picture: file, target: label}.",
        details={"classes": classes[:MAX_NAMED], "empty": empty[:MAX_NAMED], "deeper": below[:MAX_NAMED]}
        | ({"inner": only} if is_higher else {}),
    )


def _one_class(folder: Path, folders: Folders) -> OneClassError:
    """Return the error for a folder that holds pictures and no folders: it is one class, and its parent has all."""
    others = [one.name for one in Folders(folder.parent, folders.code_root).inside(folder.parent) if one != folder]
    beside = f"; beside it: {listed(others[:3])}" if others else ""
    return OneClassError(
        f"{folder.name} holds images and has 0 folders: it is one class{beside}.",
        remedy=f"Point data.args.path at its parent, {folder.parent.name!r}, with one folder for each class; or give a "
        "table: data.args {path: labels.csv, picture: file, target: label}.",
    )


def divided(folder: Path, folders: Folders) -> bool:
    """Whether a folder's folders are splits rather than classes: one is train, and all are named as splits are."""
    found = [split_named(one.name) for one in folders.inside(folder)]
    return len(found) > 1 and "train" in found and None not in found


def of_split_folders(folder: Path, folders: Folders) -> Listing:
    """Return the pictures of a folder with a folder for each split, and in it one for each class.

    Raises:
        DataError, ConfigurationError: as `of_class_folders`.
    """
    parts = [(one.name, of_class_folders(one, folders)) for one in folders.inside(folder)]
    return Listing(
        folder,
        [f"{split}/{name}" for split, part in parts for name in part.names],
        [label for _, part in parts for label in part.labels],
        columns={BY_NAMES: [split_named(split) for split, part in parts for _ in part.names]},
        classes=sorted({label for _, part in parts for label in part.classes or []}),
    )


def of_masked_folder(folder: Path, masks: Path, folders: Folders, of_masks: Folders) -> Listing:
    """Return the pictures below a folder, each with its mask below another, or in the same under the name of a mask.

    Raises:
        DataError: no pictures, some without a mask, or several files of one name.
    """
    names = [name for name in folders.below(folder) if folder == masks or not (folder / name).is_relative_to(masks)]
    found = of_masks.below(masks)
    if folder == masks:
        found = [name for name in names if MASK_NAME.search(Path(name).stem)]
        names = [name for name in names if name not in {*found}]
    if not names:
        raise DataError(f"{folder.name} has no images ({', '.join(SUFFIXES)}).", remedy="Correct data.args.path.")
    of_names = paired(names, found, masks.name)
    understood: dict[str, Any] = {}
    if Path(names[0]).stem != Path(of_names[0]).stem:
        understood["paired_as"] = f"{names[0]} with {of_names[0]}"
    if spare := len(found) - len({*of_names}):
        understood["masks_of_no_picture"] = spare
    return Listing(folder, names, masks=of_names, masks_root=masks, understood=understood)


def require_files(root: Path, names: list[str], table: str, code_root: Path, what: str = "picture") -> None:
    """Check that the files which a table names are there, under the root or behind links there.

    Raises:
        ConfigurationError: a path that leads out of the root, or a link where data may not be read.
        DataError: files that are not there.
    """
    real = os.path.realpath(root)
    missing: list[int] = []
    for row, name in enumerate(names):
        path = os.path.join(real, name)  # noqa: PTH118 - of many
        if os.path.isabs(name) or ".." in name.split("/"):  # noqa: PTH117
            raise ConfigurationError(
                f"{table} row {row + 1}: the {what} {name[:100]!r} leads out of {root.name}.",
                remedy="Write paths relative to data.args.pictures (left out: the table's folder).",
            )
        if not os.path.realpath(path).startswith(f"{real}{os.sep}"):
            require_inside(root / name, root, code_root)
        if not os.path.isfile(path):  # noqa: PTH113 - of many
            missing.append(row)
    if missing:
        named = ", ".join(f"row {row + 1} {names[row]!r}" for row in missing[:MAX_NAMED])
        raise DataError(
            f"{table}: {len(missing)} of {len(names)} rows name a {what} that is not there: {named}"
            f"{' …' if len(missing) > MAX_NAMED else ''}.",
            remedy="Add the files, or take the rows out; data.args.pictures is the folder that paths are relative to.",
            details={"rows": [row + 1 for row in missing[:MAX_NAMED]], "count": len(missing)},
        )
