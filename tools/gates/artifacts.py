"""Artifacts, published with their decision or not at all, wherever a server is killed.

They are drafted in a separate folder before the decision is recorded, and moved into place after the record is
committed: by the deciding server, or by the next that reads the project. Drafts that no record names are removed.
"""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from sqlalchemy import func, select
from sqlalchemy.orm import Session

from trainwright.tools.gates.releases import BEGUN, folder_of
from trainwright.tools.ledger import entries
from trainwright.tools.workspace.query_cache import OPENED_BY, READ_ONLY
from trainwright.tools.workspace.tables import LedgerEntry
from trainwright.trainer.base.canonical import digest_file
from trainwright.trainer.base.errors import StorageError
from trainwright.trainer.base.paths import files_among

DRAFTS = ".drafts"
OF_ENTRY = "entry-"
"""Beginning of a folder of drafts, before the number of the ledger entry that names them."""
REPLACED = "replaced"
WHOLE = ("final_model",)
"""Folders that belong to one decision: they are replaced, not added to."""
NAMING = ("gate", "diagnosis", "ablation", "hand_over")
"""Kinds of ledger entries that name artifacts."""


def new_drafts(session: Session, folder: Path) -> Path:
    """Make a folder for the drafts of the decision that is recorded next; they carry their names in the project folder.

    It is named after the ledger entry that will name them: drafts that a killed server left, complete or not, may have
    the very content of an earlier release. Only within a session, whose holder writes no entry before the decision's.
    Raises StorageError.
    """
    path = folder / DRAFTS / f"{OF_ENTRY}{1 + (session.scalar(select(func.max(LedgerEntry.sequence))) or 0):08d}"
    try:
        shutil.rmtree(path, ignore_errors=True)  # of a decision that was never recorded: its number is free
        path.mkdir(parents=True)
    except OSError as error:
        raise StorageError(
            f"The artifacts could not be drafted: {error.strerror}.",
            remedy="Free disk space or make the workspace writable; `trainwright doctor` checks both.",
        ) from error
    return path


def digests_of(drafts: Path) -> dict[str, str]:
    """Return the digest of every file below the folder, by its relative name."""
    files = sorted(files_among(drafts.rglob("*")))
    return {str(path.relative_to(drafts)): digest_file(path) for path in files}


def publish(session: Session, project: str, folder: Path) -> None:
    """Move the drafts of the newest committed record into place, and remove all others.

    Within a session that has recorded no decision itself: its record could still be rolled back.
    Raises StorageError.
    """
    workspace = session.info.get(OPENED_BY)
    if not (folder / DRAFTS).is_dir() or (workspace is not None and workspace.is_archived):
        return
    if session.info.get(READ_ONLY):  # without the lock, these may be the drafts of a decision under way
        return
    bodies = sorted((entry for kind in NAMING for entry in entries(session, project, kind)), key=lambda entry: entry[0])
    newest = {name: digest for _, body in bodies for name, digest in _named(body).items()}
    recorded = {  # without those that a later entry names again: an older decision's are never put back
        f"{OF_ENTRY}{sequence:08d}": dict(_named(body).items() & newest.items()) for sequence, body in bodies
    }
    earlier = len(entries(session, project, BEGUN))
    try:
        _settle(folder, recorded, folder_of(folder, earlier) if earlier else None)
    except OSError as error:
        raise StorageError(
            f"Recorded artifacts of {project} could not be moved into place: {error.strerror}.",
            remedy="Make the project's folder writable; any call on the project then finishes it.",
        ) from error


def _named(body: dict[str, Any]) -> dict[str, str]:
    """Return the artifacts of an entry; one that began or stopped a study names none."""
    return dict(body.get("artifacts") or {})


def _settle(folder: Path, recorded: Mapping[str, Mapping[str, str]], kept: Path | None) -> None:
    drafted = folder / DRAFTS
    shutil.rmtree(drafted / REPLACED, ignore_errors=True)
    for drafts in sorted(drafted.iterdir()):
        found = digests_of(drafts)
        if found and found.items() <= recorded.get(drafts.name, {}).items():
            if kept is not None and any((drafts / name).is_dir() for name in WHOLE):
                _keep(folder, kept)
            _move(drafts, folder, drafted / REPLACED)
        shutil.rmtree(drafts)
    shutil.rmtree(drafted)


def _keep(folder: Path, kept: Path) -> None:
    """Move the previous release to its archive, its final model last: by that a crash is detected."""
    if not (folder / WHOLE[0]).is_dir() or (kept / WHOLE[0]).exists():
        return
    kept.mkdir(parents=True, exist_ok=True)
    for name in WHOLE:
        if (folder / name).exists():
            (folder / name).rename(kept / name)


def _move(drafts: Path, folder: Path, replaced: Path) -> None:
    """Move every draft to its place; a crash in between leaves the others where they are found again."""
    for name in WHOLE:
        if (drafts / name).is_dir():
            if (folder / name).exists():
                (folder / name).rename(replaced)
            (drafts / name).rename(folder / name)
            shutil.rmtree(replaced, ignore_errors=True)
    for name in digests_of(drafts):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (drafts / name).replace(folder / name)
