"""Overview of a workspace: its projects by the database alone, and the runs under way by their directories."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Collection, Iterable
from dataclasses import dataclass, field
from typing import Any

from pydantic import BaseModel
from sqlalchemy import func, select
from sqlalchemy.orm import Session

from trainwright.tools.alerts.life import EXPECTED, GRAVEST, QUIET, life_of
from trainwright.tools.dashboard.run_page import RunProgress, progress_of
from trainwright.tools.gates.exits import worded
from trainwright.tools.gates.phases import LOOKING, Phase
from trainwright.tools.gates.releases import BEGUN
from trainwright.tools.ledger.aliases import PRODUCTION, aliases_after, moves_among
from trainwright.tools.ledger.events import ModelPromoted
from trainwright.tools.workspace import Workspace
from trainwright.tools.workspace.tables import LedgerEntry, Project, RaisedAlert, Run
from trainwright.trainer.run import RunState

REFUSED = "refused"
MAX_ALERTS = 20


class AlertCard(BaseModel):
    """One alert that stands, as it was filed when the run was last followed."""

    run_id: str
    project: str
    id: str
    state: str
    """new, open or recurring."""
    severity: str
    message: str
    document: str
    fix: str


class ProjectCard(BaseModel):
    """One project, in a line."""

    name: str
    intent: str
    goal: str
    gates: dict[str, str]
    """Phase to the outcome of its newest decision in the present release; without those that are not decided. Whether
    a passed gate is stale by now is on the project's page."""
    best: float | None
    """Best validation value of the goal's metric among the completed runs of the configuration that ran last, as
    reported: an earlier one may have had data that leaked."""
    result: str | None = None
    """How the goal stands by the newest decision that says it, with its interval; `release 2: …` of a finished one."""
    production: int | None = None
    """Version in production."""
    runs: dict[str, int]
    """State to the number of runs, as filed."""
    created_at: str


class Overview(BaseModel):
    """Everything that a glance at a workspace needs."""

    workspace: str
    projects: list[ProjectCard]
    living: list[RunProgress]
    """Runs that have not been sealed yet, the newest first."""
    alerts: list[AlertCard]
    """Those that stand, the gravest and then the newest first; at most 20."""
    sequence: int
    """Number of the ledger's last entry."""


def overview(workspace: Workspace) -> Overview:
    """Return the overview. Raises StorageError, IntegrityError."""
    with workspace.snapshot() as session:
        living = living_runs(session)
        projects, alerts = cards(session), standing_alerts(session)
        sequence = session.scalar(select(func.max(LedgerEntry.sequence))) or 0
    return Overview(
        workspace=path.parent.name if (path := workspace.path).name.startswith(".") else path.name,
        projects=projects,
        living=[progress_of(workspace, run) for run in living],
        alerts=alerts,
        sequence=sequence,
    )


def living_runs(session: Session) -> list[Run]:
    """Return the runs that have not been sealed yet, the newest first."""
    return list(session.scalars(select(Run).where(Run.sealed.is_(False)).order_by(Run.created_at.desc(), Run.id)))


def standing_alerts(session: Session) -> list[AlertCard]:
    """Return the alerts that are neither cleared nor fixed, the gravest and then the newest first.

    Those of runs that repeat another on purpose belong to that one, and are left out. So are those of finished
    projects: their cards name what was left open.
    """
    finished = [name for name, decided in _decided(session, None).items() if decided.is_finished]
    stands = RaisedAlert.cleared_at.is_(None), RaisedAlert.fixed_by.is_(None), RaisedAlert.severity != QUIET
    query = select(RaisedAlert).join(Run, Run.id == RaisedAlert.run).where(*stands, Run.kind.not_in(EXPECTED))
    query = query.where(RaisedAlert.project.not_in(finished))
    query = query.order_by(GRAVEST, RaisedAlert.raised_at.desc()).limit(MAX_ALERTS)
    return [
        AlertCard(
            run_id=row.run, project=row.project, id=row.id, state=life_of(row).value, severity=row.severity,
            message=row.message, document=row.document, fix=row.fix,
        )
        for row in session.scalars(query)
    ]  # fmt: skip


def cards(session: Session, names: Collection[str] | None = None) -> list[ProjectCard]:
    """Return the cards of these projects, or of all, the newest first, from the database alone."""
    query = select(Project).order_by(Project.created_at.desc(), Project.name)
    counted = select(Run.project, Run.state, Run.kind, Run.base_config_digest, Run.summary).order_by(Run.created_at)
    if names is not None:
        query, counted = query.where(Project.name.in_(names)), counted.where(Run.project.in_(names))
    projects = session.scalars(query).all()
    decided = _decided(session, names)
    runs: dict[str, Counter[str]] = {}
    newest: dict[str, str] = {}
    completed: dict[tuple[str, str], list[dict[str, Any]]] = {}
    for project, state, kind, config, summary in session.execute(counted):
        runs.setdefault(project, Counter())[state] += 1
        newest[project] = config
        if state == RunState.COMPLETED and kind not in LOOKING:
            completed.setdefault((project, config), []).append(summary or {})
    return [
        ProjectCard(
            name=project.name,
            intent=project.intent,
            goal=goal_text(project.goal),
            gates=(own := decided.get(project.name, _Decided())).gates,
            best=_best(project.goal, completed.get((project.name, newest.get(project.name, "")), [])),
            result=own.result,
            production=aliases_after(own.moves).get(PRODUCTION),
            runs=dict(runs.get(project.name, {})),
            created_at=project.created_at.isoformat(),
        )
        for project in projects
    ]


def goal_text(goal: dict[str, Any]) -> str:
    """Return a goal in words: `accuracy at least 0.9`."""
    return f"{goal['metric']} {'at least' if goal['direction'] == 'maximize' else 'at most'} {goal['target']:g}"


@dataclass
class _Decided:
    """A project's newest decisions in the present release, its result, and the moves of its versions' names."""

    gates: dict[str, str] = field(default_factory=dict)
    """Phase to outcome."""
    result: str | None = None
    moves: list[ModelPromoted] = field(default_factory=list)

    @property
    def is_finished(self) -> bool:
        return self.gates.get(Phase.FINALIZATION, REFUSED) != REFUSED

    def take(self, body: dict[str, Any]) -> None:
        phase, outcome = body.get("phase"), body.get("outcome")
        if phase not in set(Phase) or not isinstance(outcome, str):
            return
        if outcome != REFUSED or phase not in self.gates:
            self.gates[phase] = outcome
        end = body.get("ending")
        if outcome != REFUSED and isinstance(end, dict) and {"goal", "reached", "met"} <= end.keys():
            number = (body.get("release") or {}).get("number", "")
            self.result = f"release {number}: {worded(end)}" if phase == Phase.FINALIZATION else worded(end)


def _decided(session: Session, names: Collection[str] | None) -> dict[str, _Decided]:
    """Return, by project, of these or of all, what was decided since the present release was begun."""
    query = select(LedgerEntry.project, LedgerEntry.kind, LedgerEntry.body)
    query = query.where(LedgerEntry.kind.in_(("gate", BEGUN, ModelPromoted.name))).order_by(LedgerEntry.sequence)
    if names is not None:
        query = query.where(LedgerEntry.project.in_(names))
    found: dict[str, _Decided] = {}
    for project, kind, text in session.execute(query):
        own = found.setdefault(str(project), _Decided())
        if kind == BEGUN:
            own.gates.clear()  # the last release's result stands until there is another
        elif kind == ModelPromoted.name:
            own.moves += moves_among(filter(None, [_decision(text)]))
        else:
            own.take(_decision(text))
    return found


def _decision(text: str) -> dict[str, Any]:
    try:
        body = json.loads(text)
    except ValueError:  # `verify` names a damaged entry
        return {}
    return body if isinstance(body, dict) else {}


def _best(goal: dict[str, Any], summaries: Iterable[dict[str, Any]]) -> float | None:
    choose = max if goal["direction"] == "maximize" else min
    values = [(summary.get("best") or {}).get("metrics", {}).get(goal["metric"]) for summary in summaries]
    return choose((float(value) for value in values if isinstance(value, int | float)), default=None)
