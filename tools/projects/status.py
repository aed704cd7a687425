"""Status of a project, in one small answer."""

from __future__ import annotations

from collections.abc import Collection
from contextlib import suppress
from functools import partial
from typing import Any

from pydantic import BaseModel, Field, computed_field
from sqlalchemy import select
from sqlalchemy.orm import Session

from trainwright.tools.alerts import is_settled
from trainwright.tools.answers import Answer
from trainwright.tools.gates.beside_rivals import beside_baseline
from trainwright.tools.gates.decide import evaluate
from trainwright.tools.gates.evidence import Evidence
from trainwright.tools.gates.exits import baseline_value, worded
from trainwright.tools.gates.figures import beside
from trainwright.tools.gates.final_words import tested_words
from trainwright.tools.gates.next_call import next_of
from trainwright.tools.gates.phase_status import phase_status_of
from trainwright.tools.gates.phases import LOOKING
from trainwright.tools.gates.run_evidence import RunEvidence
from trainwright.tools.handover import handover_line
from trainwright.tools.hyperparameter_tuner.ablation.publishing import newest_ablation
from trainwright.tools.ledger import Look
from trainwright.tools.ledger.aliases import in_production
from trainwright.tools.ledger.events import ModelPromoted, ModelRegistered
from trainwright.tools.limits import limit_lines
from trainwright.tools.owner import requests_of
from trainwright.tools.projects.goals import met_by_the_smoke_run
from trainwright.tools.projects.passing import (
    CheckLineView,
    check_lines,
    decided_before,
    is_met,
    met_still,
    not_yet,
)
from trainwright.tools.training_monitor.diagnosis import SEVERITIES, diagnose
from trainwright.tools.training_orchestrator import refresh_project
from trainwright.tools.training_orchestrator.follow import refresh_workspace
from trainwright.tools.workspace import Workspace
from trainwright.tools.workspace.query_cache import Sources
from trainwright.tools.workspace.records import get_project, runs_of
from trainwright.tools.workspace.tables import Project, RaisedAlert, Run
from trainwright.trainer.base.errors import ConfigurationError, TrainwrightError
from trainwright.trainer.base.file_stamps import stamps_below
from trainwright.trainer.base.text import cut
from trainwright.trainer.run import RunState

NEWEST_RUNS = 6
SHOWN_RUNS = 3
MAX_ALERTS = 5
_short = partial(cut, longest=160)
"""Of one text: frequent calls should not pay for one long sentence."""
MAX_REQUESTS = 10
MAX_REMARKS = 8


class RunLine(BaseModel):
    """One run, in a line."""

    run_id: str
    kind: str
    state: str
    label: str | None = None
    best: float | None = None
    """Best validation value of the goal's metric, certified where it can be."""
    reported: float | None = None
    """The training process's own, where that reads differently."""


class AlertLine(BaseModel):
    """One open alert on a run that the project depends on, or that is under way."""

    run_id: str
    id: str
    severity: str
    message: str
    document: str
    fix: str | None = None
    """Of one that was raised meanwhile: the call that fixes it, or in words what only the code can change."""

    @classmethod
    def of(cls, row: RaisedAlert) -> AlertLine:
        """Return the line of an alert that was raised."""
        shown = {"severity": row.severity, "message": _short(row.message), "document": row.document}
        return cls(run_id=row.run, id=row.id, **shown, fix=row.fix or None)


class ProjectSummary(Answer):
    """One line of the list of projects."""

    project: str
    intent: str
    goal: str
    phase: str
    finished: bool
    state: str
    """The phase and its runs under way, or the date when it was finished."""
    best: float | None = None
    """Best validation value of the goal's metric that a completed run has reached so far."""
    runs: int


class ProjectStatus(Answer):
    """Phase, gates, checks, runs, limits and what to do now."""

    project: str
    intent: str
    goal: str
    reached: str | None = None
    """Once optimization is decided: the project's result, `Goal not reached: 0.81 of 0.9 …`."""
    rivals: str | None = None
    """The present baseline beside the strongest rival and the user's reference, on validation; absent once finished."""
    phase: str
    finished: bool
    release: int | None = None
    """Number of the release that is finished or, from the second on, worked on."""
    finished_on: str | None = None
    """The day, in UTC."""
    production: str | None = None
    """The version that is served, and which one final_model/ is where that is another; absent before a promotion."""
    remarks: list[str] = Field(default_factory=list)
    """Changes that re-open nothing; of a finished project, all changes since."""
    gates: dict[str, str]
    """Phase to passed, skipped, stale (with the changes), open or closed."""
    checks: list[CheckLineView]
    """The checks of the present phase's gate, as they would come out now; of a finished project, as it was sealed."""
    runs: list[RunLine]
    """The newest runs."""
    alerts: list[AlertLine] = Field(default_factory=list)
    """Open on the newest smoke, baseline and final run of the present configuration, and on runs under way."""
    study: str | None = None
    ablation: str | None = None
    """The newest ablation study, with its state."""
    limits: dict[str, str]
    """Used of allowed, reserved by runs under way, and left."""
    owner: list[str]
    """Requests to the workspace's owner, with their status."""
    handover: str | None = None
    """Path of handover.yaml, who handed over to whom, and whether it fits the ledger, is stale or forged (why)."""
    config_version: int
    folder: str

    @computed_field  # type: ignore[prop-decorator]
    @property
    def checks_met(self) -> int:
        """How many of the checks are met; those without a meaning here are counted apart."""
        return sum(is_met(check) and check.status != "not_applicable" for check in self.checks)

    def unsaid(self) -> dict[str, Any]:
        """Fields without news: checks met still, gates that are open or passed, old runs."""
        usual = {phase: True for phase, stands in self.gates.items() if stands in {"open", "closed", "passed"}}
        return {
            "checks": met_still(self.checks) | not_yet(self.checks),
            "gates": True if len(usual) == len(self.gates) else usual,
            "runs": dict.fromkeys(range(SHOWN_RUNS, len(self.runs)), True),
            **dict.fromkeys(("limits", "config_version", "folder"), True),
        }


def project_status(
    workspace: Workspace, project: str | None = None, *, most: int | None = None, only: Collection[str] | None = None
) -> ProjectStatus | list[ProjectSummary]:
    """Return one project's status, or a line for each project, newest first and at most `most`; of `only` these.

    Raises NotFoundError.
    """
    if project is None:
        refresh_workspace(workspace)
        with workspace.session() as session:
            names = [name for name in _newest_first(session) if only is None or name in only]
            return [_kept_summary(session, workspace, name) for name in names[:most]]
    refresh_project(workspace, project)
    with workspace.session() as session:
        return _status(session, workspace, project)


def overview(workspace: Workspace) -> list[ProjectStatus]:
    """Return the status of every project, the newest first, without limits, requests, and new diagnoses."""
    refresh_workspace(workspace)
    with workspace.session() as session:
        return [_kept_status(session, workspace, name, brief=True) for name in _newest_first(session)]


def read_status(workspace: Workspace, project: str) -> ProjectStatus:
    """Return a project's status as its records are now: no run is filed or sealed, and no lock is taken.

    Raises NotFoundError.
    """
    with workspace.snapshot() as session:
        get_project(session, project)
        return _status(session, workspace, project)


def newest_first(workspace: Workspace) -> list[str]:
    """Return the names of all projects, the newest first."""
    with workspace.session() as session:
        return _newest_first(session)


def _newest_first(session: Session) -> list[str]:
    return list(session.scalars(select(Project.name).order_by(Project.created_at.desc(), Project.name)))


def project_names(workspace: Workspace) -> list[str]:
    """Return the names of all projects, sorted."""
    with workspace.session() as session:
        return list(session.scalars(select(Project.name).order_by(Project.name)))


def count_projects(workspace: Workspace) -> int:
    """Return how many projects the workspace holds."""
    with workspace.session() as session:
        return session.query(Project).count()


def _kept_summary(session: Session, workspace: Workspace, name: str) -> ProjectSummary:
    make = partial(_summary, session, workspace, name)
    files = partial(stamps_below, workspace.project_folder(name), without="runs")  # a list needs no ended run's record
    return workspace.kept.answer(session, name, "summary", make, files=files).model_copy()


def _summary(session: Session, workspace: Workspace, name: str, sources: Sources) -> ProjectSummary:
    evidence = Evidence(session, workspace, name, inspection=Look(sources))
    where, rows = phase_status_of(evidence), runs_of(session, name)
    at_work = [f"{row.kind} {row.state}" for row in rows if not RunState(row.state).is_ended]
    return ProjectSummary(
        project=name,
        intent=_short(evidence.project.intent),
        goal=evidence.goal_text,
        phase=where.phase.value,
        finished=where.is_finished,
        state=_short(where.finished_text or "; ".join([where.phase.value, *at_work])),
        best=_best_so_far(evidence, rows),
        runs=len(rows),
        next=next_of(evidence),
    )


def _best_so_far(evidence: Evidence, rows: list[Run]) -> float | None:
    """Return the best value of the goal's metric among the completed runs that trained as a whole."""
    metric, choose = evidence.goal_metric, max if evidence.project.goal["direction"] == "maximize" else min
    completed = [row.summary or {} for row in rows if row.state == RunState.COMPLETED and row.kind not in LOOKING]
    values = [(summary.get("best") or {}).get("metrics", {}).get(metric) for summary in completed]
    return choose((float(value) for value in values if isinstance(value, int | float)), default=None)


def _status(session: Session, workspace: Workspace, name: str) -> ProjectStatus:
    found = _kept_status(session, workspace, name)
    requests = requests_of(session, workspace, name)[-MAX_REQUESTS:]
    limits = limit_lines(session, workspace, get_project(session, name))
    owner = [str(request) for request in requests]
    return found.model_copy(update={"limits": limits, "owner": owner})


def _kept_status(session: Session, workspace: Workspace, name: str, *, brief: bool = False) -> ProjectStatus:
    make = partial(_looked_at, session, workspace, name, brief=brief)
    files = partial(stamps_below, workspace.project_folder(name))
    return workspace.kept.answer(session, name, ("status", brief), make, files=files)


def _reported(run: RunEvidence, metric: str) -> float | None:
    return beside(run.certified().get(metric), run.reported_value(metric)).get("reported")


def _unmeasured(checks: list[CheckLineView]) -> list[str]:
    """Say how many checks wait for the smoke run."""
    waiting = len(not_yet(checks))
    return [f"Not measured yet: {waiting} further checks, which the smoke run answers too."] if waiting else []


def _looked_at(
    session: Session, workspace: Workspace, name: str, sources: Sources, *, brief: bool = False
) -> ProjectStatus:
    """Return the status without the parts that depend on other projects and the owner's answers.

    Args:
        brief: with the alerts that the last diagnosis recorded, and none of its own.
    """
    evidence = Evidence(session, workspace, name, inspection=Look(sources))
    where = phase_status_of(evidence)
    release = where.release
    report = None if release else evaluate(evidence, where.phase)
    checks = [*map(dict, report.checks)] if report else release.decision["checks"] if release else []
    shown = check_lines(checks, {} if release else decided_before(evidence, where.phase))
    gates = {
        gate.phase.value: _short(f"stale: {'; '.join(gate.reasons[:3])}") if gate.reasons else gate.status
        for gate in where.gates
    }
    runs = [run for row in reversed(runs_of(session, name)[-NEWEST_RUNS:]) if (run := evidence.run(row.id))]
    lines = [
        RunLine(
            run_id=run.id,
            kind=run.row.kind,
            state=run.status.state.value,
            label=run.row.label,
            best=run.best_value(evidence.goal_metric),
            reported=_reported(run, evidence.goal_metric),
        )
        for run in runs
    ]
    return ProjectStatus(
        project=name,
        intent=_short(evidence.project.intent),
        goal=evidence.goal_text,
        reached=_reached(evidence),
        rivals=None if release else _rivals(evidence),
        phase=where.phase.value,
        finished=where.is_finished,
        release=release.number if release else 1 + len(evidence.begun) if evidence.begun else None,
        finished_on=release.date or None if release else None,
        production=_production(evidence),
        remarks=[
            *_unmeasured(shown),
            *met_by_the_smoke_run(evidence),
            *(_short(remark) for remark in where.remarks[:MAX_REMARKS]),
        ],
        gates=gates,
        checks=[_shortened(line) for line in shown],
        runs=lines,
        alerts=_recorded_alerts(evidence, runs) if brief else _alerts(evidence, runs),
        study=f"{evidence.study.id} ({evidence.study.state})" if evidence.study else None,
        ablation=newest_ablation(evidence),
        limits={},
        owner=[],
        handover=None if brief else handover_line(session, workspace, name, sources),
        config_version=evidence.version.number,
        folder=str(evidence.folder),
        next=next_of(evidence, report=report),
    )


def _reached(evidence: Evidence) -> str | None:
    """Return the project's result by the newest decision that records it."""
    endings = [body["ending"] for _, body in evidence.decisions if "ending" in body]
    tested = tested_words(evidence) if endings and evidence.export is not None and evidence.export.is_complete else ""
    return f"{worded(endings[-1])}. {tested}".rstrip(". ") if endings else None


def _production(evidence: Evidence) -> str | None:
    held = in_production(evidence.entries(ModelPromoted.name))
    if held is None:
        return None
    newest = max((body["version"] for _, body in evidence.entries(ModelRegistered.name)), default=held)
    return f"v{held}" if newest == held else f"v{held}; final_model/ is v{newest}"


def _rivals(evidence: Evidence) -> str | None:
    """Return the baseline beside its rivals; None without an evaluation of them, or where its record is damaged."""
    with suppress(TrainwrightError):
        is_met = evidence.reaches_goal(baseline_value(evidence))
        return "; ".join(one.clause(is_met=is_met) for one in beside_baseline(evidence)) or None
    return None


def _recorded_alerts(evidence: Evidence, runs: list[RunEvidence]) -> list[AlertLine]:
    """Return the alerts that the newest diagnoses of these runs have recorded."""
    newest = {body["run_id"]: body["alerts"] for _, body in evidence.entries("diagnosis")}
    shown = set(AlertLine.model_fields)
    return [
        AlertLine(run_id=run.id, **{key: value for key, value in one.items() if key in shown})
        for run in runs
        for one in newest.get(run.id, [])
    ]


def _alerts(evidence: Evidence, newest: list[RunEvidence]) -> list[AlertLine]:
    """Return the most severe alerts; a run whose record is damaged has none here, and its check says so."""
    living = [run for run in newest if not run.status.state.is_ended]
    standing_on: list[RunEvidence] = []
    with suppress(ConfigurationError):  # a configuration that does not fit the schema has no run
        standing_on = [run for run in (evidence.final, evidence.baseline, evidence.smoke) if run is not None]
    found: list[AlertLine] = []
    for run in {run.id: run for run in [*living, *standing_on]}.values():
        try:
            files, look = stamps_below(run.directory.path), partial(diagnose, run.directory)
            alerts = evidence.inspection.recall(("alerts", run.directory.path), files, look)
            has_learned = run.is_complete and evidence.reaches_goal(run.best_value(evidence.goal_metric))
        except TrainwrightError:
            continue
        open_now = [one for one in alerts if not is_settled(one, has_learned=has_learned)]
        shown = [one.model_dump(include={"id", "severity", "document"}) for one in open_now]
        told = [_short(one.message) for one in open_now]
        found += [AlertLine(run_id=run.id, message=what, **own) for what, own in zip(told, shown, strict=True)]
    return sorted(found, key=lambda alert: SEVERITIES.index(alert.severity))[:MAX_ALERTS]


def _shortened(line: CheckLineView) -> CheckLineView:
    return line.model_copy(update={"measured": _short(line.measured), "required": _short(line.required)})
