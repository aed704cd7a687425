"""Job of a project: what it trains, what the owner's limits leave it, and which variables it needs by name."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sqlalchemy.orm import Session

import trainwright
from trainwright.tools.clouds.gpus import Gpu
from trainwright.tools.clouds.request import CloudRequest
from trainwright.tools.gates.evidence import Evidence
from trainwright.tools.gates.run_evidence import RunEvidence
from trainwright.tools.ledger import Look
from trainwright.tools.limits import limit_table
from trainwright.tools.limits.counted_price import counted_price
from trainwright.tools.limits.reservation import how_to_raise
from trainwright.tools.pipeline import Definition
from trainwright.tools.pipeline.writing import definition_of
from trainwright.tools.training_orchestrator import refresh_project
from trainwright.tools.training_orchestrator.locations import connections
from trainwright.tools.workspace import Settings, Workspace
from trainwright.tools.workspace.settings import ProjectLimits
from trainwright.trainer.base.errors import ConfigurationError, LimitReachedError
from trainwright.trainer.base.time_units import HOUR
from trainwright.trainer.config import TrainingConfig
from trainwright.trainer.data.remote.connections import Connection, variables_of
from trainwright.trainer.run.evidence import Imported

LEFT = {"wall_clock_seconds": "project_wall_clock_seconds", "gpu_hours": "gpu_hours", "money": "money",
        "disk_bytes": "disk_bytes"}  # fmt: skip
"""Amounts to the project's limits that hold what is left of them on the other machine."""
NOT_RESERVED = (
    "nothing is reserved by writing a job: each that is started may use all that is left now, and what runs use there "
    "is not in this ledger until their workspace is brought home. One at a time keeps the owner's limits"
)
OWN = "trainwright"
LEFT_OUT = (".git", ".venv", "venv", "__pycache__", ".trainwright", "node_modules", ".env", ".env.*")
"""What stays here of the code root: machinery, and files that usually hold secrets."""


@dataclass(frozen=True)
class Job:
    """All that the files of a job are made of, beside the platform's own values."""

    name: str
    definition: Definition
    code_root: Path
    limits: ProjectLimits
    """What is left of the owner's limits: the other machine's workspace begins with it."""
    price_per_gpu_hour: float
    price_from: str
    seconds: int
    """After which the platform ends the job."""
    requirements: list[str]
    variables: list[str]
    """Environment variables that the data's credentials are in."""
    owners: dict[str, Any]
    """What else of the owner's settings holds there: of data and code."""
    left_out: list[str]
    """Of the code root, what no machine gets: names of any depth as patterns, or a path that begins with `/`."""
    warnings: list[str]

    @property
    def needs_git(self) -> bool:
        """Whether planning there asks for a repository, and so for git."""
        return bool(self.owners.get("require_git"))

    def settings(self) -> dict[str, Any]:
        """Return the owner's settings of the other machine's workspace."""
        return {
            "limits": self.limits.model_dump(),
            "price_per_gpu_hour": self.price_per_gpu_hour,
            "approvals": ["terminal"],
            **self.owners,
        }


def job_of(workspace: Workspace, request: CloudRequest, gpu: Gpu) -> Job:
    """Return the job.

    Raises:
        NotFoundError: no such project.
        ConfigurationError: the owner's settings let the configuration's data come from nowhere.
        LimitReachedError: the owner's limits leave nothing, or less than the hours that are asked for.
    """
    refresh_project(workspace, request.project)
    with workspace.session() as session:
        evidence = Evidence(session, workspace, request.project, inspection=Look())
        config, settings = evidence.config, workspace.settings
        _require_portable(config, request.project)
        price, price_from = counted_price(
            workspace.path, settings, request.platform, gpu.device.name, spot=request.spot
        )
        limits = _limits_left(session, workspace, evidence)
        seconds = _seconds(request, limits, gpu, price)
        args, named = {} if config.data is None else config.data.args, connections(settings, config)
        run, code_root = evidence.smoke, Path(evidence.project.code_root)
        processes = config.distributed.processes
        longest = min(limits.run_wall_clock_seconds, float(seconds))
        return Job(
            name=_dns_name(request.project),
            definition=definition_of(evidence),
            code_root=code_root,
            limits=limits.model_copy(update={"run_wall_clock_seconds": longest}),
            price_per_gpu_hour=price,
            price_from=price_from,
            seconds=seconds,
            requirements=_requirements(request, run),
            variables=sorted(variables_of(args, named)),
            owners=_owners(settings, named),
            left_out=_left_out(settings, workspace.path, code_root),
            warnings=[*_warnings(request, gpu, price, processes, run), *_files_of(named)],
        )


def _owners(settings: Settings, named: Mapping[str, Connection]) -> dict[str, Any]:
    """Return what the owner's settings say of data and code, with no more connections than the configuration names."""
    return {
        "connections": {name: one.model_dump(exclude_none=True) for name, one in named.items()},
        **settings.model_dump(include={"data_locations", "data_variables", "require_git"}),
    }


def _left_out(settings: Settings, folder: Path, code_root: Path) -> list[str]:
    """Return what stays here: the usual (a repository goes if one is required), and a workspace below the code root."""
    own, root = folder.resolve(), code_root.resolve()
    usual = [name for name in LEFT_OUT if name != ".git" or not settings.require_git]
    return usual + ([f"/{own.relative_to(root).as_posix()}"] if own != root and own.is_relative_to(root) else [])


def _files_of(named: Mapping[str, Connection]) -> list[str]:
    return [
        f"the connection {name} reads a file of this machine: put it at {one.url_file} there too"
        for name, one in named.items()
        if one.url_file is not None
    ]


def _limits_left(session: Session, workspace: Workspace, evidence: Evidence) -> ProjectLimits:
    """Return the project's limits with what is left of each amount. Raises LimitReachedError where nothing is."""
    table = limit_table(session, workspace, evidence.project, look=True)
    left: dict[str, float] = {}
    for amount, name in LEFT.items():
        line = min(table[amount], key=lambda each: each.left)
        counts = amount != "money" or workspace.settings.price_per_gpu_hour > 0
        if line.left <= 0 and counts:
            raise LimitReachedError(
                f"{line.name}: nothing is left of {line.allowed:g}, so a job would stop at once.",
                remedy=how_to_raise(line.name, evidence.name),
            )
        left[name] = int(line.left) if name == "disk_bytes" else line.left
    return evidence.limits.model_copy(update={**left, "trials": max(evidence.trials_left, 1)})


def _seconds(request: CloudRequest, limits: ProjectLimits, gpu: Gpu, price: float) -> int:
    """Return the time-out: the asked one, at most what time, GPU hours and money leave."""
    hours = {
        "project_wall_clock_seconds": limits.project_wall_clock_seconds / HOUR,
        "gpu_hours": limits.gpu_hours / gpu.count,
    }
    if price > 0:
        hours["money"] = limits.money / (price * gpu.count)
    name = min(hours, key=lambda each: hours[each])
    if request.hours is not None and request.hours > hours[name] * (1 + 1e-9):
        raise LimitReachedError(
            f"--hours {request.hours:g} on {gpu.count} {gpu.name} goes beyond {name}: {hours[name]:.4g} are left.",
            remedy=f"--hours {hours[name]:.4g}, or fewer GPUs. For more: {how_to_raise(name, request.project)}",
        )
    return max(int((request.hours or min(hours[name], 24.0)) * HOUR), 60)


def _requirements(request: CloudRequest, run: RunEvidence | None) -> list[str]:
    """Return Trainwright and the packages that planning's smoke run imported, in its versions."""
    own = request.requirement or f"{OWN}[train]=={trainwright.__version__}"
    if run is None or not run.is_complete:
        return [own]
    versions, imported = run.environment.packages, run.part(Imported).packages
    apart = {OWN, *run.environment.unreleased}
    return [own, *sorted(f"{name}=={versions[name].partition('+')[0]}" for name in imported
                         if name in versions and name not in apart)]  # fmt: skip


def _require_portable(config: TrainingConfig, project: str) -> None:
    """Refuse a project whose runs work in an environment of this machine. Raises ConfigurationError."""
    if config.environment is not None and config.environment.named:
        raise ConfigurationError(
            f"Runs of {project} work in `environment` {config.environment}, which a rented machine does not have.",
            remedy=f"configure(project={project!r}, changes={{'environment': null}}, reason='trains elsewhere'): a job "
            "then installs the packages that a smoke run records into its own Python.",
            document="configs/environment.md",
        )


def _warnings(
    request: CloudRequest, gpu: Gpu, price: float, processes: int, run: RunEvidence | None
) -> list[str]:  # fmt: skip
    found = [NOT_RESERVED]
    if not price:
        found.append(
            "money is not counted: neither price_per_gpu_hour in settings.yaml nor a row of prices.yaml "
            f"({request.platform}, {gpu.device.name}{', spot' if request.spot else ''}) says what an hour costs. Time "
            "and GPU hours are the only caps"
        )
    if gpu.count > 1 and processes != gpu.count and not request.search:
        found.append(
            f"{gpu.count} GPUs are rented and the configuration has distributed.processes {processes}: "
            f"configure(project={request.project!r}, changes={{'distributed.processes': {gpu.count}}})"
        )
    if run is None or not run.is_complete:
        found.append("no smoke run has recorded the packages: requirements.txt names Trainwright alone")
    if not request.requirement:
        found.append(
            f"requirements.txt wants {OWN}=={trainwright.__version__} from an index; --requirement names a wheel"
        )
    return found


def _dns_name(project: str) -> str:
    """Return the project's name as Kubernetes, Slurm and Modal take it."""
    name = re.sub(r"[^a-z0-9]+", "-", project.lower()).strip("-")[:40].strip("-")
    return f"tw-{name or 'project'}"
