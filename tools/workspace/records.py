"""Looking rows up by name, with errors that list what exists."""

from __future__ import annotations

from sqlalchemy import select
from sqlalchemy.orm import Session

from trainwright.tools.workspace.tables import ConfigVersion, Project, Run, Study
from trainwright.trainer.base.errors import ConflictError, NotFoundError, near

ACTIVE = frozenset({"running", "confirming"})
"""States of a study that is under way."""


def get_project(session: Session, name: str) -> Project:
    """Return the project. Raises NotFoundError with the nearest names."""
    project = session.get(Project, name)
    if project is None:
        names = list(session.scalars(select(Project.name).order_by(Project.name)))
        raise _not_found("project", name, names, "create_project(name=…) makes one.")
    return project


def get_run(session: Session, run_id: str) -> Run:
    """Return the run's row. Raises NotFoundError with the nearest ids."""
    run = session.get(Run, run_id)
    if run is None:
        ids = list(session.scalars(select(Run.id).order_by(Run.created_at)))
        raise _not_found("run", run_id, ids, "project_status(project=…) lists the runs.")
    return run


def get_run_of(session: Session, project: str, run_id: str) -> Run:
    """Return a run of the named project. Raises NotFoundError, and ConflictError for a run of another project."""
    get_project(session, project)
    run = get_run(session, run_id)
    if run.project != project:
        raise ConflictError(
            f"Run {run_id} belongs to project {run.project!r}, not to {project!r}.",
            remedy=f"project_status(project={project!r}) lists the runs of {project!r}; leave those of others alone.",
        )
    return run


def get_study(session: Session, study_id: str) -> Study:
    """Return the study's row. Raises NotFoundError with the nearest ids."""
    study = session.get(Study, study_id)
    if study is None:
        ids = list(session.scalars(select(Study.id).order_by(Study.created_at)))
        raise _not_found("study", study_id, ids, "start_tuning(project=…) starts one.")
    return study


def require_active(session: Session, study_id: str) -> Study:
    """Return a study that is under way. Raises NotFoundError, and ConflictError when it was stopped or has ended.

    A conductor asks before each write and each start, in the same transaction: a stop comes before it or after it.
    """
    study = get_study(session, study_id)
    if study.state not in ACTIVE:
        raise ConflictError(
            f"Study {study_id} is {study.state}; nothing more is started for it.",
            remedy=f"start_tuning(project={study.project!r}) with the same search goes on with a stopped study.",
        )
    return study


def latest_config(session: Session, project: str, *, up_to: int | None = None) -> ConfigVersion:
    """Return the configuration version that holds, or held at a number. Every project has one from its creation on."""
    query = select(ConfigVersion).where(ConfigVersion.project == project).order_by(ConfigVersion.number.desc())
    if up_to is not None:
        query = query.where(ConfigVersion.number <= up_to)
    version = session.scalars(query.limit(1)).first()
    if version is None:
        raise NotFoundError(f"Project {project} has no configuration.", remedy=f"configure(project='{project}', …)")
    return version


def runs_of(session: Session, project: str, *kinds: str) -> list[Run]:
    """Return the project's runs in order of creation, of the given kinds if any are named."""
    query = select(Run).where(Run.project == project).order_by(Run.created_at, Run.id)
    return list(session.scalars(query.where(Run.kind.in_(kinds)) if kinds else query))


def _not_found(what: str, name: str, known: list[str], remedy: str) -> NotFoundError:
    alike = near(name, known, most=3)
    listed = alike or known[-5:]
    hint = f"Nearest: {', '.join(listed)}. " if listed else ""
    details = {"instead": {name: alike[0]}} if alike else {}
    return NotFoundError(f"There is no {what} {name[:80]!r}.", remedy=f"{hint}{remedy}", details=details)
