"""Folders from which versions are served: one for each version, never changed, and a link for each alias.

`final_model/` in the project's folder is replaced by the next release; whoever serves from it would serve a model that
nobody promoted. The files here are copies, so that an edit here spoils no release, and are compared with the release's
digests whenever somebody asks for them.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Mapping
from pathlib import Path

from trainwright.tools.gates.artifacts import WHOLE
from trainwright.trainer.base.canonical import digest_file
from trainwright.trainer.base.errors import IntegrityError, NotFoundError, StorageError
from trainwright.trainer.base.paths import is_left_by_system

SERVED, COMPILED = "served", "__pycache__"


def served(folder: Path, released: Path | None, files: Mapping[str, str]) -> Path:
    """Return a version's folder, made of its release at first.

    Args:
        folder: where it is, or is made.
        released: its `final_model/`, in the project's folder or among its earlier releases; None: no longer there.
        files: digests of the release by name, as its decision recorded them.

    Raises:
        NotFoundError: it was not made, and the release's files are gone.
        IntegrityError: the files are not the released ones.
        StorageError: it cannot be written.
    """
    try:
        if not folder.is_dir():
            _make(folder, released, files)
    except OSError as error:
        raise StorageError(
            f"{folder} could not be written: {error.strerror}.",
            remedy="Free disk space or make the workspace writable; `trainwright doctor` checks both.",
        ) from error
    for compiled in compiled_in(folder):
        shutil.rmtree(compiled, ignore_errors=True)
    _require_released(folder, files)
    return folder


def _make(folder: Path, released: Path | None, files: Mapping[str, str]) -> None:
    if released is None:
        raise NotFoundError(
            f"The released files of {folder.parent.parent.name}@{folder.name} are not in the workspace.",
            remedy="Take them from a backup; `trainwright verify WORKSPACE` names what is missing.",
        )
    draft = folder.with_name(f".{folder.name}-{os.getpid()}")
    shutil.rmtree(draft, ignore_errors=True)
    shutil.copytree(released, draft / WHOLE[0])
    _require_released(draft, files)
    draft.rename(folder)


def differing(folder: Path, files: Mapping[str, str]) -> list[str]:
    """Return the names of the files below a version's folder that are not as released: changed, added or gone.

    A link is added, wherever it leads. Bytecode that an import has left is passed over (`served` removes it).
    """
    released = {name: digest for name, digest in files.items() if name.startswith(f"{WHOLE[0]}/")}
    there: dict[str, str] = {}
    for path in (folder / WHOLE[0]).rglob("*"):
        name = path.relative_to(folder).as_posix()
        if path.is_symlink() or not (path.is_file() or path.is_dir()):
            there[name] = "no plain file"
        elif path.is_file() and COMPILED not in path.parts and not is_left_by_system(path):
            there[name] = digest_file(path)
    return sorted(name for name in released.keys() | there.keys() if released.get(name) != there.get(name))


def compiled_in(folder: Path) -> list[Path]:
    """Return the folders of bytecode that an import of predict.py has left: it is executed, and nobody released it."""
    return [path for path in folder.rglob(COMPILED) if path.is_dir() and not path.is_symlink()]


def _require_released(folder: Path, files: Mapping[str, str]) -> None:
    if changed := differing(folder, files):
        raise IntegrityError(
            f"{changed[0]} below {folder} is not as it was released ({len(changed)} files differ).",
            remedy="Move that folder aside, and it is made anew of the release; `trainwright verify` names the others.",
        )


def lead(folder: Path, alias: str) -> Path:
    """Return the link of an alias, which leads to a version's folder from now on: it is replaced as a whole.

    Raises StorageError: what stands there is no link, or cannot be replaced.
    """
    link, draft = folder.with_name(alias), folder.with_name(f".{alias}-{os.getpid()}")
    if leads_to(link) == folder.name:
        return link
    try:
        draft.unlink(missing_ok=True)
        draft.symlink_to(folder.name)
        draft.replace(link)
    except OSError as error:
        draft.unlink(missing_ok=True)
        raise StorageError(
            f"{link} could not be led to {folder.name}: {error.strerror}.",
            remedy=f"Move {link} aside; the next call on {alias} makes the link.",
        ) from error
    return link


def leads_to(link: Path) -> str | None:
    """Return the name of the folder that an alias's link leads to; None where there is no link."""
    return str(link.readlink()) if link.is_symlink() else None
