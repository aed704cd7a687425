"""Folders as they are on disk: which files are pictures, where links lead, and what is passed over."""

from __future__ import annotations

import os
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from trainwright.trainer.base.errors import ConfigurationError, DataError
from trainwright.trainer.base.paths import folders_below, is_left_by_system, leads_out

SUFFIXES = (
    ".png", ".apng", ".jpg", ".jpeg", ".jpe", ".jfif", ".bmp", ".dib", ".gif", ".tif", ".tiff", ".webp", ".avif",
    ".jp2", ".pbm", ".pgm", ".ppm", ".pnm", ".tga",
)  # fmt: skip
OTHERS = (".heic", ".heif", ".jxl", ".dng", ".cr2", ".nef", ".arw", ".psd", ".svg", ".dcm", ".exr")
"""Endings of pictures that are not read: such a file is unreadable, not passed over."""
BEGINS = (b"\x89PNG\r\n", b"\xff\xd8\xff", b"GIF8", b"BM", b"II*\x00", b"MM\x00*", b"RIFF")
"""Of pictures under any other ending, or none."""
LEFT_BY_SYSTEM = "__MACOSX"
MAX_PICTURES = 20_000_000
MAX_NAMED = 20
MAX_SHOWN = 5


@dataclass
class Folders:
    """Reads the folders of pictures, and keeps what it passes over.

    Args:
        root: above all of them.
        code_root: which links may not leave, but into the folders that the owner allows.
    """

    root: Path
    code_root: Path
    passed: set[str] = field(default_factory=set)
    """Files that are no pictures, relative to the root."""
    links: set[Path] = field(default_factory=set)

    def inside(self, folder: Path) -> list[Path]:
        """Return the folders in a folder, by name. Raises ConfigurationError for a link that leads out."""
        with os.scandir(folder) as entries:
            found = [one for one in entries if one.is_dir() and one.name[0] != "." and one.name != LEFT_BY_SYSTEM]
        for one in found:
            self._follow(Path(one), is_link=one.is_symlink())
        return sorted(map(Path, found))

    def pictures(self, folder: Path) -> list[str]:
        """Return the names of the pictures in one folder. Raises ConfigurationError for a link that leads out."""
        found = []
        with os.scandir(folder) as entries:
            for entry in entries:
                if entry.name[0] == "." or is_left_by_system(Path(entry.name)) or entry.is_dir():
                    continue
                if not _is_picture(entry):
                    self.passed.add(os.path.relpath(entry.path, self.root))
                    continue
                self._follow(Path(entry), is_link=entry.is_symlink())
                found.append(entry.name)
        if len(found) > MAX_PICTURES:
            raise DataError(f"{folder.name} has more than {MAX_PICTURES:,} files.", remedy="Use fewer of them.")
        return sorted(found)

    def below(self, folder: Path) -> list[str]:
        """Return the names of the pictures below a folder, at any depth. Raises as `pictures`."""
        found = []
        for here, folders, _ in folders_below(folder):
            folders[:] = sorted(name for name in folders if name[0] != "." and name != LEFT_BY_SYSTEM)
            for name in folders:
                self._follow(here / name, is_link=(here / name).is_symlink())
            inside = here.relative_to(folder)
            found += [(inside / name).as_posix() for name in self.pictures(here)]
        return sorted(found)

    def understood(self) -> dict[str, Any]:
        """Return what was passed over, and how many links were followed."""
        found: dict[str, Any] = {"links_followed": len(self.links)} if self.links else {}
        if self.passed:
            endings = Counter(Path(name).suffix.lower() or "no ending" for name in self.passed)
            found["no_pictures"] = dict(endings.most_common(MAX_SHOWN))
            found["no_pictures_first"] = sorted(self.passed)[:MAX_SHOWN]
        return found

    def _follow(self, place: Path, *, is_link: bool) -> None:
        if is_link:
            self.links.add(place)
            require_inside(place, self.root, self.code_root)


def require_inside(place: Path, root: Path, code_root: Path) -> None:
    """Refuse a link that leads where data may not be read. Raises ConfigurationError."""
    real = place.resolve()
    if leads_out(real, code_root) and not real.is_relative_to(root.resolve()):
        raise ConfigurationError(
            f"{place.relative_to(root).as_posix()} is a link to {real}: outside the code root {code_root}, and outside "
            "the folders that the workspace's owner allows.",
            remedy="Copy the files to the link's place, or have the owner add their folder to code_roots in "
            "settings.yaml.",
        )


def _is_picture(entry: os.DirEntry[str]) -> bool:
    """Return whether a file is meant as a picture: by its ending, else by how it begins."""
    if entry.name.lower().endswith((*SUFFIXES, *OTHERS)):
        return True
    try:
        with Path(entry).open("rb") as file:
            return file.read(8).startswith(BEGINS)
    except OSError:
        return False


def listed(names: list[str]) -> str:
    """Return the first names in a row."""
    return ", ".join(names[:MAX_NAMED]) + (" …" if len(names) > MAX_NAMED else "")
