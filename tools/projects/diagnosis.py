"""Diagnosing a run; on the baseline it also writes the report that the diagnostics gate depends on."""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

import trainwright
from trainwright.tools.alerts import is_settled
from trainwright.tools.answers import NextCall
from trainwright.tools.cures import ensure_tried, try_fixes
from trainwright.tools.gates import cures
from trainwright.tools.gates.artifacts import digests_of, new_drafts, publish
from trainwright.tools.gates.beside_rivals import beside_rivals, run_reference
from trainwright.tools.gates.call_history import in_vain
from trainwright.tools.gates.cures import cure
from trainwright.tools.gates.decision import About, Option, decide
from trainwright.tools.gates.evidence import Evidence
from trainwright.tools.gates.next_call import facts_of, next_call, option_of
from trainwright.tools.gates.phase_status import phase_status_of
from trainwright.tools.gates.phases import PERMITTED
from trainwright.tools.gates.run_evidence import RunEvidence
from trainwright.tools.gates.studies import studies_under_way
from trainwright.tools.gates.trying import look_instead, options_against, waiting_call
from trainwright.tools.ledger import Look, record, seal_differences
from trainwright.tools.ledger.events import Diagnosed
from trainwright.tools.projects.diagnosis_answer import DiagnosisAnswer, answer_of, trial_of
from trainwright.tools.reports.markdown import granted
from trainwright.tools.training_monitor import Alert, Assessment, Goal, diagnostics_digests
from trainwright.tools.training_monitor.outdone import BesideRival
from trainwright.tools.training_monitor.report import Glance, diagnostic_report, glance
from trainwright.tools.training_orchestrator import refresh_project
from trainwright.tools.workspace import Workspace
from trainwright.tools.workspace.handles import handles
from trainwright.tools.workspace.records import get_project, get_run_of
from trainwright.trainer.base.errors import ConflictError, IntegrityError
from trainwright.trainer.run import RunKind, RunState, write_report

REPORT = "diagnostic_report.md"


def diagnose(
    workspace: Workspace, project: str, run_id: str | None = None, *, fix: str | None = None
) -> DiagnosisAnswer:
    """Assess a run (default: the present configuration's baseline, or before it the run that failed last).

    Args:
        fix: `try` begins to try the fixes of its first alert in short paired runs, the id of a fix that one alone.

    Raises:
        NotFoundError: no such project, run or fix.
        ConflictError: the run belongs to another project, there is no baseline yet and nothing has failed, or there is
            nothing to try.
        IntegrityError: the baseline's record is not as it was sealed.
        GateRefusedError, LimitReachedError: no run may start to try a fix.
    """
    with workspace.session() as session:
        get_project(session, project)
    refresh_project(workspace, project)
    case = _case_of(workspace, project, run_id)
    if fix is not None:
        try_fixes(workspace, project, case.run.id, fix)
    else:
        ensure_tried(workspace, project, case.run.id)
    seen = glance(case.run.directory, case.goal, accepted=case.accepted, rivals=case.rivals)
    plots = _write_report(workspace, case, seen.assessment) if case.is_baseline else []
    found = {"report": str(case.folder / REPORT) if case.is_baseline else None, "plots": plots}
    return _answered(workspace, case, seen).model_copy(update=found)


class _Case(NamedTuple):
    """The run to diagnose, and what of its project counts in that."""

    project: str
    run: RunEvidence
    goal: Goal
    folder: Path
    is_baseline: bool
    """Whether it is the completed baseline, on which the diagnostics gate depends."""
    accepted: set[str]
    """Alerts of the baseline that the owner accepts."""
    rivals: list[BesideRival]
    """Beside which its program was evaluated."""


def _case_of(workspace: Workspace, project: str, run_id: str | None) -> _Case:
    with workspace.session() as session:
        evidence = Evidence(session, workspace, project)
        run = _chosen(evidence, run_id)
        is_baseline = evidence.baseline is not None and evidence.baseline.id == run.id and run.is_complete
        accepted = set(cures.accepted_open(evidence)) if is_baseline else set()
        goal = Goal.model_validate(evidence.project.goal)
        rivals = beside_rivals(run.evaluation, evidence.project.goal, run_reference(run))
        return _Case(project, run, goal, evidence.folder, is_baseline, accepted, rivals)


def _answered(workspace: Workspace, case: _Case, seen: Glance) -> DiagnosisAnswer:
    """Return the answer with its trial and the one next call."""
    run, assessment, own = case.run, seen.assessment, {"project": case.project, "run_id": case.run.id}
    refresh_project(workspace, case.project)
    with workspace.session() as session:
        evidence = Evidence(session, workspace, case.project, inspection=Look())
        done = {alert.id: cures.tried_on(evidence, alert.id, run.row.config_digest) for alert in assessment.alerts}
        ground = _ground_to_conclude(evidence, assessment) if case.is_baseline else ""
        after = NextCall(tool="diagnose_run", arguments=own)
        facts = facts_of(evidence, after=after, about=partial(about_run, evidence, run, seen))
        update: dict[str, Any] = {"trial": trial_of(evidence, run), "next": decide(facts)}
        vain = {alert.id: _in_vain(evidence, alert) for alert in assessment.alerts}
    answer = answer_of(case.project, run, seen, done, vain)
    if ground:
        update |= {"recommendation": "conclude", "reasons": [*answer.reasons, ground]}
    return answer.model_copy(update=update)


def _in_vain(evidence: Evidence, alert: Alert) -> dict[str, str]:
    """Return by fix why the call that makes its change would be in vain, as `next` judges it."""
    calls = {fix.id: evidence.call("configure", "", changes=fix.changes) for fix in alert.fixes if fix.changes}
    return {fix: why for fix, call in calls.items() if (why := in_vain(evidence, call))}


def _ground_to_conclude(evidence: Evidence, assessment: Assessment, new: dict[str, Any] | None = None) -> str:
    """Return why the diagnosis recommends to end below the goal; empty where it does not."""
    is_guess = assessment.fit == "guessing"
    return cures.fixes_exhausted(evidence, new=new) if assessment.recommendation == "optimize" or is_guess else ""


def _chosen(evidence: Evidence, run_id: str | None) -> RunEvidence:
    if run_id is None:
        chosen = evidence.baseline or _broken(evidence)
        if chosen is None:
            raise ConflictError(
                f"Project {evidence.name} has no baseline run of its present configuration, and no run of it failed.",
                remedy=str(next_call(evidence.session, evidence.workspace, evidence.name)),
                document="phases/02_baseline/workflow.md",
            )
        return chosen
    get_run_of(evidence.session, evidence.name, run_id)
    run = evidence.run(run_id)
    assert run is not None  # noqa: S101 - it is a run of this project
    return run


def _broken(evidence: Evidence) -> RunEvidence | None:
    """Return the newest run of the present configuration where it failed or vanished: the obstacle to a baseline."""
    digest = evidence.config_digest
    started = [run_id for run_id, start in evidence.facts.started.items() if start.config_digest == digest]
    run = evidence.run(started[-1]) if started else None
    return run if run is not None and run.status.state in {RunState.FAILED, RunState.INTERRUPTED} else None


def _write_report(workspace: Workspace, case: _Case, assessment: Assessment) -> list[str]:
    """Write plots and report into the project folder and record their digests in the ledger. Raises IntegrityError."""
    project, folder, run = case.project, case.folder, case.run
    with TemporaryDirectory(prefix="trainwright-") as name:  # drawing takes too long to hold the lock
        drawn = Path(name)
        with workspace.session() as session:
            further = _further(Evidence(session, workspace, project), run, assessment)
            names = handles(session, [run.id])
        documents = diagnostics_digests()
        _draw(case, drawn, further, names)
        artifacts = digests_of(drawn)
        diagnosed = Diagnosed(
            run_id=run.id, artifacts=artifacts, version=trainwright.__version__, documents=documents,
            **assessment.as_recorded(),
        )  # fmt: skip
        _refuse_edited(run)  # after all reading: `verify` detects files restored only now by deriving it again
        with workspace.session() as session:
            shutil.copytree(drawn, new_drafts(session, folder), dirs_exist_ok=True)
            record(session, project, diagnosed)
    with workspace.session() as session:
        publish(session, project, folder)
    return [str(folder / name) for name in sorted(artifacts) if name != REPORT]


def _refuse_edited(run: RunEvidence) -> None:
    """Raise IntegrityError when the files of the curves differ from those that the ledger sealed."""
    differences = run.facts.rows.differences(run.row) + seal_differences(
        run.directory, run.sealed or {}, problem=run.untrusted
    )
    if differences:
        again = f"start_training(project={run.row.project!r}, kind={run.row.kind!r})"
        raise IntegrityError(
            f"The record of {run.id} is not as its worker left it, and is not diagnosed: {'; '.join(differences[:3])}.",
            remedy=f"The workspace's owner undoes the edit, or {again} trains it again.",
            document="phases/03_diagnostics/workflow.md",
        )


def _further(evidence: Evidence, run: RunEvidence, assessment: Assessment) -> dict[str, Any]:
    """Return the report's additions of the project: fixes tried, why it may end, and the owner's grants."""
    new = {"run_id": run.id, **assessment.as_recorded()}
    return {
        "tried": {alert.id: cures.on_baseline(evidence, alert.id, new=new) for alert in assessment.alerts},
        "fixed": cures.fixed(evidence, new),
        "ground": _ground_to_conclude(evidence, assessment, new),
        "granted": granted(evidence.session, evidence.workspace, evidence.name),
    }


def _draw(case: _Case, target: Path, further: dict[str, Any], names: Mapping[str, str]) -> None:
    from trainwright.tools.figures.curves import learning_curves
    from trainwright.tools.figures.gradients import gradient_health

    run = case.run.directory
    (target / "plots").mkdir()
    plots = [target / "plots" / "learning_curves.png", target / "plots" / "gradient_health.png"]
    learning_curves([run], plots[0], names)
    gradient_health(run, plots[1], names)
    report = diagnostic_report(run, case.goal, plots, further=further, rivals=case.rivals)
    write_report(target / REPORT, report)


# Facts about the run that a diagnosis reads, beside those of its project (`gates/decision.py`).

CURED = frozenset({RunKind.SMOKE, RunKind.PROBE, RunKind.BASELINE})
"""Kinds of runs that show what the configuration does; the others repeat, vary or end the work on purpose."""


def about_run(evidence: Evidence, run: RunEvidence, seen: Glance) -> About:
    """Return what there is to do about a run: nothing where it meets the goal, or its configuration is another now."""
    state, own = run.status.state, {"project": evidence.name, "run_id": run.id}
    has_learned = state.is_ended and seen.assessment.goal_met is True
    open_now = [one for one in seen.assessment.alerts if one.severity != "info"]
    alerts = [one.model_dump(mode="json") for one in open_now if not is_settled(one, has_learned=has_learned)]
    waiting = waiting_call(evidence, run)
    if run.row.kind == RunKind.CURE:
        source = {"project": evidence.name, "run_id": run.row.source_run}
        waiting = NextCall(tool="diagnose_run", arguments=source, why="it tries a fix of that run")
    found = About(tried=waiting and Option(call=waiting))
    if not state.is_ended:
        why = f"{alerts[0]['id']}: what it trains from here on is lost" if alerts else "it has failed"
        stop = Option(call=NextCall(tool="stop_training", arguments=own, why=why))
        return found.model_copy(update={"lost": stop}) if seen.verdict == "stop" else found
    if state is RunState.INTERRUPTED and seen.verdict != "stop":
        return found.model_copy(update={"broken": option_of(evidence, run.next_call())})
    if seen.assessment.recommendation == "deploy" or not _is_curable(evidence, run):
        return found
    cures = options_against(evidence, run, alerts)
    if alerts and (look := look_instead(run, alerts[0])) is not None:
        cures.insert(0, Option(call=look))
    if alerts and alerts[0]["severity"] == "critical":  # no key is left: the owner, or the code's author
        cures.append(option_of(evidence, cure(evidence, alerts[0])))
    return found.model_copy(update={"cures": cures})


def _is_curable(evidence: Evidence, run: RunEvidence) -> bool:
    is_present = run.row.config_digest == evidence.config_digest
    where = phase_status_of(evidence)
    may_try = not where.is_finished and RunKind.CURE in PERMITTED[where.phase]
    return is_present and run.row.kind in CURED and may_try and not studies_under_way(evidence)
