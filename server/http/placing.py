"""Files of a pushed folder, put into place and removed: through no link, whatever a run's code does there meanwhile."""

from __future__ import annotations

import errno
import os
import shutil
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager, suppress
from hashlib import sha256
from pathlib import Path, PurePath, PurePosixPath

from trainwright.server.http.releases import RefusalError

_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_ASIDE = ".pushed-now"
PART_BYTES = 2**20


def require_places(root: Path, wanted: Collection[str], gone: Collection[str]) -> None:
    """Look whether every file can take its place once those that are `gone` are removed. Raises RefusalError."""
    leaving = {*gone, *(str(above) for path in gone for above in PurePosixPath(path).parents)}
    for path in wanted:
        for above in reversed(PurePosixPath(path).parents[:-1]):
            place = root / above
            if place.is_symlink():
                raise RefusalError(409, f"{path[:80]!r} leads through a link.", "Ask the owner to remove it there.")
            if place.exists() and not place.is_dir() and str(above) not in leaving:
                raise _in_the_way(above, "a file", "a folder")
        place = root / path
        if place.is_dir() and not place.is_symlink():
            _require_leaving(root, place, leaving)
    for folder in {_nearest(root / path) for path in (*wanted, *gone)}:
        if folder.is_dir() and not os.access(folder, os.W_OK | os.X_OK):
            raise RefusalError(409, f"The server cannot write into {folder.name!r}.", "Ask the owner to let it.")


def _require_leaving(root: Path, folder: Path, leaving: Collection[str]) -> None:
    for one in (folder, *folder.rglob("*")):
        if str(one.relative_to(root)) not in leaving:
            raise _in_the_way(one.relative_to(root), "what a run has made", "a file")


def _in_the_way(path: PurePath, what: str, wanted: str) -> RefusalError:
    message = f"{str(path)[:80]!r} in the folder there is {what}, where {wanted} is to be."
    return RefusalError(409, message, "Give yours another name, or ask the owner to remove it there.")


def _nearest(place: Path) -> Path:
    """Return the lowest folder above a place that is there."""
    return next(above for above in place.parents if os.path.lexists(above))


@contextmanager
def folder(top: int | Path, parts: Sequence[str], *, make: bool = False) -> Iterator[int]:
    """Open a folder below one for a while, step by step. Raises OSError: a step is a link, or no folder."""
    here = os.dup(top) if isinstance(top, int) else os.open(top, _FOLDER)
    try:
        for part in parts:
            if make:
                with suppress(FileExistsError):
                    os.mkdir(part, dir_fd=here)
            below = os.open(part, _FOLDER, dir_fd=here)
            os.close(here)
            here = below
        yield here
    finally:
        os.close(here)


def remove(root: int, path: str) -> bool:
    """Remove a file, and the folders that this empties; return whether it was there. Raises OSError."""
    *above, name = path.split("/")
    try:
        with folder(root, above) as here:
            os.unlink(name, dir_fd=here)
    except (FileNotFoundError, NotADirectoryError, IsADirectoryError):  # gone, or a run's: a folder, behind a link
        return False
    with suppress(OSError):  # the first that is not empty
        while above:
            name = above.pop()
            with folder(root, above) as here:
                os.rmdir(name, dir_fd=here)
    return True


def put(source: Path, root: int, path: str) -> None:
    """Move a file to its place, whatever file or link is there, from another file system too. Raises OSError."""
    *above, name = path.split("/")
    with folder(root, above, make=True) as here:
        try:
            os.replace(source, name, dst_dir_fd=here)
        except OSError as error:
            if error.errno != errno.EXDEV:
                raise
            with suppress(FileNotFoundError):  # of a push that was killed
                os.unlink(_ASIDE, dir_fd=here)
            aside = os.open(_ASIDE, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o666, dir_fd=here)
            with source.open("rb") as file, os.fdopen(aside, "wb") as copy:
                shutil.copyfileobj(file, copy)
            os.replace(_ASIDE, name, src_dir_fd=here, dst_dir_fd=here)


def digest(path: Path | str, copy: Path | None = None, *, at: int | None = None) -> str:
    """Return the SHA-256 of a plain file that is no link, and copy it while it is read. Raises OSError.

    Args:
        at: an open folder, in which the path is a name.
    """
    found = sha256()
    opened = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, dir_fd=at)
    with os.fdopen(opened, "rb") as file, (copy or Path(os.devnull)).open("wb") as kept:
        while part := file.read(PART_BYTES):
            found.update(part)
            kept.write(part)
    return found.hexdigest()
