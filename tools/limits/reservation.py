"""Reservation of a run's share, inside the transaction that starts it: two servers cannot both take the last one."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC
from typing import NamedTuple

from sqlalchemy import func, select
from sqlalchemy.orm import Session

from trainwright.tools.gpus import began_on_cpu, gpus_of, has_gpu
from trainwright.tools.launchers import launcher_of
from trainwright.tools.limits.amounts import Amounts, Reservation, effective_limits
from trainwright.tools.limits.usage import Usage, measured_use, usages
from trainwright.tools.workspace import Workspace
from trainwright.tools.workspace.records import get_project
from trainwright.tools.workspace.settings import ProjectLimits, Settings, WorkspaceLimits
from trainwright.tools.workspace.tables import Project, Run, Study, Trial
from trainwright.trainer.base.errors import LimitReachedError
from trainwright.trainer.config import TrainingConfig
from trainwright.trainer.run import Limits, RunKind

WORKSPACE = "workspace_limits."
PROJECT_NAMES = {
    "wall_clock_seconds": "project_wall_clock_seconds",
    "gpu_hours": "gpu_hours",
    "money": "money",
    "disk_bytes": "disk_bytes",
}
"""Names of amounts among the project's limits; the workspace's limits use the amounts' own names."""


WALL_CLOCK, DISK = "wall_clock_limit", "disk_limit"
LIMIT_REASONS = frozenset({WALL_CLOCK, "gpu_hours_limit", "money_limit", DISK})
"""Stop reasons of runs that reached a limit; of the others than these two a run has no share of its own."""


@dataclass(frozen=True)
class Line:
    """One limit: its used, reserved and remaining amount."""

    name: str
    used: float
    reserved: float
    allowed: float

    @property
    def left(self) -> float:
        """Amount that another run may still take; negative if the limit was lowered meanwhile."""
        return self.allowed - self.used - self.reserved


def reserve(
    session: Session,
    workspace: Workspace,
    project: Project,
    kind: RunKind,
    config: TrainingConfig,
    *,
    run: Run | None = None,
    study: str | None = None,
) -> Reservation:
    """Return a run's reservation. It is valid once the caller's transaction has recorded it in the ledger.

    Args:
        run: a run that is to be resumed: what it has used so far counts against its own share.
        study: the study that the run belongs to: one that began on the CPU reserves no GPU.

    Raises:
        LimitReachedError: nothing is left of a limit, for the project or for the workspace.
    """
    allowed = effective_limits(session, workspace, project)
    is_on_cpu = study is not None and began_on_cpu(session, workspace, project.name, study)
    gpus = 0 if is_on_cpu else expected_gpus(config, kind, workspace.settings)
    price = workspace.settings.price_per_gpu_hour
    lines = limit_table(session, workspace, project, run)
    for line in lines.pop("runs_at_once"):
        if line.left <= 0:
            raise _reached(line, project.name)
    lines["wall_clock_seconds"].append(Line("run_wall_clock_seconds", 0.0, 0.0, allowed.run_wall_clock_seconds))
    lines["disk_bytes"].append(Line("run_disk_bytes", 0.0, 0.0, allowed.run_disk_bytes))
    least = {name: min(found, key=lambda line: line.left) for name, found in lines.items()}
    done = _done(workspace, run)
    applicable = {
        "wall_clock_seconds": True,
        "disk_bytes": True,
        "gpu_hours": gpus > 0,
        "money": gpus > 0 and price > 0,
    }
    for name, line in least.items():
        if applicable[name] and line.left <= getattr(done, name):
            raise _reached(line, project.name, done=getattr(done, name))
    left = Amounts(**{name: max(0.0, line.left) for name, line in least.items()})
    return _reservation(left, gpus, price, allowed.user_code_seconds)


def is_cut_short(workspace: Workspace, run: Run, stop_reason: str | None) -> bool:
    """Return whether a limit ended a run that was given less than a run may use, for the project had no more left."""
    if stop_reason not in LIMIT_REASONS:
        return False
    given = workspace.run_directory(run.project, run.id).limits()
    with workspace.session() as session:
        allowed = effective_limits(session, workspace, get_project(session, run.project))
    if stop_reason == WALL_CLOCK:
        return given.wall_clock_seconds < allowed.run_wall_clock_seconds
    return stop_reason != DISK or given.disk_bytes < allowed.run_disk_bytes


def require_room(session: Session, workspace: Workspace, project: Project) -> None:
    """Raise LimitReachedError if time or disk are used up, whatever running runs will release."""
    lines = limit_table(session, workspace, project)
    for line in lines["wall_clock_seconds"] + lines["disk_bytes"]:
        if line.used >= line.allowed:
            raise _reached(line, project.name)


def expected_gpus(config: TrainingConfig, kind: RunKind, settings: Settings | None = None) -> int:
    """Return how many devices a run will use, as far as that is known without torch.

    One that shares its GPU counts it whole: no neighbour may be there, so less could be too little.
    """
    device = config.training.device
    if device == "cpu" or (launcher_of(kind, config).is_here and not _is_shown_any(device, settings)):
        return 0
    return 1 if kind in {RunKind.EXPORT, RunKind.PROBE} else config.distributed.processes


def _is_shown_any(device: str, settings: Settings | None) -> bool:
    """Return whether a worker of this machine sees a GPU, by the owner's list or, without one, by the machine."""
    if settings is not None and settings.gpus is not None:
        return bool(gpus_of(settings))
    return device != "auto" or has_gpu()


def limit_table(
    session: Session, workspace: Workspace, project: Project, run: Run | None = None, *, look: bool = False
) -> dict[str, list[Line]]:
    """Return the project's and the workspace's line of each amount and of runs_at_once.

    Args:
        run: a run to be left out: one that is to be resumed.
        look: for an answer.
    """
    own, whole = usages(session, workspace, project.name, without=run.id if run else None, look=look)
    first = _column("", own, effective_limits(session, workspace, project), PROJECT_NAMES)
    second = _column(WORKSPACE, whole, workspace.settings.workspace_limits, {})
    return {name: [first[name], second[name]] for name in first}


def _column(
    prefix: str, usage: Usage, allowed: ProjectLimits | WorkspaceLimits, names: dict[str, str]
) -> dict[str, Line]:
    lines = {"runs_at_once": Line(f"{prefix}runs_at_once", usage.living, 0.0, allowed.runs_at_once)}
    for name in PROJECT_NAMES:
        key = names.get(name, name)
        used, reserved = getattr(usage.used, name), getattr(usage.reserved, name)
        lines[name] = Line(prefix + key, used, reserved, getattr(allowed, key))
    return lines


def _reservation(left: Amounts, gpus: int, price_per_gpu_hour: float, user_code_seconds: float) -> Reservation:
    """Reserve a run's share of the remaining amounts; without an expected device, its limit is all that remains."""
    work = Amounts.of_work(left.wall_clock_seconds, gpus, price_per_gpu_hour, left.disk_bytes)
    hours = min(work.gpu_hours, left.gpu_hours)
    share = work.model_copy(update={"gpu_hours": hours, "money": min(hours * price_per_gpu_hour, left.money)})
    counted = share if gpus else left
    limits = Limits(
        wall_clock_seconds=share.wall_clock_seconds,
        gpu_hours=counted.gpu_hours,
        money=counted.money if price_per_gpu_hour else None,
        price_per_gpu_hour=price_per_gpu_hour,
        disk_bytes=int(share.disk_bytes),
        user_code_seconds=user_code_seconds,
    )
    return Reservation(share=share, gpus=gpus, price_per_gpu_hour=price_per_gpu_hour, limits=limits)


def _done(workspace: Workspace, run: Run | None) -> Amounts:
    if run is None:
        return Amounts()
    directory = workspace.run_directory(run.project, run.id)
    return measured_use(directory, None, started_at=run.created_at.replace(tzinfo=UTC).timestamp())


def how_to_raise(limit: str, project: str) -> str:
    """Return how to request more from the owner; limits shared by all projects are in the settings alone."""
    if limit.startswith(WORKSPACE):
        return f"{limit} in settings.yaml."
    return f"configure(project={project!r}, ask_owner={{'limits': {{{limit!r}: …}}}}) asks."


def _reached(line: Line, project: str, *, done: float = 0.0) -> LimitReachedError:
    """Return the error for a used-up limit; `waits` says whether a running run will release some of it."""
    waits = line.reserved > 0 or line.name.endswith("runs_at_once")
    held = f" and {line.reserved:.6g} reserved by runs under way" if line.reserved else ""
    own = f", {done:.6g} by this run itself" if done else ""
    wait = "Wait for or stop a run that is under way; " if waits else ""
    if line.name.endswith("disk_bytes"):
        wait = f"prune_checkpoints(project={project!r}) shows which weights can go; " + wait
    return LimitReachedError(
        f"The limit {line.name} is used up: {line.used:.6g} used{own}{held}, of {line.allowed:.6g}.",
        remedy=f"{wait}only the workspace's owner can raise it: {how_to_raise(line.name, project)}",
        details={
            "limit": line.name,
            "used": line.used + done,
            "reserved": line.reserved,
            "allowed": line.allowed,
            "waits": waits,
        },
    )


# Trials that searches have made, and those that running searches have reserved.

ACTIVE = ("running", "confirming")
DOCUMENT = "phases/04_optimization/workflow.md"


class Trials(NamedTuple):
    """Counts over several studies."""

    made: int
    reserved: int
    """Trials that running searches have not made yet."""


def count_trials(session: Session, project: str | None = None, *, without: str | None = None) -> Trials:
    """Count over the studies of one project, or of all; one study may be left out."""
    counted = session.execute(select(Trial.study, func.count()).group_by(Trial.study))
    made = {str(study): int(count) for study, count in counted}
    studies = [
        study
        for study in session.scalars(select(Study))
        if study.id != without and (project is None or study.project == project)
    ]
    active = (study for study in studies if study.state in ACTIVE)
    reserved = sum(max(0, int(study.search["trials"]) - made.get(study.id, 0)) for study in active)
    return Trials(sum(made.get(study.id, 0) for study in studies), reserved)


def require_trials(session: Session, workspace: Workspace, project: Project, study_id: str | None, trials: int) -> None:
    """Raise LimitReachedError if a study of so many trials exceeds the remaining ones."""
    own = effective_limits(session, workspace, project).trials
    whole = workspace.settings.workspace_limits.trials
    for name, scope, allowed in (("trials", project.name, own), ("workspace_limits.trials", None, whole)):
        count = count_trials(session, scope, without=study_id)
        left = max(0, allowed - count.made - count.reserved)
        if trials > left:
            held = f" ({count.reserved} reserved by searches under way)" if count.reserved else ""
            raise LimitReachedError(
                f"The search asks for {trials} trials; {name} has {left} left of {allowed}{held}.",
                remedy="Search with fewer trials; only the workspace's owner can raise the limit: "
                + how_to_raise(name, project.name),
                document=DOCUMENT,
                details={"limit": name, "used": count.made, "reserved": count.reserved, "allowed": allowed},
            )


# Lines of used and remaining amounts, one per limit.

MEGABYTE = 1e6


def limit_lines(session: Session, workspace: Workspace, project: Project) -> dict[str, str]:
    """Return the used, reserved and remaining amount of every limit of the project.

    A limit of the workspace has a line where it leaves less than the project's own; money, where it has a price.
    """
    allowed = effective_limits(session, workspace, project)
    table = limit_table(session, workspace, project, look=True)
    own, whole = count_trials(session, project.name), count_trials(session)
    table["trials"] = [
        Line("trials", own.made, own.reserved, allowed.trials),
        Line("workspace_limits.trials", whole.made, whole.reserved, workspace.settings.workspace_limits.trials),
    ]
    if not workspace.settings.price_per_gpu_hour:
        del table["money"]
    lines: dict[str, str] = {}
    for first, second in table.values():
        lines |= dict([_worded(first), *([_worded(second)] if second.left < first.left else [])])
    single = {"run_wall_clock_seconds": allowed.run_wall_clock_seconds, "baseline_minutes": allowed.baseline_minutes}
    return lines | {name: f"at most {_number(most)}" for name, most in single.items()}


def _worded(line: Line) -> tuple[str, str]:
    unit, name = (
        (MEGABYTE, line.name.replace("bytes", "megabytes")) if line.name.endswith("bytes") else (1.0, line.name)
    )
    used, reserved, allowed, left = (value / unit for value in (line.used, line.reserved, line.allowed, line.left))
    held = f", {_number(reserved)} reserved" if reserved else ""
    return name, f"{_number(used)} of {_number(allowed)}{held}, {_number(max(0.0, left))} left"


def _number(value: float) -> str:
    return f"{value:.0f}" if value >= 100 or value == int(value) else f"{value:.3g}"
