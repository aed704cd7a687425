"""Deleting a project, which only the owner may allow. Its ledger entries stay, and so does its usage."""

from __future__ import annotations

import logging
import shutil
from contextlib import suppress
from pathlib import Path

from sqlalchemy import delete, select
from sqlalchemy.orm import Session

from trainwright.tools.answers import Answer
from trainwright.tools.gates.test_set_access import accesses_to_keep
from trainwright.tools.ledger import record
from trainwright.tools.ledger.events import ProjectDeleted
from trainwright.tools.ledger.jsonl_mirror import MARKER
from trainwright.tools.ledger.jsonl_mirror import NAME as LEDGER
from trainwright.tools.owner import Grant, granted, require_granted
from trainwright.tools.training_orchestrator import refresh_project
from trainwright.tools.verification.findings import DELETING, deleted_projects
from trainwright.tools.workspace import Workspace
from trainwright.tools.workspace.records import get_project, runs_of
from trainwright.tools.workspace.tables import (
    ConfigVersion,
    LedgerEntry,
    Project,
    RaisedAlert,
    RegisteredModel,
    Run,
    Study,
    Trial,
)
from trainwright.trainer.base.errors import ConfigurationError, ConflictError

ACTIVE = ("running", "confirming")
log = logging.getLogger("trainwright")


class DeletionAnswer(Answer):
    """A deleted project."""

    project: str
    deleted: bool = True
    runs: int
    """How many runs it had."""


def delete_project(workspace: Workspace, project: str, *, reason: str = "") -> DeletionAnswer:
    """Delete the project if the owner has granted it; otherwise ask.

    Raises:
        ApprovalNeededError: not granted (yet).
        ConflictError: a run or search of it is under way.
        NotFoundError: there is no such project.
    """
    with workspace.session() as session:
        get_project(session, project)
    grant = Grant(kind="deletion", name=project)
    again = f"configure(project={project!r}, ask_owner={{'delete_project': True}})"
    require_granted(workspace, project, [grant], again=again, reason=reason)
    refresh_project(workspace, project)
    with workspace.session() as session:
        get_project(session, project)
        request = next(each for each in granted(session, workspace, project) if each.grant == grant)
        runs = runs_of(session, project)
        _require_rest(session, project, runs)
        looks = accesses_to_keep(session, workspace, project)
        _remove_rows(session, project)
        gone = ProjectDeleted(request=request.id, runs=[run.id for run in runs], test_looks=looks)
        record(session, project, gone)
    _remove_files(workspace.project_folder(project))
    return DeletionAnswer(project=project, runs=len(runs))


def _require_rest(session: Session, project: str, runs: list[Run]) -> None:
    query = select(Study.id).where(Study.project == project, Study.state.in_(ACTIVE))
    busy = [run.id for run in runs if not run.sealed] + list(session.scalars(query))
    if busy:
        raise ConflictError(
            f"Project {project} has work under way: {', '.join(busy[:3])}.",
            remedy=f"stop_training(project={project!r}, run_id=…) stops a run; then ask again.",
        )


def _remove_rows(session: Session, project: str) -> None:
    studies = select(Study.id).where(Study.project == project)
    session.execute(delete(Trial).where(Trial.study.in_(studies)))
    for table in (RaisedAlert, RegisteredModel, Run, Study, ConfigVersion):
        session.execute(delete(table).where(table.project == project))
    session.execute(delete(Project).where(Project.name == project))


def finish_deletions(workspace: Workspace) -> list[str]:
    """Remove the remains of deleted projects after a server was killed; return the projects.

    A server does it when it starts. The rows went with the entry, so a project that has one was not deleted.
    """
    with workspace.session() as session:
        deletions = select(LedgerEntry).where(LedgerEntry.kind.in_(DELETING)).order_by(LedgerEntry.sequence)
        gone = deleted_projects(session.scalars(deletions)) - set(session.scalars(select(Project.name)))
    found = []
    for name in sorted(gone):
        with suppress(ConfigurationError):  # a name that was edited into the ledger
            found += [name] if _remove_files(workspace.project_folder(name)) else []
    if found:
        log.warning("removed what was left of deleted projects: %s", ", ".join(found))
    return found


def _remove_files(folder: Path) -> bool:
    """Remove all but the ledger, and return whether there was anything; never through a link.

    What cannot be removed is no evidence of anything any more.
    """
    if folder.is_symlink() or not folder.is_dir():
        return False
    kept = {LEDGER, MARKER}
    paths = [path for path in folder.iterdir() if path.name not in kept and not path.name.startswith(f".{LEDGER}")]
    for path in paths:
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path, ignore_errors=True)
        else:
            with suppress(OSError):
                path.unlink(missing_ok=True)
    return bool(paths)
