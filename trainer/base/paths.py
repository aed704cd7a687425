"""Paths of the user's files, whose a file is, and files that operating systems leave."""

from __future__ import annotations

import hashlib
import os
import re
import site
import sysconfig
from collections import Counter
from collections.abc import Iterable, Iterator
from difflib import SequenceMatcher
from functools import cache
from pathlib import Path

import trainwright
from trainwright import trainer
from trainwright.trainer.base import download_log
from trainwright.trainer.base.errors import ConfigurationError, near, near_matches
from trainwright.trainer.base.overlay import overlay_folder

NAMES = frozenset({".ds_store", "thumbs.db", "ehthumbs.db", "desktop.ini", ".localized", ".directory"})
APPLE_DOUBLE = "._"
"""Prefix of the files in which macOS keeps metadata on volumes that cannot store it."""


def is_left_by_system(path: Path) -> bool:
    """Return whether a file is one that an operating system wrote by itself, by its name."""
    return path.name.lower() in NAMES or path.name.startswith(APPLE_DOUBLE)


def files_among(paths: Iterable[Path]) -> Iterator[Path]:
    """Yield the files among the paths, without those that an operating system left."""
    return (path for path in paths if not is_left_by_system(path) and path.is_file())


def files_in(folder: Path) -> list[str]:
    """Return the names of all files below a folder, relative to it and sorted, those behind links too.

    Left out are hidden files, and those that operating systems leave.
    """
    found = [(here / name).relative_to(folder) for here, _, names in folders_below(folder) for name in names]
    return sorted(one.as_posix() for one in found if one.name[0] != "." and [*files_among([folder / one])])


def folders_below(folder: Path) -> Iterator[tuple[Path, list[str], list[str]]]:
    """Yield what `os.walk` yields of a folder, linked folders included, but for links to a folder that they are in."""
    for here, folders, names in os.walk(folder, followlinks=True):
        real = os.path.realpath(here)
        folders[:] = [one for one in folders if not _leads_up(os.path.join(here, one), real)]  # noqa: PTH118 - of many
        yield Path(here), folders, names


def _leads_up(path: str, real: str) -> bool:
    return os.path.islink(path) and f"{real}{os.sep}".startswith(f"{os.path.realpath(path)}{os.sep}")  # noqa: PTH114


MAX_NAMED = 8
SURELY = 0.8
"""Share of equal characters from which another file's name is the same one, misspelt."""
SKIPPED = frozenset({".git", ".venv", "venv", "node_modules", "__pycache__", ".trainwright"})
"""Folders of tools rather than of the user's files."""


def confine(path: str, code_root: Path, *, key: str) -> Path:
    """Return the existing file `path` (relative to the code root), resolved.

    Raises:
        ConfigurationError: it does not exist, or is outside the code root; names the key, the path tried and near
            matches.
    """
    tried, resolved = code_root / path, _resolved(path, code_root, key)
    if resolved.is_dir():
        raise _folder(path, resolved, key)
    if not resolved.is_file():
        suffix = Path(path).suffix
        names = [name for name in files_under(code_root) if name.endswith(suffix)]
        raise ConfigurationError(
            f"`{key}` = {path!r}: no file at {tried}.{near_matches(path, names)}",
            remedy=f"Paths are relative to code_root; {_way_to(path, names)}.",
            details={"near": _meant(path, names), "absent": path},
        )
    return resolved


def _resolved(path: str, code_root: Path, key: str) -> Path:
    resolved = (code_root / path).resolve()
    if not _may_be_read(resolved, code_root):
        raise ConfigurationError(
            f"`{key}` = {path!r} leads to {resolved}, outside the code root {code_root}.",
            remedy="Move it under code_root, or ask the workspace's owner to allow another code root.",
        )
    return resolved


def _meant(path: str, names: list[str]) -> str | None:
    """Return the file that a wrong path surely means: of its name in another folder, or spelt nearly so."""
    found = next(iter(near(path, names)), None)
    if found is None or Path(found).name == Path(path).name:
        return found
    return found if SequenceMatcher(None, found, path).ratio() >= SURELY else None


def _way_to(path: str, names: list[str]) -> str:
    """Return what to correct; where one folder below has the very file, which."""
    there = [name for name in names if name.endswith(f"/{path}")]
    if len(there) != 1:
        return "correct the path or code_root"
    return f"set code_root {there[0].removesuffix(path).rstrip('/')!r}, or name {there[0]!r}"


def _folder(path: str, folder: Path, key: str) -> ConfigurationError:
    """Return the error for a folder where files are read, with the pattern of the most files in it."""
    endings = Counter(file.suffix for file in files_among(folder.iterdir()) if not file.name.startswith("."))
    most = min(endings, key=lambda ending: (-endings[ending], ending)) if endings else None
    pattern = f"{path.rstrip('/')}/*{most}" if most is not None else None
    here = f"{endings[most]} files match {pattern!r}" if most is not None else "it holds no file itself"
    return ConfigurationError(
        f"`{key}` = {path!r} is a folder, and files are read; {here}.",
        remedy="Name a file, a list of files, or a pattern (`**/` stands for any folders).",
        details={"near": pattern},
    )


PATTERN = re.compile(r"[*?\[]")


def matching(path: str, code_root: Path, *, key: str) -> list[str]:
    """Return the names that a path stands for: itself, or where there is no such file, what it matches as a pattern.

    As in a shell, hidden files and folders (a workspace, a copy that an editor keeps) match no pattern without a dot.

    Raises:
        ConfigurationError: it is a pattern that matches nothing.
    """
    if not PATTERN.search(path) or (code_root / path).exists():
        return [path]
    absolute = Path(path).is_absolute() or ".." in Path(path).parts
    found = [] if absolute else [one for one in sorted(code_root.glob(path)) if not is_left_by_system(one)]
    names = [one.relative_to(code_root) for one in found]
    if not _has_hidden(Path(path)):
        names = [one for one in names if not _has_hidden(one)]
    if not names:
        raise matches_nothing(path, code_root, key=key)
    return [one.as_posix() for one in names]


def _has_hidden(path: Path) -> bool:
    return any(step.startswith(".") for step in path.parts)


def matches_nothing(pattern: str, code_root: Path, *, key: str) -> ConfigurationError:
    """Return the error for a pattern without a match: it names what lies in the pattern's folder, or in the root."""
    steps = Path(pattern).parts
    fixed = steps[: next((place for place, step in enumerate(steps) if any(sign in step for sign in "*?[")), 0)]
    folder = code_root.joinpath(*fixed)
    if Path(pattern).is_absolute() or ".." in steps or not folder.is_dir():
        folder, fixed = code_root, ()
    names = sorted(f"{one.name}/" if one.is_dir() else one.name for one in folder.iterdir() if one.name[0] != ".")
    lying = f"{', '.join(names[:MAX_NAMED])}{' …' if len(names) > MAX_NAMED else ''}" if names else "nothing"
    return ConfigurationError(
        f"`{key}` = {pattern!r}: the pattern matches no file under {code_root}; "
        f"in {Path(*fixed).as_posix() if fixed else 'code_root'} there is: {lying}.",
        remedy="Patterns are relative to code_root, and `**/` stands for any folders; correct it, or name the files as "
        "a list.",
        details={"absent": pattern},
    )


def confine_folder(path: str, code_root: Path, *, key: str) -> Path:
    """Return the existing folder `path` (relative to the code root), resolved.

    Raises:
        ConfigurationError: there is none, or it is outside the code root.
    """
    tried, resolved = code_root / path, _resolved(path, code_root, key)
    if not resolved.is_dir():
        names = {parent.as_posix() for name in files_under(code_root) for parent in Path(name).parents}
        raise ConfigurationError(
            f"`{key}` = {path!r}: no folder at {tried}.{near_matches(path, names)}",
            remedy="Paths are relative to code_root; correct the path or code_root.",
            details={"near": next(iter(near(path, names)), None), "absent": path},
        )
    return resolved


_LINKED: list[Path] = []
_SNAPSHOT_OF: list[Path] = []


def allow_links(folders: Iterable[str], *, snapshot_of: str | None = None) -> None:
    """Let links among this process's data lead into these folders, which the workspace's owner allows.

    Args:
        snapshot_of: the code root whose code was copied into this process's, and whose data are linked there.
    """
    _LINKED[:] = [Path(folder).resolve() for folder in folders]
    _SNAPSHOT_OF[:] = [] if snapshot_of is None else [Path(snapshot_of).resolve()]


def leads_out(resolved: Path, code_root: Path) -> bool:
    """Return whether the file or folder behind a link may not be read for data."""
    return not (_may_be_read(resolved, code_root) or any(resolved.is_relative_to(one) for one in _LINKED))


def _may_be_read(resolved: Path, code_root: Path) -> bool:
    """Whether a path is under the code root, or this process fetched it for the data of its configuration."""
    own = (code_root.resolve(), *_SNAPSHOT_OF)
    return any(resolved.is_relative_to(one) for one in own) or download_log.name_of(resolved) is not None


def files_under(code_root: Path, limit: int = 2000) -> list[str]:
    """Return relative paths of files under the root, hidden and installed folders left out."""
    found: list[str] = []
    for folder, folders, names in _walk(code_root):
        folders[:] = sorted(name for name in folders if name not in SKIPPED and not name.startswith("."))
        found += [(folder / name).relative_to(code_root).as_posix() for name in sorted(names)]
        if len(found) > limit:
            break
    return found[:limit]


def _walk(root: Path) -> Iterable[tuple[Path, list[str], list[str]]]:
    for folder, folders, names in os.walk(root):
        yield Path(folder), folders, names


ENGINE = Path(trainer.__file__).resolve().parent
PACKAGE = Path(trainwright.__file__).parent
LIBRARIES = frozenset({"site-packages", "dist-packages"})
"""Folders of installed packages by their names: a cluster's modules put theirs on PYTHONPATH."""
WRITTEN_BY_TORCH = {
    "_remote_module_non_scriptable.py": "8205b16956fb264841ecd8644784a0d157f87df79b17c16825dc1163433ce5d8"
}
"""Modules that an older torch writes into a new folder at each start, with the SHA-256 of their only content."""


def own_name(path: str, code_root: Path) -> str | None:
    """Return a file's path relative to the root; None for files elsewhere, installed ones and the engine's."""
    root, _, libraries = _bounds(code_root)
    if path.startswith(libraries):  # asked for every library that is imported
        return None
    resolved = os.path.realpath(path)
    if resolved.startswith(libraries):
        return None
    for place in map(Path, (resolved, os.path.abspath(path))):  # noqa: PTH100 - a link under the root is user code too
        if place.is_relative_to(root):
            return place.relative_to(root).as_posix()
    return None


def users_name(path: str, code_root: Path) -> str | None:
    """Return the name under which a file that is imported is recorded; None for a library's or the engine's.

    That is `own_name`, or for code outside the root that is not installed, its absolute path: an editable
    install, a folder on PYTHONPATH, a model's code that the hub keeps in its cache.
    """
    _, installed, _ = _bounds(code_root)
    if (own := own_name(path, code_root)) is not None or path.startswith(installed):
        return own
    resolved = os.path.realpath(path)
    if resolved.startswith(installed) or not LIBRARIES.isdisjoint(Path(path).parts):
        return None
    by_torch = WRITTEN_BY_TORCH.get(os.path.basename(path))  # noqa: PTH119 - asked of each import
    is_torchs = by_torch is not None and hashlib.sha256(Path(resolved).read_bytes()).hexdigest() == by_torch
    return None if is_torchs else resolved


@cache
def _bounds(code_root: Path) -> tuple[Path, tuple[str, ...], tuple[str, ...]]:
    """Return the root itself, the folders of libraries and of the engine, and those but for one that the root is in."""
    root = code_root.resolve()
    kinds = ("stdlib", "platstdlib", "purelib", "platlib")
    given = [*(sysconfig.get_path(kind) for kind in kinds), *site.getsitepackages(), site.getusersitepackages()]
    beside = [overlay] if (overlay := overlay_folder()) else []
    folders = {*map(Path, given), *(Path(folder).resolve() for folder in given), ENGINE, PACKAGE, *beside}
    installed = tuple(f"{folder}{os.sep}" for folder in sorted(folders))
    return root, installed, tuple(folder for folder in installed if not root.is_relative_to(folder))


def workspace_of(run: Path) -> Path | None:
    """Return the workspace that a run's folder lies in, `projects/<name>/runs/<id>` below it; None where in none."""
    is_in_one = run.parent.name == "runs" and len(run.parents) > 3 and run.parents[2].name == "projects"
    return run.parents[3] if is_in_one else None
