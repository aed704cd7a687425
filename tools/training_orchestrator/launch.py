"""Starting a run: permit, row, run directory and ledger entry in one transaction, then the worker."""

from __future__ import annotations

import secrets
import shutil
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple

from sqlalchemy import select
from sqlalchemy.orm import Session

from trainwright.tools import gpus, ledger, limits, owner, tracking
from trainwright.tools.environments import runtime_of
from trainwright.tools.gates import permits
from trainwright.tools.gates.evidence import Evidence
from trainwright.tools.gates.first_of_kind import require_tried
from trainwright.tools.gates.folds import is_fold
from trainwright.tools.gates.rows_moved import runs_to_keep_sides_of
from trainwright.tools.gates.searches import chosen_keys
from trainwright.tools.launchers import Launch, Launcher, keep_warm, launcher_of, worker_wall, write_launch
from trainwright.tools.ledger.events import RunStarted
from trainwright.tools.owner.grants import accepted_alerts
from trainwright.tools.training_monitor.documents import watched_by_worker
from trainwright.tools.training_orchestrator import locations
from trainwright.tools.training_orchestrator.follow import refresh_workspace
from trainwright.tools.training_orchestrator.run_plan import (
    RunPlan,
    RunRequest,
    existing_run,
    exports_program,
    plan_run,
)
from trainwright.tools.training_orchestrator.run_view import RunView
from trainwright.tools.training_orchestrator.views import view_run
from trainwright.tools.workspace import Workspace
from trainwright.tools.workspace.records import get_project, get_run, latest_config, require_active
from trainwright.tools.workspace.tables import Project, Run, now
from trainwright.trainer.base.canonical import digest_file
from trainwright.trainer.base.errors import ConfigurationError, ConflictError, StorageError
from trainwright.trainer.config import TrainingConfig, config_digest, parse_config
from trainwright.trainer.run import Goal, RunDirectory, RunKey, RunKind, RunSpecification
from trainwright.trainer.run.conditions import Watched

STANDS = (
    "The baseline stands as the final run: optimization settled on its configuration. To train longer: "
    "start_training(kind='final', template='production')."
)
COMMITTING = frozenset({RunKind.BASELINE, RunKind.TRIAL, RunKind.ABLATION, RunKind.FINAL})
"""Kinds that commit to their state around a few steps."""
COMPLETE = "It is complete for this configuration, data, code and packages; nothing was started."
LONGEST_KEY = 128
LONGEST_ID = 63


def start_run(
    workspace: Workspace,
    project: str,
    kind: RunKind,
    *,
    changes: dict[str, Any] | None = None,
    base: dict[str, Any] | None = None,
    seed: int | None = None,
    idempotency_key: str | None = None,
    study_id: str | None = None,
    source_run: str | None = None,
    max_steps: int | None = None,
    template: str | None = None,
    label: str | None = None,
    finding: str | None = None,
    until_epoch: int | None = None,
    gpu: gpus.Need | None = None,
) -> RunView:
    """Start a run and return at once; a detached worker trains. The same plan with the same key gives the same run.

    Without a key, a complete run of the same configuration, data, code and packages is returned, and not repeated.

    Args:
        changes: dotted configuration keys to values, on top of `base`; not the seed. Of a final run its overlay.
        base: values to start from instead of the project's configuration (a study's).
        seed: replaces the configuration's seed; for a study's repetitions, never an agent's choice.
        source_run: id of the run that a replay repeats or an export exports; found by itself when left out.
        finding: the leak that a leak_price run is without, by its name in the validation.
        until_epoch: stop in order after this epoch, to be resumed: a rung of a study.
        gpu: how it wants its GPU; by default one of its own, or the least loaded where all are taken.
        template: production, for a final run: its keys of the overlay's list, below `changes`.

    Raises:
        GateRefusedError, LimitReachedError: no permit; nothing was written.
        ConfigurationError, ConflictError, NotFoundError: the plan makes no sense, or its study was stopped; nothing
            was written.
        StorageError: the run directory or the database could not be written.
    """
    request = RunRequest(
        kind, dict(changes or {}), base, seed, _checked_key(idempotency_key), study_id, source_run, max_steps, template,
        label if finding is None else finding, finding, until_epoch,
    )  # fmt: skip
    refresh_workspace(workspace)
    _make_runtime_ready(workspace, project, kind)
    run_key, written = RunKey.new(), list[RunDirectory]()
    try:
        with workspace.session() as session:
            decided = _decide(Evidence(session, workspace, project), request, gpu, run_key, written)
    except BaseException:
        for directory in written:  # the row is rolled back, so its folder is removed too
            shutil.rmtree(directory.path, ignore_errors=True)
        raise
    notes = list(decided.plan.notes)
    if written:
        decided.launcher.start(written[0], decided.launch, run_key)
        notes += _shares(decided.beside)
        notes += tracking.follow_asked(workspace, decided.plan.config)
    view = view_run(workspace, decided.run).model_copy(update={"taken_as": notes or None})
    if not decided.is_complete:
        return view
    is_other = decided.run.kind != kind.value
    return view.model_copy(update={"note": f"{COMPLETE} {STANDS}" if is_other else COMPLETE})


class _Decision(NamedTuple):
    """The run that answers a request: a new one, the earlier one of its key, or one that is complete already."""

    run: Run
    plan: RunPlan
    launcher: Launcher
    is_complete: bool = False
    launch: Launch = Launch(launched_at=0.0)
    beside: tuple[str, ...] = ()
    """Runs that it shares its GPU with, though they wanted it for themselves."""


def _decide(
    evidence: Evidence, request: RunRequest, gpu: gpus.Need | None, key: RunKey, written: list[RunDirectory]
) -> _Decision:
    """Permit, plan, reserve and record a run; the directory of a new one is put into `written`."""
    session, kind = evidence.session, request.kind
    earlier = _earlier(session, evidence.name, request.key)
    permit: dict[str, Any] = {}
    if earlier is None:
        if request.study is not None:
            require_active(session, request.study)
        permit = permits.permit(evidence, kind, is_short=request.is_short)
    plan = plan_run(evidence, request)
    launcher = allowed_launcher(evidence.workspace, kind, plan.config)
    if earlier is not None:
        return _Decision(_the_same(evidence.workspace, earlier, request, plan), plan, launcher)
    if request.key is None and request.study is None:
        complete = existing_run(evidence, kind, plan)
        if complete is not None:
            return _Decision(complete, plan, launcher, is_complete=True)
    if request.study is None:
        require_tried(evidence, kind)
    share = limits.reserve(
        session, evidence.workspace, evidence.project, kind, plan.config, study=request.study
    ).until(request.until_epoch)  # fmt: skip
    given = gpus.assign(
        session, evidence.workspace, evidence.name, kind, plan.config, study=request.study, need=gpu,
        like=plan.source.id if plan.source else None,
    )  # fmt: skip
    launch = Launch(attempt=1, gpus=given.gpus, runs_per_gpu=given.runs_per_gpu, hides_gpus=given.hides_gpus)
    started = _started(evidence.name, request, plan)
    permit = permit | {"reserved": share.model_dump()}
    written.append(_write(evidence, started, plan=plan, permit=permit, launch=launch))
    why = why_no_wall(evidence.workspace, kind, plan.config)
    walled = started.model_copy(update={"wall": worker_wall.held(written[0].specification(), why)})
    run = _record(session, walled, written[0], key if launcher.gives_key else None, launch)
    return _Decision(run, plan, launcher, launch=launch, beside=given.beside)


def _make_runtime_ready(workspace: Workspace, project: str, kind: RunKind) -> None:
    """Fetch what a worker lacks in the project's environment before the database is held. Raises ConfigurationError."""
    with workspace.session() as session:
        root = Path(get_project(session, project).code_root)
        try:
            config = parse_config(latest_config(session, project).values)
        except ConfigurationError:
            return  # the decision reads it with its proof: that it was edited, above all
    runtime_of(workspace, config, root, is_here=launcher_of(kind, config).is_here)


def _shares(beside: tuple[str, ...]) -> list[str]:
    """Return a sentence where a run was given a GPU that others are on."""
    told = f"every GPU is taken: it shares one with {', '.join(beside)}, and takes longer; "
    return [f"{told}stop_training ends a run that is not needed"] if beside else []


def replay_run(
    workspace: Workspace, project: str, *, run_id: str | None = None, idempotency_key: str | None = None,
    steps: int | None = None,
) -> RunView:  # fmt: skip
    """Train a completed run again, to compare the weights tensor by tensor. Raises as `start_run` does.

    Args:
        run_id: the run to repeat; by default the final run, or before there is one the newest baseline.
        steps: repeat the first steps alone and compare their records: it may carry a stale plan's evidence over.
    """
    return start_run(
        workspace, project, RunKind.REPLAY, source_run=run_id, idempotency_key=idempotency_key, max_steps=steps
    )


def allowed_launcher(workspace: Workspace, kind: RunKind, config: TrainingConfig) -> Launcher:
    """Return the launcher of such a run.

    Raises:
        ConfigurationError: it hands no key over, so that nobody signs what is recorded, and the owner allows none.
    """
    settings = workspace.settings.warm_workers
    keep_warm(workspace.path / "cache" / "warm", most=settings.most, idle_seconds=settings.idle_seconds)
    launcher = launcher_of(kind, config)
    if not launcher.gives_key and not workspace.settings.outer_launcher:
        raise ConfigurationError(
            f"`distributed.launcher` = {launcher.name!r} needs the owner's consent: such a run's worker holds no key, "
            "and nothing signs what it records.",
            remedy="Set distributed.launcher own; or the workspace's owner sets outer_launcher: true in settings.yaml.",
            document="configs/distributed.md",
        )
    return launcher


def new_id(kind: str, project: str) -> str:
    """Return `<kind>-<project>-<YYYYMMDD-HHMMSS>-<6 hex>`, the project's part shortened to fit 63 characters."""
    tail = f"{datetime.now(UTC):%Y%m%d-%H%M%S}-{secrets.token_hex(3)}"
    room = LONGEST_ID - len(kind) - len(tail) - 2
    return f"{kind}-{project[:room].strip('-_')}-{tail}"


def _started(project: str, request: RunRequest, plan: RunPlan) -> RunStarted:
    kind = request.kind
    return RunStarted(
        run_id=new_id(kind.value, project),
        kind=kind.value,
        label=request.label,
        config_digest=config_digest(plan.config),
        base_config_digest=plan.base_config_digest,
        seed=plan.config.seed,
        source_run=plan.source.id if plan.source else None,
        study=request.study,
        idempotency_key=request.key,
        created_at=now(),
    )


def _write(
    evidence: Evidence, run: RunStarted, *, plan: RunPlan, permit: dict[str, Any], launch: Launch
) -> RunDirectory:
    session, workspace, project = evidence.session, evidence.workspace, evidence.project
    root = Path(project.code_root)
    _check_root(session, workspace, project, root)
    source = workspace.run_directory(project.name, plan.source.id).path if plan.source else None
    plans_anew = permit["phase"] == "planning"  # then it measures what a stale plan had fixed
    expected = {} if plans_anew else permits.expected_digests(evidence)
    specification = RunSpecification(
        run_id=run.run_id,
        project=project.name,
        kind=RunKind(run.kind),
        config=plan.config,
        config_digest=run.config_digest,
        code_root=str(root.resolve()),
        linked_roots=[str(one) for one in workspace.settings.allowed_roots(workspace.path)],
        runtime=runtime_of(workspace, plan.config, root, is_here=launcher_of(RunKind(run.kind), plan.config).is_here),
        goal=Goal.model_validate(project.goal),
        limits=limits.Reservation.model_validate(permit["reserved"]).limits,
        max_steps=plan.max_steps,
        exemptions=owner.exempted_operations(session, workspace, project.name),
        source_run=str(source) if source else None,
        expected=_expected(expected, kept=_held_to(evidence, plan, RunKind(run.kind), bool(permit.get("is_short")))),
        expected_packages=permits.expected_packages(evidence),
        validated_by=permits.validated_by(evidence),
        returns=plan.config.returns or permits.settled_returns(evidence),
        first_looks=str(workspace.path / "cache" / "first_looks"),
        sides=_sides(evidence, plan, RunKind(run.kind)),
        data_of=_data_of(evidence, plan, RunKind(run.kind)) or run.run_id,
        connections=locations.connections(workspace.settings, plan.config),
        data_cache=str(workspace.path / "cache" / "data"),
        data_cache_bytes=workspace.settings.data_cache_bytes,
        evaluation_rows_bytes=workspace.settings.evaluation_rows_bytes,
        permit=permit,
        chosen=chosen_keys(evidence, plan.config),
        commits_steps=RunKind(run.kind) in COMMITTING and launcher_of(RunKind(run.kind), plan.config).gives_key,
        overlay=plan.overlay,
        watch=watched_under(evidence),
        exports_program=exports_program(run, evidence.config, plan.config),
        wall=None
        if why_no_wall(workspace, RunKind(run.kind), plan.config)
        else workspace.settings.wall(workspace.path),
    )
    path = workspace.run_directory(project.name, run.run_id).path
    try:
        directory = RunDirectory.create(path, specification)
        write_launch(path, launch)
    except (OSError, StorageError) as error:
        shutil.rmtree(path, ignore_errors=True)
        raise StorageError(
            f"The run directory of {run.run_id} could not be written: {error}.",
            remedy="Free disk space or make the workspace writable; `trainwright doctor` checks both.",
        ) from error
    return directory


def why_no_wall(workspace: Workspace, kind: RunKind, config: TrainingConfig) -> str:
    """Return why the worker of such a run works behind no wall; empty where it works behind one."""
    return worker_wall.why_none(
        workspace.path, wanted=workspace.settings.walls is not None, is_here=launcher_of(kind, config).is_here
    )


def watched_under(evidence: Evidence) -> list[Watched]:
    """Return what the worker evaluates itself: an alert that the owner accepts must stop no run."""
    accepted = accepted_alerts(evidence.grants)
    return [one for one in watched_by_worker() if one.id not in accepted]


def _sides(evidence: Evidence, plan: RunPlan, kind: RunKind) -> list[str]:
    """Return the run directories by which rows keep their sides: its source's, or planning's; a plan's own are new."""
    workspace, project = evidence.workspace, evidence.project.name
    if plan.source is not None:
        return workspace.run_directory(project, plan.source.id).specification().sides
    if kind is not RunKind.SMOKE and evidence.smoke is not None:
        return evidence.smoke.directory.specification().sides
    return [str(workspace.run_directory(project, name).path) for name in runs_to_keep_sides_of(evidence)]


def _data_of(evidence: Evidence, plan: RunPlan, kind: RunKind) -> str | None:
    """Return the run whose data from elsewhere this one reads: its source's, or planning's; None: it fetches them."""
    if plan.source is not None:
        return evidence.workspace.run_directory(evidence.project.name, plan.source.id).specification().data_of
    return None if kind is RunKind.SMOKE else permits.data_of(evidence)


def _held_to(evidence: Evidence, plan: RunPlan, kind: RunKind, is_short: bool) -> set[str]:
    """Return what of a plan a run must meet: a short replay its data; without a leak, or of another fold, all else."""
    if is_short:
        return {"data"}
    other_rows = kind is RunKind.LEAK_PRICE or (kind is RunKind.ABLATION and is_fold(evidence.config, plan.config))
    other_rows |= kind is RunKind.CURE and plan.config.data != evidence.config.data  # a fix that scales the inputs
    return {"code", "environment"} | (set() if other_rows else {"data"})


def _expected(fixed: dict[str, str], *, kept: set[str]) -> dict[str, str]:
    return {name: digest for name, digest in fixed.items() if name in kept}


def _check_root(session: Session, workspace: Workspace, project: Project, root: Path) -> None:
    granted = [request.grant for request in owner.granted(session, workspace, project.name)]
    needed = owner.root_grants(workspace, root.resolve())
    if not root.is_dir() or any(grant not in granted for grant in needed):
        raise ConfigurationError(
            f"The project's code_root {root.name!r} is not a folder inside the allowed code roots any more.",
            remedy=f"Bring the folder back, or name where it is now: configure(project={project.name!r}, "
            "changes={'code_root': …}); the workspace's owner allows roots in settings.yaml.",
        )


def _record(session: Session, started: RunStarted, directory: RunDirectory, key: RunKey | None, launch: Launch) -> Run:
    """Record the run plan with its run directory's values."""
    specification = directory.specification()
    recorded = {
        "specification": digest_file(directory.path / "run.json"), "permit": specification.permit,
        "run_key": None if key is None else key.public,
        **({"rows_key": key.rows_public} if key is not None and specification.kind is RunKind.SMOKE else {}),
        **({"overlay": overlay} if (overlay := specification.overlay) else {}),
        **({"gpus": [gpu.model_dump() for gpu in launch.gpus]} if launch.gpus else {}),
    }  # fmt: skip
    ledger.record(session, specification.project, started.model_copy(update=recorded))
    return get_run(session, started.run_id)


def _earlier(session: Session, project: str, key: str | None) -> Run | None:
    if key is None:
        return None
    return session.scalars(select(Run).where(Run.project == project, Run.idempotency_key == key)).first()


def _the_same(workspace: Workspace, run: Run, request: RunRequest, plan: RunPlan) -> Run:
    """Return the earlier run of a key if its plan is the same: a key must not pass one run off for another."""
    ordered: dict[str, Any] = {
        "kind": request.kind.value,
        "study": request.study,
        "configuration": config_digest(plan.config),
    }
    earlier: dict[str, Any] = {"kind": run.kind, "study": run.study, "configuration": run.config_digest}
    if request.kind is RunKind.EXPORT:
        specification = workspace.run_directory(run.project, run.id).specification()
        for found, config in ((ordered, plan.config), (earlier, specification.config)):
            found |= {"export": config.deployment.model_dump(mode="json"), "reference": config.reference}
    differing = [name for name, value in ordered.items() if earlier[name] != value]
    if differing:
        raise ConflictError(
            f"The idempotency key {run.idempotency_key!r} already names the {run.kind} run {run.id}, which has another "
            f"{' and another '.join(differing)} than this order.",
            remedy=f"Use another key for kind {request.kind.value}, or look at run_status(run_id='{run.id}').",
            details={name: [earlier[name], ordered[name]] for name in differing},
        )
    return run


def _checked_key(key: str | None) -> str | None:
    if key is not None and not 1 <= len(key) <= LONGEST_KEY:
        raise ConfigurationError(
            f"The idempotency key has {len(key)} characters; it must have 1 to {LONGEST_KEY}.",
            remedy="Give a short text of your own, for example 'baseline-1'.",
        )
    return key
