"""Permits: the only way to a launch. A permit says which decision allows the run and how far it may go (GATE-4)."""

from __future__ import annotations

import time
from datetime import UTC
from typing import TYPE_CHECKING, Any

from trainwright.tools.gates.evidence import Evidence
from trainwright.tools.gates.keeper import evaluate
from trainwright.tools.gates.phases import PERMITTED, Phase, phase_that_permits
from trainwright.tools.gates.standing import Standing, accepted_decisions, standing
from trainwright.tools.workspace.records import latest_config, runs_of
from trainwright.tools.workspace.settings import ProjectLimits
from trainwright.trainer.errors import GateRefusedError, LimitReachedError, TrainwrightError
from trainwright.trainer.run import Limits, RunKind

if TYPE_CHECKING:
    from pathlib import Path

    from sqlalchemy.orm import Session

    from trainwright.tools.workspace import Workspace
    from trainwright.tools.workspace.tables import Project, Run


LAUNCH_SECONDS = 30.0
"""So long a launched worker may take to lock its run."""


def permit(session: Session, workspace: Workspace, project: Project, kind: RunKind) -> dict[str, Any]:
    """Return the permit for a run of this kind, as it is written into `run.json`.

    Raises:
        GateRefusedError: the present phase does not permit this kind; says which checks are missing.
        LimitReachedError: a limit is used up.
    """
    evidence = Evidence(session, workspace, project.name)
    where = standing(evidence)
    if kind not in PERMITTED[where.phase]:
        raise _refusal(evidence, where, kind)
    if where.is_finished and kind in {RunKind.FINAL, RunKind.EXPORT}:
        raise GateRefusedError(
            f"All gates of {project.name} have passed; a further {kind.value} run would look at the test split again.",
            remedy=f"Use final_model/, or change something: configure(project={project.name!r}, changes={{…}}).",
            document="phases/finalization/workflow.md",
        )
    _check_limits(session, workspace, project)
    decisions = accepted_decisions(evidence)
    rests_on = {
        phase.value: sequence for phase, (sequence, _) in decisions.items() if phase.number < where.phase.number
    }
    return {"phase": where.phase.value, "kind": kind.value, "decisions": rests_on, "time": time.time()}


def run_limits(session: Session, workspace: Workspace, project: Project) -> Limits:
    """Return what a new run may use: the run's own limit, or what is left of the project's."""
    allowed = effective_limits(workspace, project)
    left = allowed.project_wall_clock_seconds - seconds_used(session, workspace, project.name)
    disk_left = allowed.disk_bytes - bytes_used(workspace.project_folder(project.name) / "runs")
    return Limits(
        wall_clock_seconds=max(1.0, min(allowed.run_wall_clock_seconds, left)),
        disk_bytes=max(1, disk_left),
        user_code_seconds=allowed.user_code_seconds,
    )


def effective_limits(workspace: Workspace, project: Project) -> ProjectLimits:
    """Return the project's limits, each cut down to the owner's present one."""
    own, owner = ProjectLimits.model_validate(project.limits), workspace.settings.limits
    names = ProjectLimits.model_fields
    return ProjectLimits.model_validate({name: min(getattr(own, name), getattr(owner, name)) for name in names})


def base_values(session: Session, workspace: Workspace, project: Project, kind: RunKind) -> dict[str, Any]:
    """Return the configuration that a run of this kind starts from: for `final`, the optimization gate's choice."""
    if kind is RunKind.FINAL:
        chosen = Evidence(session, workspace, project.name).final_values
        if chosen is not None:
            return chosen
    return dict(latest_config(session, project.name).values)


def expected_digests(session: Session, workspace: Workspace, project: Project) -> dict[str, str]:
    """Return what planning fixed (`data`, `code`, `environment`); empty before the gate has passed."""
    rested_on = _planning(session, workspace, project)
    return {name: rested_on[name] for name in ("data", "code", "environment") if rested_on.get(name)}


def settled_returns(session: Session, workspace: Workspace, project: Project) -> str | None:
    """Return how the smoke run found the model's output to be read; None before the planning gate."""
    evidence = Evidence(session, workspace, project.name)
    smoke = evidence.run(_planning(session, workspace, project).get("smoke_run", ""))
    return smoke.part("resolved").get("returns") if smoke else None


def seconds_used(session: Session, workspace: Workspace, project: str) -> float:
    """Return the seconds that all runs of the project have worked; a run whose record is damaged counts in full.

    In full is from its creation to its end: nobody gains time by damaging a record.
    """
    return sum(_seconds_of(run, workspace) for run in runs_of(session, project))


def _seconds_of(run: Run, workspace: Workspace) -> float:
    try:
        return workspace.run_directory(run.project, run.id).seconds_worked()
    except TrainwrightError:
        end = run.ended_at.replace(tzinfo=UTC).timestamp() if run.ended_at else time.time()
        return end - run.created_at.replace(tzinfo=UTC).timestamp()


def bytes_used(folder: Path) -> int:
    """Return the bytes of all files below the folder; files that vanish meanwhile count as none."""
    total = 0
    for path in folder.rglob("*"):
        try:
            total += path.lstat().st_size
        except OSError:
            continue
    return total


def _planning(session: Session, workspace: Workspace, project: Project) -> dict[str, Any]:
    decision = accepted_decisions(Evidence(session, workspace, project.name)).get(Phase.PLANNING)
    return dict(decision[1]["rested_on"]) if decision else {}


def _refusal(evidence: Evidence, where: Standing, kind: RunKind) -> GateRefusedError:
    report = evaluate(evidence, where.phase)
    needed = phase_that_permits(kind)
    stale = where.gate(where.phase).reasons
    because = f" The {where.phase.value} gate is stale: {'; '.join(stale[:3])}." if stale else ""
    missing = "; ".join(f"{result.id}: {result.measured}" for result in report.blocking[:4])
    first = report.blocking[0].next if report.blocking else None
    call = first or evidence.call("pass_gate", "every check passes", phase=where.phase.value)
    return GateRefusedError(
        f"A run of kind {kind.value} needs the {needed.value} phase; the project is in {where.phase.value}.{because}"
        + (f" Not yet passed: {missing}." if missing else " Its gate has not been passed."),
        remedy=str(call),
        document=where.phase.document,
        details={
            "phase": where.phase.value,
            "checks": [result.model_dump(mode="json") for result in report.blocking],
            "next": call.model_dump(mode="json"),
        },
    )


def _is_living(run: Run, workspace: Workspace) -> bool:
    """Whether a worker holds the run, or was launched so lately that it may not have taken the lock yet."""
    if workspace.run_directory(project=run.project, run_id=run.id).is_locked():
        return True
    age_seconds = time.time() - run.created_at.replace(tzinfo=UTC).timestamp()
    return run.state == "created" and not run.sealed and age_seconds < LAUNCH_SECONDS


def _check_limits(session: Session, workspace: Workspace, project: Project) -> None:
    allowed = effective_limits(workspace, project)
    runs = runs_of(session, project.name)
    living = [run for run in runs if _is_living(run, workspace)]
    disk = bytes_used(workspace.project_folder(project.name) / "runs")
    used = (
        ("runs_at_once", len(living), allowed.runs_at_once),
        (
            "project_wall_clock_seconds",
            round(seconds_used(session, workspace, project.name)),
            allowed.project_wall_clock_seconds,
        ),
        ("disk_bytes", disk, allowed.disk_bytes),
    )
    for name, value, limit in used:
        if value >= limit:
            raise LimitReachedError(
                f"The limit {name} is used up: {value} of {limit:.0f}.",
                remedy="Wait for or stop a running run; only the workspace's owner can raise it, in settings.yaml.",
                details={"limit": name, "used": value, "allowed": limit},
            )
