"""What a run is told to do: its configuration by kind, and the run it repeats or exports."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from trainwright.tools.gates import permits
from trainwright.tools.gates.evidence import Evidence
from trainwright.tools.gates.phases import LOOKING
from trainwright.tools.workspace.records import get_run, latest_config, runs_of
from trainwright.trainer.config import TrainingConfig, apply_changes, config_digest, parse_config, settle
from trainwright.trainer.errors import ConfigurationError, ConflictError
from trainwright.trainer.run import RunKind, RunState

if TYPE_CHECKING:
    from sqlalchemy.orm import Session

    from trainwright.tools.workspace import Workspace
    from trainwright.tools.workspace.tables import Project, Run

SMOKE_STEPS = 10
"""Optimizer steps of a smoke run: enough to see a real batch, a loss and an update."""
REPEATING = frozenset({RunKind.REPLAY, RunKind.EXPORT})


@dataclass(frozen=True)
class Order:
    """A configuration, the project's version it derives from, the source run, and the bound on steps."""

    config: TrainingConfig
    base_config_digest: str
    source: Run | None
    max_steps: int | None
    notes: tuple[str, ...] = ()
    """What of the changes was taken in another form than it was written in."""


def order(
    session: Session,
    workspace: Workspace,
    project: Project,
    kind: RunKind,
    *,
    base: dict[str, Any] | None,
    changes: dict[str, Any],
    seed: int | None,
    source_run: str | None,
    max_steps: int | None,
) -> Order:
    """Settle what a run trains with.

    A replay or export takes its source's configuration as it was; a final run the one that the optimization gate
    chose; every other run `base` (default: the project's newest version). `changes` come on top, and the
    seed of a study's repetition; `changes` themselves leave the seed alone, for a good seed is no finding. Only a
    smoke run may be bounded by `max_steps`, and a probe told how many to measure; a replay has its source's bound.

    Raises:
        ConfigurationError: the changed configuration breaks the schema, they change the seed or a final run,
            `max_steps` for another kind than smoke, or a probe of several processes.
        ConflictError: a replay or export without a completed source, or with changes.
    """
    _check_bound(project, kind, max_steps)
    base_digest = config_digest(parse_config(latest_config(session, project.name).values))
    if kind not in REPEATING:
        values = base if base is not None else permits.base_values(session, workspace, project, kind)
        _check_final(project, kind, changes)
        if base is not None:  # a study's, whose parameters are kept as they are
            whole = changes if seed is None else {**changes, "seed": seed}
            config, notes = parse_config(apply_changes(values, whole)), []
        else:
            settled = settle(changes, values, argument="changes")
            _check_seed(project, kind, values, settled.changes)
            config, notes = settled.config, settled.notes
        _check_alone(project, kind, config)
        bound = SMOKE_STEPS if kind is RunKind.SMOKE and max_steps is None else max_steps
        return Order(config, base_digest, None, bound, tuple(notes))
    if changes or seed is not None:
        changed = sorted({*changes, *(() if seed is None else ("seed",))})
        raise ConflictError(
            f"A run of kind {kind.value} repeats its source exactly; it got changes to {', '.join(changed)}.",
            remedy=f"start_training(project='{project.name}', kind='{kind.value}') without changes or seed.",
        )
    source = _source(session, workspace, project, kind, source_run)
    specification = workspace.run_directory(project.name, source.id).specification()
    bound = specification.max_steps if kind is RunKind.REPLAY else None
    return Order(specification.config, source.base_config_digest, source, bound)


def _check_bound(project: Project, kind: RunKind, max_steps: int | None) -> None:
    """A bound outside the configuration would be a hyperparameter that no record compares."""
    if max_steps is not None and kind not in LOOKING:
        raise ConfigurationError(
            f"A run of kind {kind.value} got max_steps={max_steps}; only a smoke run may be cut short (and a probe "
            "measures so many): every other one trains as long as its configuration says.",
            remedy="Leave max_steps out; how long to train is "
            f"configure(project='{project.name}', changes={{'training.epochs': …}}).",
        )


def _check_alone(project: Project, kind: RunKind, config: TrainingConfig) -> None:
    """A probe times, sweeps and doubles what one process does; of a group it would measure the waiting too."""
    processes = config.distributed.processes
    if kind is RunKind.PROBE and processes > 1:
        raise ConfigurationError(
            f"A probe measures one process, and `distributed.processes` is {processes}.",
            remedy=f"start_training(project='{project.name}', kind='probe', changes={{'distributed.processes': 1}}); a "
            "batch size that it suggests is that of one process.",
            document="configs/distributed.md",
        )


def _check_seed(project: Project, kind: RunKind, values: dict[str, Any], changes: dict[str, Any]) -> None:
    if "seed" in changes:
        own = parse_config(values).seed
        raise ConfigurationError(
            f"A run of kind {kind.value} got seed={changes['seed']!r}; every run has its configuration's seed, "
            f"{own}: the seed with the best result is no improvement.",
            remedy="Leave seed out: a study repeats its best trial on other seeds by itself. For the whole project: "
            f"configure(project='{project.name}', changes={{'seed': …}}).",
            document="reproducibility/seed_control.md",
        )


def _check_final(project: Project, kind: RunKind, changes: dict[str, Any]) -> None:
    if kind is RunKind.FINAL and changes:
        raise ConfigurationError(
            f"A final run got changes to {', '.join(sorted(changes))[:200]}; it trains what the optimization gate "
            "settled.",
            remedy=f"start_training(project='{project.name}', kind='final') without changes, or settle on something "
            f"else: configure(project='{project.name}', changes={{…}}).",
            document="phases/finalization/workflow.md",
        )


def _source(session: Session, workspace: Workspace, project: Project, kind: RunKind, run_id: str | None) -> Run:
    row = get_run(session, run_id) if run_id else _default_source(session, workspace, project, kind)
    allowed = {RunKind.FINAL} if kind is RunKind.EXPORT else set(RunKind) - {RunKind.EXPORT, RunKind.PROBE}
    if row is not None and row.project == project.name and row.kind in allowed:
        state = workspace.run_directory(project.name, row.id).status().state
        if state is RunState.COMPLETED:
            return row
        raise ConflictError(
            f"Run {row.id} is {state.value}; only a completed run can be repeated or exported.",
            remedy=f"run_status(run_id='{row.id}', wait_seconds=50) follows it to its end.",
        )
    what = "final run" if kind is RunKind.EXPORT else "training run"
    wanted = f"Run {run_id} is no {what} of project {project.name}." if row else "There is no completed run yet."
    raise ConflictError(
        f"For {kind.value} a completed {what} is needed. {wanted}",
        remedy=f"project_status(project='{project.name}') lists the runs; give one as source_run.",
    )


def _default_source(session: Session, workspace: Workspace, project: Project, kind: RunKind) -> Run | None:
    """The final run of the chosen configuration; before there is one, a replay repeats the newest baseline."""
    final = Evidence(session, workspace, project.name).final
    if final is not None:
        return final.row
    kinds = (RunKind.FINAL,) if kind is RunKind.EXPORT else (RunKind.FINAL, RunKind.BASELINE)
    rows = [row for row in runs_of(session, project.name, *kinds) if row.label is None]
    return rows[-1] if rows else None
