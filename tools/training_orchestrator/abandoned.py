"""Remains of a server that was killed while it started or resumed a run."""

from __future__ import annotations

import logging
import shutil
from pathlib import Path

from sqlalchemy import select
from sqlalchemy.orm import Session

from trainwright.tools.launchers import read_launch, write_launch
from trainwright.tools.workspace import Workspace
from trainwright.tools.workspace.tables import LedgerEntry, Run
from trainwright.trainer.base.errors import TrainwrightError
from trainwright.trainer.run import RunDirectory

WRITTEN = ("run.json", "status.json", "launch.json")
"""Files that a launcher writes, beside two empty folders. A folder with anything else in it is never removed here."""
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
    """Return whether a run folder holds no more than its launcher wrote: no worker, nor anyone else, wrote to it."""
    found = [path.relative_to(folder).as_posix() for path in folder.rglob("*")]
    unfinished = tuple(f".{name}." for name in WRITTEN)  # the files that `write_atomically` renames
    return all(name in FOLDERS or name in WRITTEN or name.startswith(unfinished) for name in found)


def _is_recorded(session: Session, run_id: str) -> bool:
    """Return whether the ledger speaks of the run; read as text, since an entry that was damaged must not stop us."""
    named = LedgerEntry.body.contains(run_id, autoescape=True)
    return session.scalar(select(LedgerEntry.sequence).where(named).limit(1)) is not None


def remove_abandoned(workspace: Workspace) -> list[str]:
    """Remove them as a server does when it starts; return their names. One that cannot be removed stays."""
    with workspace.session() as session:
        found = abandoned_folders(session, workspace)
        for folder in found:
            shutil.rmtree(folder, ignore_errors=True)
            log.warning("removed %s: a server ended while it ordered this run", folder)
    return [folder.name for folder in found]


def put_back(directory: RunDirectory, row: Run) -> bool:
    """Put the former launch of a run back where a resuming was never committed; return whether there was one.

    The resuming wrote its launch before it committed, which takes the seal away. So the session that the row was read
    in must hold the workspace's lock, or one that is under way is taken for one that failed.
    """
    launch = read_launch(directory.path)
    if not row.sealed or launch is None or launch.former is None or launch.error is not None:
        return False
    write_launch(directory.path, launch.former)
    return True


def put_back_all(workspace: Workspace) -> list[str]:
    """Undo resumings that were never committed, as a server does when it starts; return their runs.

    One that cannot be undone stays; the next resuming of the run undoes it.
    """
    found = []
    with workspace.session() as session:
        for row in session.scalars(select(Run).where(Run.sealed, Run.state != "completed")):
            try:
                if put_back(workspace.run_directory(row.project, row.id), row):
                    found.append(row.id)
            except TrainwrightError as error:
                log.warning("the launch of %s could not be put back: %s", row.id, error)
    return found


def was_cut_off(run: RunDirectory, attempt: int) -> bool:
    """Return whether a resuming was committed and its server ended before it wrote anything for the worker.

    Its attempt has not begun then, and nothing in its folder has been read by a worker.
    """
    launch = read_launch(run.path)
    try:
        return launch is not None and launch.former is not None and run.last_status().attempt < attempt
    except TrainwrightError:
        return False
