"""Pictures by name, before any is opened: of a folder of class folders, or of one beside a folder of masks."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from trainwright.trainer.base.errors import ConfigurationError, DataError
from trainwright.trainer.base.paths import is_left_by_system
from trainwright.trainer.data.sections import BY_NAMES
from trainwright.trainer.data.split_methods.given import split_named

SUFFIXES = (".png", ".jpg", ".jpeg", ".bmp", ".gif", ".tif", ".tiff", ".webp")
MOST_PICTURES = 20_000_000
MOST_NAMED = 20


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


def of_class_folders(folder: Path) -> Listing:
    """Return the pictures of a folder that has one folder for each class, by class, then by name.

    Raises:
        DataError: fewer than two classes, or a class folder without a picture.
        ConfigurationError: a link that leads out of the folder.
    """
    folders = {entry.name: sorted(_pictures(Path(entry), folder)) for entry in _folders(folder)}
    classes = sorted(name for name, names in folders.items() if names)
    empty = sorted(folders.keys() - set(classes))
    if not folders and any(_pictures(folder, folder)):
        raise _one_class(folder)
    if len(classes) < 2 or empty:
        with_no = f"; {_listed(empty)} {'has' if len(empty) == 1 else 'have'} none" if empty else ""
        raise DataError(
            f"{folder.name} has {len(classes)} folder(s) with images ({', '.join(SUFFIXES)}){with_no}; one for each "
            "class is needed, at least two.",
            remedy="Put the images of each class into a folder of its own, delete empty ones, and point data.args.path "
            "above them; or give a table: data.args {path: labels.csv, picture: file, target: label}.",
            details={"classes": classes[:MOST_NAMED], "empty": empty[:MOST_NAMED]},
        )
    names = [(label, name) for label in classes for name in folders[label]]
    return Listing(folder, [f"{label}/{name}" for label, name in names], [label for label, _ in names], classes=classes)


def _one_class(folder: Path) -> OneClassError:
    """Return the error for a folder that holds pictures and no folders: it is one class, and its parent has all."""
    others = [one.name for one in _folders(folder.parent) if one.name != folder.name]
    beside = f"; beside it: {_listed(others[:3])}" if others else ""
    return OneClassError(
        f"{folder.name} holds images and has 0 folders: it is one class{beside}.",
        remedy=f"Point data.args.path at its parent, {folder.parent.name!r}, with one folder for each class; or give a "
        "table: data.args {path: labels.csv, picture: file, target: label}.",
    )


def divided(folder: Path) -> bool:
    """Whether a folder's folders are splits rather than classes: one is train, and all are named as splits are."""
    found = [split_named(entry.name) for entry in _folders(folder)]
    return len(found) > 1 and "train" in found and None not in found


def of_split_folders(folder: Path) -> Listing:
    """Return the pictures of a folder with a folder for each split, and in it one for each class.

    Raises:
        DataError, ConfigurationError: as `of_class_folders`.
    """
    parts = [(entry.name, of_class_folders(Path(entry))) for entry in _folders(folder)]
    return Listing(
        folder,
        [f"{split}/{name}" for split, part in parts for name in part.names],
        [label for _, part in parts for label in part.labels],
        columns={BY_NAMES: [split_named(split) for split, part in parts for _ in part.names]},
        classes=sorted({label for _, part in parts for label in part.classes or []}),
    )


def of_masked_folder(folder: Path, masks: Path) -> Listing:
    """Return the pictures below a folder, each with the mask of its name (whatever the ending) below another.

    Raises:
        DataError: no pictures, or some without a mask.
    """
    names = sorted(name for name in _below(folder) if not (folder / name).is_relative_to(masks))
    by_stem = {Path(name).with_suffix("").as_posix(): name for name in sorted(_below(masks))}
    found = [by_stem.get(Path(name).with_suffix("").as_posix()) for name in names]
    if without := [name for name, mask in zip(names, found, strict=True) if mask is None]:
        raise DataError(
            f"{len(without)} of {len(names)} images have no mask in {masks.name}: {_listed(without)}.",
            remedy="A mask has its picture's name, with any ending: photos/a/1.jpg, masks/a/1.png. Add them, or take "
            "the pictures out.",
            details={"files": without[:MOST_NAMED]},
        )
    if not names:
        raise DataError(f"{folder.name} has no images ({', '.join(SUFFIXES)}).", remedy="Correct data.args.path.")
    return Listing(folder, names, masks=[name for name in found if name is not None], masks_root=masks)


def require_files(root: Path, names: list[str], table: str, what: str = "picture") -> None:
    """Check that the files which a table names are there, under the root.

    Raises:
        ConfigurationError: a path that leads out of the root.
        DataError: files that are not there.
    """
    real = os.path.realpath(root)
    missing: list[int] = []
    for row, name in enumerate(names):
        path = os.path.join(real, name)  # noqa: PTH118 - of many
        if os.path.isabs(name) or ".." in name.split("/") or not os.path.realpath(path).startswith(f"{real}{os.sep}"):  # noqa: PTH117
            raise ConfigurationError(
                f"{table} row {row + 1}: the {what} {name[:100]!r} leads out of {root.name}.",
                remedy="Write paths relative to data.args.pictures (left out: the table's folder).",
            )
        if not os.path.isfile(path):  # noqa: PTH113 - of many
            missing.append(row)
    if missing:
        named = ", ".join(f"row {row + 1} {names[row]!r}" for row in missing[:MOST_NAMED])
        raise DataError(
            f"{table}: {len(missing)} of {len(names)} rows name a {what} that is not there: {named}"
            f"{' …' if len(missing) > MOST_NAMED else ''}.",
            remedy="Add the files, or take the rows out; data.args.pictures is the folder that paths are relative to.",
            details={"rows": [row + 1 for row in missing[:MOST_NAMED]], "count": len(missing)},
        )


def _folders(folder: Path) -> Iterator[os.DirEntry[str]]:
    with os.scandir(folder) as entries:
        yield from sorted((each for each in entries if each.is_dir() and each.name[0] != "."), key=lambda one: one.name)


def _pictures(folder: Path, root: Path) -> Iterator[str]:
    """Yield the names of the pictures in one folder. Raises ConfigurationError for a link out of the root."""
    with os.scandir(folder) as entries:
        for number, entry in enumerate(entries):
            if number == MOST_PICTURES:
                raise DataError(f"{folder.name} has more than {MOST_PICTURES:,} files.", remedy="Use fewer of them.")
            if not entry.name.lower().endswith(SUFFIXES) or is_left_by_system(Path(entry.name)) or not entry.is_file():
                continue
            if (entry.is_symlink() or folder.is_symlink()) and not Path(entry).resolve().is_relative_to(root.resolve()):
                raise ConfigurationError(
                    f"{folder.name}/{entry.name} is a link that leads outside the code root, or its folder is.",
                    remedy="Copy the image there.",
                )
            yield entry.name


def _below(folder: Path) -> Iterator[str]:
    """Yield the names of the pictures below a folder, at any depth. Raises as `_pictures`."""
    for here, folders, _ in os.walk(folder):
        folders[:] = sorted(name for name in folders if not name.startswith("."))
        inside = Path(here).relative_to(folder)
        yield from ((inside / name).as_posix() for name in _pictures(Path(here), folder))


def _listed(names: list[str]) -> str:
    return ", ".join(names[:MOST_NAMED]) + (" …" if len(names) > MOST_NAMED else "")
