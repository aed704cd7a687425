"""Run folders of a server that was killed while it ordered a run: written, and then never committed."""

from __future__ import annotations

import logging
import shutil
from typing import TYPE_CHECKING

from sqlalchemy import select

from trainwright.tools.workspace.tables import LedgerEntry, Run

if TYPE_CHECKING:
    from pathlib import Path

    from sqlalchemy.orm import Session

    from trainwright.tools.workspace import Workspace

WRITTEN = ("run.json", "status.json", "launch.json")
"""Files that a launcher writes, beside two empty folders. One that holds anything else is never removed here."""
FOLDERS = {"checkpoints", "artifacts"}
log = logging.getLogger("trainwright")


def abandoned_folders(session: Session, workspace: Workspace) -> list[Path]:
    """Return the run folders that no row, no ledger entry and no worker knows of.

    A launcher writes the folder before it commits. So the session must hold the workspace's lock, or a start that is
    under way is taken for one that was abandoned.
    """
    rows = set(session.scalars(select(Run.id)))
    folders = sorted((workspace.path / "projects").glob("*/runs/*"))
    unknown = [folder for folder in folders if folder.name not in rows and folder.is_dir() and not folder.is_symlink()]
    return [folder for folder in unknown if is_untouched(folder) and not _is_recorded(session, folder.name)]


def is_untouched(folder: Path) -> bool:
    """Return whether a run folder holds no more than its launcher wrote: no worker has begun on it, nor anyone else."""
    found = [path.relative_to(folder).as_posix() for path in folder.rglob("*")]
    unfinished = tuple(f".{name}." for name in WRITTEN)  # what `write_atomically` renames
    return all(name in FOLDERS or name in WRITTEN or name.startswith(unfinished) for name in found)


def _is_recorded(session: Session, run_id: str) -> bool:
    """Return whether the ledger speaks of the run; read as text, since an entry that was damaged must not stop us."""
    named = LedgerEntry.body.contains(run_id, autoescape=True)
    return session.scalar(select(LedgerEntry.sequence).where(named).limit(1)) is not None


def remove_abandoned(workspace: Workspace) -> list[str]:
    """Remove them, and return their names: what a server does when it starts. One that cannot be removed stays."""
    with workspace.session() as session:
        found = abandoned_folders(session, workspace)
        for folder in found:
            shutil.rmtree(folder, ignore_errors=True)
            log.warning("removed %s: a server ended while it ordered this run", folder)
    return [folder.name for folder in found]
