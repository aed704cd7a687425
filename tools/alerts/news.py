"""News of alerts: those that no answer has carried yet, and what has become of the others."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import Any

from sqlalchemy import select

from trainwright.tools.alerts.life import Life, count_unseen, life_of, mark_seen, rows_of, unseen, unseen_of
from trainwright.tools.workspace import Workspace
from trainwright.tools.workspace.tables import RaisedAlert
from trainwright.trainer.base.text import cut

MAX_NEWS = 3
"""In one answer; the next ones carry the rest."""
MAX_CHARACTERS = 240
UNUSUAL = (Life.RECURRING, Life.CLEARED, Life.FIXED)


def take_news(
    workspace: Workspace, projects: Collection[str], shown: Iterable[tuple[str, str]] = ()
) -> tuple[list[dict[str, Any]], int, int]:
    """Return the alerts that an answer should carry; they count as seen then.

    Beside them: how many are left for the next answer of its kind, and how many nobody had seen in the workspace.

    Args:
        projects: those that the answer is about; none: all.
        shown: (run, diagnostic) of the alerts that the answer shows anyway.
    """
    with workspace.snapshot() as session:
        if not (waiting := count_unseen(session)):
            return [], 0, 0
        known = unseen_of(session, set(shown), projects)
        others = count_unseen(session, projects) - len(known)
        rows = unseen(session, projects, MAX_NEWS + len(known))
    named = {(row.run, row.id) for row in known}
    carried = [row for row in rows if (row.run, row.id) not in named][:MAX_NEWS]
    mark_seen(workspace, [*carried, *known])
    return [_news(row) for row in carried], others - len(carried), waiting


def _news(row: RaisedAlert) -> dict[str, Any]:
    found = {
        "run_id": row.run,
        "id": row.id,
        "state": life_of(row).value,
        "severity": row.severity,
        "message": cut(row.message, MAX_CHARACTERS),
        "document": row.document,
    }
    return found | ({"fix": row.fix} if row.fix else {})


def history(workspace: Workspace, run_id: str) -> list[str]:
    """Return a sentence on each alert of a run that came back, was cleared, or was fixed by a later run."""

    def read() -> list[str]:
        with workspace.snapshot() as session:
            rows = list(rows_of(session, run_id).values())
        return [_sentence(row) for row in rows if life_of(row) in UNUSUAL]

    return [*workspace.kept.rows(("alert history", run_id), read)]


def _sentence(row: RaisedAlert) -> str:
    state = life_of(row)
    times = f", raised {row.times} times" if row.times > 1 else ""
    if state is Life.FIXED:
        return f"{row.id}: fixed, {row.fixed_by} was completed without it"
    if state is Life.CLEARED:
        return f"{row.id}: cleared, raised at step {row.step}{times}"
    back = " after an earlier configuration had fixed it" if row.is_back else ""
    return f"{row.id}: recurring{back}{times}"


def changes_after(workspace: Workspace, revision: int) -> list[RaisedAlert]:
    """Return the alerts that changed after a revision, in order of their changes."""
    query = select(RaisedAlert).where(RaisedAlert.revision > revision).order_by(RaisedAlert.revision)
    with workspace.snapshot() as session:
        return list(session.scalars(query))
