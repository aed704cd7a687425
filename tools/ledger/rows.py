"""Rows as a projection of the ledger: written with each entry, and derived again to compare or rebuild them."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable
from datetime import datetime
from functools import cache, partial
from typing import Any, TypeVar, cast

from sqlalchemy import select
from sqlalchemy.orm import Session

from trainwright.tools.ledger import events
from trainwright.tools.ledger.chain import append
from trainwright.tools.ledger.events import Event, in_utc
from trainwright.tools.workspace.tables import (
    Base,
    ConfigVersion,
    LedgerEntry,
    Project,
    RegisteredModel,
    Run,
    Study,
    Trial,
)

T = TypeVar("T", bound="Base")
KEYS: dict[type[Base], tuple[str, ...]] = {
    Project: ("name",), ConfigVersion: ("project", "number"), Study: ("id",), Run: ("id",), Trial: ("study", "number"),
    RegisteredModel: ("project", "version"),
}  # fmt: skip
"""The tables that follow from the ledger, in an order in which they can be filled, and their key columns."""
TITLES: dict[type[Base], str] = {
    Project: "project {}", ConfigVersion: "project {}: configuration version {}", Study: "study {}", Run: "run {}",
    Trial: "study {}: trial {}", RegisteredModel: "project {}: registered model {}",
}  # fmt: skip
ONLY_HERE: dict[type[Base], set[str]] = {
    ConfigVersion: {"id"}, Run: {"summary"}, Trial: {"id", "attributes"}, RegisteredModel: {"id"},
}  # fmt: skip
"""Columns that the ledger does not record: numbers of rows, the sampler's notes, and values from sealed files."""


class Rows:
    """Rows outside of any database: the result of replaying the ledger's entries."""

    def __init__(self) -> None:
        self._tables: dict[type[Base], dict[tuple[Any, ...], Base]] = defaultdict(dict)
        self._runs: dict[str, list[Callable[[], None]]] = defaultdict(list)
        """Run id to the function that makes its row: there are many runs, and most queries need few."""

    def take(self, project: str, at: datetime, event: Event) -> None:
        """Apply a project's entry, written at this time."""
        step = partial(apply, self, project, at, event)
        if isinstance(event, events.RunStarted | events.RunResumed | events.RunSealed):
            self._runs[event.run_id].append(step)
        else:
            step()

    def find(self, table: type[T], *key: Any) -> T | None:
        """Return the row of this name, or None."""
        for step in self._runs.pop(key[0], ()) if table is Run else ():
            step()
        return cast("T | None", self._tables[table].get(key))

    def add(self, row: Base) -> None:
        """Keep a new row."""
        self._tables[type(row)][key_of(row)] = row

    def of(self, table: type[T], **where: Any) -> list[T]:
        """Return the rows of a table with these values, in the order of their entries."""
        for run_id in list(self._runs) if table is Run else ():
            self.find(Run, run_id)
        rows = cast("Iterable[T]", self._tables[table].values())
        return [row for row in rows if all(getattr(row, name) == value for name, value in where.items())]

    def update(self, others: Rows) -> None:
        """Add the rows of others."""
        for table in KEYS:
            for row in others.of(table):
                self.add(row)

    def differences(self, row: Base) -> list[str]:
        """Return one sentence for every column in which a database's row differs from the ledger."""
        what, recorded = title(row), self.find(type(row), *key_of(row))
        if isinstance(row, Trial) and (study := self.find(Study, row.study)) and not study.lists_trials:
            return []
        if recorded is None:
            return [f"{what} has no ledger entry"]
        unrecorded = ONLY_HERE.get(type(row), set())
        if isinstance(recorded, Run) and not recorded.sealed:  # its state changes without an entry
            unrecorded = unrecorded | {"state"}
        compared = [name for name in columns(row) if name not in unrecorded]
        changed = [name for name in compared if _plain(getattr(row, name)) != _plain(getattr(recorded, name))]
        return [f"{what}: {name} was changed in the database" for name in changed]


def removed(recorded: Iterable[Base], present: Iterable[Base]) -> list[str]:
    """Return one sentence for every row of the ledger's that is not among a database's."""
    there = {(type(row), key_of(row)) for row in present}
    missing = [row for row in recorded if (type(row), key_of(row)) not in there]
    return [f"{title(row)} was removed from the database" for row in missing]


class _Database(Rows):
    """Rows of a workspace."""

    def __init__(self, session: Session) -> None:
        super().__init__()
        self._session = session

    def find(self, table: type[T], *key: Any) -> T | None:
        return next(iter(self.of(table, **dict(zip(KEYS[table], key, strict=True)))), None)

    def add(self, row: Base) -> None:
        self._session.add(row)

    def of(self, table: type[T], **where: Any) -> list[T]:
        return list(self._session.scalars(select(table).filter_by(**where)))


def record(session: Session, project: str, event: Event) -> LedgerEntry:
    """Add an event to the ledger, and to the rows, within the caller's transaction; return its entry.

    Raises StorageError in a workspace that cannot be written.
    """
    entry = append(session, project, event.name, event.body())
    apply(_Database(session), project, datetime.fromisoformat(entry.time), event)
    session.flush()
    return entry


def apply(rows: Rows, project: str, at: datetime, event: Event) -> None:
    """Apply a project's entry, written at this time, to the rows.

    The first entry of a name makes its row. A deletion's rows go with its files.
    """
    match event:
        case events.ProjectCreated():
            _begin(rows, project, at, event, Project, name=project)
        case events.CodeRootMoved() | events.GoalChanged():
            _project(rows.find(Project, project), event)
        case events.ConfigurationKept():
            _begin(rows, project, at, event, ConfigVersion)
        case events.RunStarted():
            _begin(rows, project, at, event, Run, id=event.run_id, state="created", sealed=False)
        case events.RunResumed() | events.RunSealed():
            _run(rows.find(Run, event.run_id), project, event)
        case events.StudyChanged() | events.AblationChanged():
            _study(rows, project, at, event)
        case events.ModelRegistered():
            _begin(rows, project, at, event, RegisteredModel, run=event.run_id)


def columns(row: Base) -> list[str]:
    """Return the names of a row's columns."""
    return list(row.__table__.columns.keys())


def key_of(row: Base) -> tuple[Any, ...]:
    """Return a row's name: the values of the columns that name it."""
    return tuple(getattr(row, name) for name in KEYS[type(row)])


def title(row: Base) -> str:
    """Return how a row is called in a sentence."""
    return TITLES[type(row)].format(*key_of(row))


def _begin(rows: Rows, project: str, at: datetime, event: Event, table: type[T], **values: Any) -> T | None:
    """Add the row of a new object; return None when there is one of this name."""
    given = {name: getattr(event, name) for name in _shared(type(event), table)}
    row: T = table.__mapper__.class_manager.new_instance()  # its attributes keep no history: a replay makes thousands
    row.__dict__.update(given, **values, created_at=given["created_at"] or at)
    if table is not Project:
        row.__dict__["project"] = project
    if rows.find(table, *key_of(row)) is not None:
        return None
    rows.add(row)
    return row


@cache
def _shared(event: type[Event], table: type[Base]) -> frozenset[str]:
    return frozenset(event.model_fields.keys() & table.__table__.columns.keys())


def _project(row: Project | None, event: events.CodeRootMoved | events.GoalChanged) -> None:
    if row is None:
        return
    if isinstance(event, events.GoalChanged):
        row.goal = event.goal
    else:
        row.code_root = event.code_root


def _run(row: Run | None, project: str, event: events.RunResumed | events.RunSealed) -> None:
    """End or resume a run. The ledger does not record the state of one that is resumed."""
    if row is None or row.project != project:
        return
    if isinstance(event, events.RunResumed):
        row.state, row.sealed, row.ended_at, row.summary = "created", False, None, None
    else:
        row.state, row.sealed, row.ended_at = event.state, True, event.ended_at


def _study(rows: Rows, project: str, at: datetime, event: events.StudyChanged | events.AblationChanged) -> None:
    """Bring a study to a state, with its trials where the entry lists them. Its base is the configuration of then."""
    row = rows.find(Study, event.study_id)
    given = event.base_values if isinstance(event, events.AblationChanged) else None
    if row is None and event.search is not None:
        versions = rows.of(ConfigVersion, project=project)
        values = given or (max(versions, key=lambda version: version.number).values if versions else {})
        base = {name: value for name, value in values.items() if name != "search"}
        row = _begin(rows, project, at, event, Study, id=event.study_id, base_values=base)
    if row is None or row.project != project:
        return
    confirmation = event.confirmation if isinstance(event, events.StudyChanged) else None
    row.state, row.confirmation, row.failure, row.ended_at = event.state, confirmation, event.failure, event.ended_at
    row.lists_trials = event.trials is not None
    for line in event.trials or []:
        _trial(rows, event.study_id, line)


def _trial(rows: Rows, study: str, line: events.TrialEnded) -> None:
    row = rows.find(Trial, study, line.number)
    if row is None:
        row = Trial(study=study, number=line.number, attributes={})
        rows.add(row)
    for name in type(line).model_fields:
        setattr(row, name, getattr(line, name))


def _plain(value: Any) -> Any:
    return in_utc(value) if isinstance(value, datetime) else value
