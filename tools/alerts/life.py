"""Life of an alert, one row for each run and diagnostic: new, open, recurring, cleared, fixed.

Rows are filed by any process that looks at a run, any number of times; the database's lock makes one of them the first.
"""

from __future__ import annotations

import time
from collections.abc import Collection, Sequence
from enum import StrEnum

from sqlalchemy import ColumnElement, case, false, func, or_, select, true, update
from sqlalchemy.orm import Session

from trainwright.tools.training_monitor import Alert, Goal
from trainwright.tools.training_monitor.diagnosis import SEVERITIES
from trainwright.tools.workspace import Workspace
from trainwright.tools.workspace.records import get_project
from trainwright.tools.workspace.tables import RaisedAlert, Run
from trainwright.trainer.run import RunKind, RunStatus
from trainwright.trainer.run.evidence import Summary

QUIET = "info"
"""Severity of alerts that nobody is told unasked."""
GRAVEST = case({severity: place for place, severity in enumerate(SEVERITIES)}, value=RaisedAlert.severity)
"""Order of the severities, the gravest first."""
OF_CONFIGURATIONS = (RunKind.SMOKE, RunKind.BASELINE, RunKind.ABLATION, RunKind.FINAL)
"""Kinds of runs that show what a configuration does, the shortest first; a trial's is one of many on purpose."""


WHOLE = frozenset({RunKind.BASELINE, RunKind.FINAL})
"""Kinds of runs that train as long as their configuration says."""
OF_LEARNING = frozenset({
    "batch_too_small", "best_in_warmup", "clipping_too_tight", "convergence_stall", "learning_rate_off_curve",
    "learning_rate_too_high", "learning_rate_too_low", "loss_spike", "rate_decays_early", "regularisation_too_strong",
    "saturated_units", "too_short", "underfitting", "vanishing_gradients",
})  # fmt: skip
"""Warnings of how a run learns. A completed run that meets its goal has learned: they are kept, and told to nobody."""
EXPECTED = frozenset({RunKind.CURE, RunKind.REPLAY, RunKind.LEAK_PRICE})
"""Kinds of runs that repeat others on purpose: who asked for them gets their alerts in the answer."""


OF_A_STUDY = "A run of a study, which goes on by itself."
"""Instead of a fix: a changed configuration would open planning again under the search."""


class Life(StrEnum):
    """The present state of an alert."""

    NEW = "new"
    """Raised, and no answer has carried it yet."""
    OPEN = "open"
    RECURRING = "recurring"
    """It came back: after it was cleared in this run, or after an earlier configuration had fixed it."""
    CLEARED = "cleared"
    """The run no longer shows it."""
    FIXED = "fixed"
    """A later run, under another configuration, was completed without it."""


def life_of(row: RaisedAlert) -> Life:
    """Return the state of an alert."""
    if row.fixed_by is not None:
        return Life.FIXED
    if row.cleared_at is not None:
        return Life.CLEARED
    if row.is_back or row.times > 1:
        return Life.RECURRING
    return Life.OPEN if row.seen else Life.NEW


def rows_of(session: Session, run_id: str) -> dict[str, RaisedAlert]:
    """Return a run's alerts by their diagnostics, in the order in which they were raised."""
    query = select(RaisedAlert).where(RaisedAlert.run == run_id).order_by(RaisedAlert.raised_at, RaisedAlert.id)
    return {row.id: row for row in session.scalars(query)}


def file_alerts(workspace: Workspace, run: Run, found: Sequence[Alert], ended: RunStatus | None = None) -> None:
    """Bring the rows of a run up to date with the alerts that it shows now; nothing is written where nothing changed.

    Args:
        ended: the last status of a run that is completed: earlier configurations' alerts may be fixed by it.
    """
    with workspace.snapshot() as session:
        has_learned = ended is not None and meets_goal(session, workspace, run)
        rows = rows_of(session, run.id)
        is_told = any(is_settled(row, has_learned=has_learned) and not row.seen for row in rows.values())
        if not _differs(rows, found) and not is_told and not (ended and _fixed_by(session, run, found, ended)):
            return
    with workspace.session() as session:
        if session.get(Run, run.id) is None:  # deleted meanwhile, with its project
            return
        rows, moment = rows_of(session, run.id), time.time()
        changed = [_raise(session, workspace, run, alert, rows.get(alert.id)) for alert in found]
        present = {alert.id for alert in found}
        for row in rows.values():
            if row.id not in present and row.cleared_at is None:
                row.cleared_at = moment
                changed.append(row)
        for row in _fixed_by(session, run, found, ended) if ended else []:
            row.fixed_by, row.cleared_at = run.id, row.cleared_at or moment
            changed.append(row)
        for row in {row.id: row for row in (*rows.values(), *filter(None, changed))}.values():
            if is_settled(row, has_learned=has_learned):
                row.seen, row.owed = True, ""
        newest = session.scalar(select(func.max(RaisedAlert.revision))) or 0
        for number, row in enumerate(filter(None, changed), start=newest + 1):
            row.revision = number
            session.add(row)


def meets_goal(session: Session, workspace: Workspace, run: Run) -> bool:
    """Return whether a completed run's best epoch meets the goal that its project was made with."""
    goal = Goal.model_validate(get_project(session, run.project).goal)
    value = workspace.run_directory(run.project, run.id).part(Summary).best_metrics.get(goal.metric)
    return value is not None and goal.met_by(value)


def is_settled(alert: RaisedAlert | Alert, *, has_learned: bool) -> bool:
    """Return whether nobody need be told of an alert, because its run has learned what it should."""
    return has_learned and alert.severity != "critical" and alert.id in OF_LEARNING


def _differs(rows: dict[str, RaisedAlert], found: Sequence[Alert]) -> bool:
    standing = {row.id: row.severity for row in rows.values() if row.cleared_at is None}
    return standing.keys() != {alert.id for alert in found} or any(
        _is_graver(alert.severity, standing[alert.id]) for alert in found
    )


def _is_graver(severity: str, other: str) -> bool:
    return SEVERITIES.index(severity) < SEVERITIES.index(other)


def _raise(
    session: Session, workspace: Workspace, run: Run, alert: Alert, row: RaisedAlert | None
) -> RaisedAlert | None:
    """Return the alert's row where it is raised, raised again or graver than before.

    One that comes and goes is reported when it comes and when it first comes back; after that it is only counted.
    """
    if row is None:
        row = RaisedAlert(
            run=run.id, id=alert.id, project=run.project, times=1, is_back=_was_fixed(session, run, alert.id)
        )
        is_news = True
    elif row.cleared_at is not None:
        row.times += 1
        is_news = row.times == 2 or _is_graver(alert.severity, row.severity)
    elif _is_graver(alert.severity, row.severity):
        is_news = True
    else:
        return None
    row.severity, row.message, row.document = alert.severity, alert.message, alert.document
    row.fix = OF_A_STUDY if run.study is not None else _fix_of(alert, run.project)
    row.step, row.epoch, row.cleared_at, row.raised_at = alert.step, alert.epoch, None, time.time()
    if is_news:
        is_quiet = alert.severity == QUIET or run.kind in EXPECTED
        row.seen = is_quiet or (not row.is_back and _was_told(session, run, alert))
        row.owed, row.attempts = "" if is_quiet else _owed(workspace, alert.severity), 0
        row.due_at = time.time()
    return row


def _fix_of(alert: Alert, project: str) -> str:
    """Return the first fix that is a call, else the first one's words."""
    texts = [fix.text for fix in alert.fixes]
    calls = (call for fix in alert.fixes if (call := fix.call(project)))
    return next(calls, " ".join(texts[0].split()) if texts else "")


def _owed(workspace: Workspace, severity: str) -> str:
    notify = workspace.settings.notify
    return ",".join(notify.ways) if notify is not None and notify.takes(severity) else ""


def _was_told(session: Session, run: Run, alert: Alert) -> bool:
    """Whether a run of the same configuration, of whatever seed, had the alert before, no less grave."""
    same = select(Run.id).where(
        Run.project == run.project,
        Run.base_config_digest == run.base_config_digest,
        Run.study.is_(None),
        Run.created_at < run.created_at,
    )
    query = select(RaisedAlert.severity).where(RaisedAlert.id == alert.id, RaisedAlert.run.in_(same))
    return any(not _is_graver(alert.severity, severity) for severity in session.scalars(query))


def _was_fixed(session: Session, run: Run, diagnostic: str) -> bool:
    """Whether an earlier run's alert of this kind was fixed by a configuration before this one."""
    fixing = select(Run.id).where(Run.project == run.project, Run.created_at < run.created_at)
    query = select(RaisedAlert.run).where(
        RaisedAlert.project == run.project, RaisedAlert.id == diagnostic, RaisedAlert.fixed_by.in_(fixing)
    )
    return session.scalar(query.limit(1)) is not None


def _fixed_by(session: Session, run: Run, found: Sequence[Alert], ended: RunStatus) -> list[RaisedAlert]:
    """Return the alerts of runs under earlier configurations that this completed run does not show.

    A baseline or final run is what its configuration does, however soon that ends it; others must have gone as far.
    """
    if run.kind not in OF_CONFIGURATIONS:
        return []
    reached = or_(RaisedAlert.epoch <= ended.epoch, RaisedAlert.step <= ended.step)
    query = (
        select(RaisedAlert)
        .join(Run, Run.id == RaisedAlert.run)
        .where(RaisedAlert.project == run.project, RaisedAlert.fixed_by.is_(None))
        .where(RaisedAlert.id.not_in([alert.id for alert in found]))
        .where(Run.created_at < run.created_at, Run.config_digest != run.config_digest)
        .where(Run.kind.in_(OF_CONFIGURATIONS if run.kind != RunKind.SMOKE else [RunKind.SMOKE]))
        .where(true() if run.kind in WHOLE else reached)
    )
    return list(session.scalars(query))


def unseen(session: Session, projects: Collection[str], most: int) -> list[RaisedAlert]:
    """Return the alerts of these projects, or of all, that no answer has carried yet, the gravest and newest first."""
    query = select(RaisedAlert).where(*_unseen(projects)).order_by(GRAVEST, RaisedAlert.raised_at.desc())
    return list(session.scalars(query.limit(most)))


def count_unseen(session: Session, projects: Collection[str] = ()) -> int:
    """Return how many alerts of these projects, or of all, no answer has carried yet."""
    return session.scalar(select(func.count()).select_from(RaisedAlert).where(*_unseen(projects))) or 0


def unseen_of(session: Session, shown: Collection[tuple[str, str]], projects: Collection[str]) -> list[RaisedAlert]:
    """Return those of the alerts (run, diagnostic) that no answer has carried yet."""
    found = (session.get(RaisedAlert, each) for each in shown)
    return [row for row in found if row is not None and not row.seen and (not projects or row.project in projects)]


def _unseen(projects: Collection[str]) -> list[ColumnElement[bool]]:
    return [RaisedAlert.seen == false(), *([RaisedAlert.project.in_(projects)] if projects else [])]


def news_of(workspace: Workspace, run_id: str, known: Collection[str] = ()) -> list[RaisedAlert]:
    """Return a run's open alerts that no answer has carried yet, without those that the caller knows."""
    query = select(RaisedAlert).where(RaisedAlert.run == run_id, RaisedAlert.seen == false())
    query = query.where(RaisedAlert.cleared_at.is_(None), RaisedAlert.id.not_in(known))
    with workspace.snapshot() as session:
        return list(session.scalars(query))


def mark_seen(workspace: Workspace, rows: Collection[RaisedAlert]) -> None:
    """Record that an answer carries these alerts; one that was raised again meanwhile is news again."""
    if not rows or workspace.is_archived:
        return
    with workspace.session() as session:
        for row in rows:
            which = (RaisedAlert.run == row.run, RaisedAlert.id == row.id, RaisedAlert.revision == row.revision)
            session.execute(update(RaisedAlert).where(*which).values(seen=True))
