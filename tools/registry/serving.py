"""Folders from which versions are served: one for each version, never changed, and a link for each alias.

`final_model/` in the project's folder is replaced by the next release; whoever serves from it would serve a model that
nobody promoted. The files here are the released ones (hard links where the file system has them).
"""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import TYPE_CHECKING

from trainwright.tools.gates.artifacts import OF_A_RELEASE, WHOLE

if TYPE_CHECKING:
    from trainwright.tools.workspace import Workspace

SERVED = "served"


def served(workspace: Workspace, project: str, number: int, released: Path) -> Path:
    """Return the folder of a version, made of its release at first.

    Args:
        released: its `final_model/`, in the project's folder or among its earlier releases.
    """
    folder = workspace.project_folder(project) / SERVED / f"v{number}"
    if not folder.is_dir():
        draft = folder.with_name(f".v{number}-{os.getpid()}")
        shutil.rmtree(draft, ignore_errors=True)
        shutil.copytree(released, draft / WHOLE[0], copy_function=_linked)
        for name in OF_A_RELEASE:
            if (released.parent / name).is_file():
                _linked(released.parent / name, draft / name)
        draft.rename(folder)
    return folder


def lead(folder: Path, alias: str) -> Path:
    """Return the link of an alias, which leads to a version's folder from now on: it is replaced as a whole."""
    link, draft = folder.with_name(alias), folder.with_name(f".{alias}-{os.getpid()}")
    draft.unlink(missing_ok=True)
    draft.symlink_to(folder.name)
    draft.replace(link)
    return link


def _linked(source: str | Path, target: str | Path) -> None:
    try:
        os.link(source, target)
    except OSError:  # another file system, or one without links
        shutil.copy2(source, target)
