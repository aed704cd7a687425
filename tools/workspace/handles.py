"""Names of runs and studies that a model can hold: `digits/baseline-2` for the project's second baseline.

The long ids name folders and are in the ledger. Handles follow from them by counting, so nothing is stored: a run's
ordinal is its place among the project's runs of its kind, and rows are never removed from a living project.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Iterable
from typing import Any, NoReturn

from sqlalchemy import case, literal, select
from sqlalchemy.orm import Session

from trainwright.tools.workspace.tables import Project, Run, Study
from trainwright.trainer.base.errors import NotFoundError, near
from trainwright.trainer.run import RunKind

STUDY = "study"
LATEST = "latest"
CURE = RunKind.CURE.value
LONG_ID = re.compile(
    rf"(?<![\w/.-])(?:{'|'.join([*RunKind, STUDY])})-[a-z0-9][a-z0-9_-]*-\d{{8}}-\d{{6}}-[0-9a-f]{{6}}(?![\w/-]|\.\w)"
)
"""A long id as a word of its own; one within a path names a folder and is not replaced."""
STAMP = re.compile(r"-\d{8}-")
"""What every long id has in it: most texts have none, and are told so much sooner."""
MAX_NEAR = 3
ACTIVE_STATES = ("created", "starting", "running", "confirming")
"""States of a run or study that is under way."""

PLURALS = {Run: "runs", Study: "studies"}
Table = type[Run] | type[Study]


def run_named(
    session: Session, name: str | None, *, project: str | None = None, prefer: tuple[str, ...] = ACTIVE_STATES
) -> str:
    """Return the long id of the run with this name.

    Args:
        name: a long id, `digits/baseline-2`, `baseline-2` within a project, a kind or a project for its newest run, or
            "latest". None: the newest run that is in one of the states `prefer`, or else the newest of all; one of a
            study only where there is no other.
        project: where to look up a name without a project.

    Raises:
        NotFoundError: there is no such run; the remedy names near ones.
    """
    return _named(session, Run, name, project, prefer)


def study_named(session: Session, name: str | None, *, project: str | None = None) -> str:
    """Return the long id of the study with this name: as `run_named`, with the handle `digits/study-1`."""
    return _named(session, Study, name, project, ACTIVE_STATES)


def run_handles(session: Session) -> dict[str, str]:
    """Return the handle of every run with its long id, in order of creation."""
    return _counted(session, Run, None)


def study_handles(session: Session) -> dict[str, str]:
    """Return the handle of every study with its long id, in order of creation."""
    return _counted(session, Study, None)


def handles(session: Session, texts: Iterable[str]) -> dict[str, str]:
    """Return long id to handle for every run and study that the texts name."""
    return handles_of(session, long_ids(texts))


def long_ids(texts: Iterable[str]) -> frozenset[str]:
    """Return the long ids in the texts."""
    return frozenset(name for text in texts if STAMP.search(text) for name in LONG_ID.findall(text))


def handles_of(session: Session, found: Collection[str]) -> dict[str, str]:
    """Return long id to handle for every run and study of these long ids."""
    counted: dict[str, str] = {}
    for table in (Run, Study):
        for project in session.scalars(select(table.project).where(table.id.in_(found)).distinct()):
            counted |= {name: handle for handle, name in _counted(session, table, project).items()}
    return {name: counted[name] for name in sorted(found) if name in counted}


def with_handles(value: Any, known: dict[str, str]) -> Any:
    """Return the value with the long ids in its texts and keys replaced by their handles."""
    if isinstance(value, str):
        if STAMP.search(value) is None:
            return value
        return LONG_ID.sub(lambda match: known.get(match.group(), match.group()), value)
    if isinstance(value, list):
        return [with_handles(item, known) for item in value]
    if isinstance(value, dict):
        return {with_handles(key, known): with_handles(item, known) for key, item in value.items()}
    return value


def _named(session: Session, table: Table, name: str | None, project: str | None, prefer: tuple[str, ...]) -> str:
    if name is None:
        return _newest(session, table, project, prefer) or _refuse(session, table, None, project)
    if session.get(table, name) is not None:
        return name
    asked = name.strip().rstrip("/")
    named_project, _, rest = asked.rpartition("/")
    if not named_project and session.get(Project, asked) is not None:
        named_project, rest = asked, LATEST
    where = named_project or project
    if rest == LATEST:
        return _newest(session, table, where, ()) or _refuse(session, table, name, where)
    return _by_handle(session, table, where, rest) or _refuse(session, table, name, where)


def _newest(session: Session, table: Table, project: str | None, prefer: tuple[str, ...]) -> str | None:
    """Return the newest, those in a preferred state first, and those of studies last.

    A run that tries a fix is the newest only while it is in such a state.
    """
    parent = case((Run.kind == CURE, CURE), else_=Run.study) if table is Run else literal(None)
    query = select(table.id, table.state, parent).order_by(table.created_at.desc(), table.id.desc())
    rows = session.execute(query if project is None else query.where(table.project == project)).all()
    living = [name for name, state, parent in rows if state in prefer and parent in {None, CURE}]
    own = [name for name, _, parent in rows if parent is None] or [name for name, _, _ in rows]
    return next(iter([*living, *own]), None)


def _by_handle(session: Session, table: Table, project: str | None, rest: str) -> str | None:
    """Return the id behind `baseline-2`, or behind `baseline` the newest of its kind."""
    if project is None:
        return None
    counted = _counted(session, table, project)
    newest = [run for handle, run in counted.items() if handle.rpartition("-")[0] == f"{project}/{rest}"]
    return counted.get(f"{project}/{rest}", newest[-1] if newest else None)


def _counted(session: Session, table: Table, project: str | None) -> dict[str, str]:
    """Return handle to long id, in order of creation."""
    kind = Run.kind if table is Run else literal(STUDY)
    query = select(table.id, table.project, kind).order_by(table.created_at, table.id)
    counts: Counter[tuple[str, str]] = Counter()
    found: dict[str, str] = {}
    for name, owner, what in session.execute(query if project is None else query.where(table.project == project)):
        counts[owner, what] += 1
        found[f"{owner}/{what}-{counts[owner, what]}"] = name
    return found


def _refuse(session: Session, table: Table, name: str | None, project: str | None) -> NoReturn:
    """Raise NotFoundError with the handles that are near, or else the newest."""
    place = project if project is not None and session.get(Project, project) is not None else None
    known = _counted(session, table, place)
    alike = near(name or "", [*known, *known.values()], most=MAX_NEAR)
    listed = alike or list(known)[-MAX_NEAR:]
    called = f" {name[:80]!r}" if name is not None else f" in project {place}" if place else " yet"
    way = "start_tuning(project=…) starts one." if table is Study else "project_status(project=…) lists the runs."
    raise NotFoundError(
        f"There is no {'study' if table is Study else 'run'}{called}.",
        remedy=f"Nearest: {', '.join(listed)}. {way}" if listed else way,
        details={"instead": {name: alike[0]}} if name and alike else {},
    )
