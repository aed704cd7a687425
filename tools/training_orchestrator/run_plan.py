"""Plan of a run: its configuration by kind, and the run it repeats or exports."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from trainwright.tools.gates import permits
from trainwright.tools.gates.call_history import complete_run
from trainwright.tools.gates.carry_over import told_steps
from trainwright.tools.gates.evidence import Evidence
from trainwright.tools.gates.folds import is_fold
from trainwright.tools.gates.leak_prices import changes_without_leak
from trainwright.tools.gates.overlay import TEMPLATE, overlay_of
from trainwright.tools.gates.phase_status import phase_status_of
from trainwright.tools.gates.phases import LOOKING
from trainwright.tools.gates.planned_code import require_planned_code
from trainwright.tools.ledger.events import RunStarted
from trainwright.tools.workspace import Workspace
from trainwright.tools.workspace.records import get_run, runs_of
from trainwright.tools.workspace.tables import Project, Run
from trainwright.trainer.base.errors import ConfigurationError, ConflictError
from trainwright.trainer.checkpoints.index import has_weights, list_checkpoints
from trainwright.trainer.config import (
    TrainingConfig,
    apply_changes,
    config_digest,
    merge_changes,
    parse_config,
)
from trainwright.trainer.run import RunKind, RunState

KEPT = frozenset({RunKind.SMOKE, RunKind.BASELINE, RunKind.FINAL, RunKind.REPLAY, RunKind.EXPORT,
                  RunKind.LEAK_PRICE})  # fmt: skip
"""Kinds whose second run would be the same again. A probe measures a machine, and an ablation is an attempt."""
SMOKE_STEPS = 10
"""Optimizer steps of a smoke run: enough to see a real batch, a loss and an update."""
OF_ROWS = ("data.use", "data.split", "data.args.path", "data.args.target", "data.args.features", "data.args.columns")
"""Keys whose change makes other rows or inputs."""
REPEATING = frozenset({RunKind.REPLAY, RunKind.EXPORT})
CONFIRMATION = "confirmation"
"""Label of the runs that repeat a study's best configuration and the baseline's."""


def exports_program(run: RunStarted, planned: TrainingConfig, config: TrainingConfig) -> bool:
    """Return whether a run leaves a program: its result is compared with others on the planned rows."""
    is_attempt = run.kind == RunKind.ABLATION and run.study is None and not is_fold(planned, config)
    return run.kind in {RunKind.BASELINE, RunKind.FINAL} or run.label == CONFIRMATION or is_attempt


@dataclass(frozen=True)
class RunRequest:
    """A run as it is asked for; the fields are `start_run`'s arguments."""

    kind: RunKind
    changes: dict[str, Any] = field(default_factory=dict)
    base: dict[str, Any] | None = None
    seed: int | None = None
    key: str | None = None
    """The idempotency key."""
    study: str | None = None
    source_run: str | None = None
    max_steps: int | None = None
    template: str | None = None
    label: str | None = None
    finding: str | None = None
    """The leak that a leak_price run is without."""
    until_epoch: int | None = None
    code: str | None = None
    """The snapshot of the code that an experiment runs from."""

    @property
    def is_short(self) -> bool:
        """Whether it repeats the first steps of a run alone."""
        return self.kind is RunKind.REPLAY and self.max_steps is not None


@dataclass(frozen=True)
class RunPlan:
    """A configuration, the project's version it derives from, the source run, and the bound on steps."""

    config: TrainingConfig
    base_config_digest: str
    source: Run | None = None
    max_steps: int | None = None
    overlay: dict[str, Any] = field(default_factory=dict)
    """A final run's overlay on the accepted configuration."""
    notes: tuple[str, ...] = ()
    """Changes that were read in another form than they were written in; of a short replay, what it is good for."""


def plan_run(evidence: Evidence, request: RunRequest) -> RunPlan:
    """Derive the configuration that a run trains with.

    A replay or export takes its source's configuration as it was (an export: with the present `deployment` and
    reference); a final run the one that the optimization gate chose, with an overlay of template and changes
    (`gates.overlay`); every other run `base` (default: the project's newest version). `changes` come on top, and the
    seed of a study's repetition; `changes` themselves leave the seed alone, for a good seed is no finding. Only a
    smoke run may be bounded by `max_steps`, and a probe given a number to measure; a replay has its source's bound, or
    repeats so many of the first steps.

    Raises:
        ConfigurationError: the changed configuration breaks the schema, they change the seed, a final run beyond its
            overlay's list, `max_steps` for another kind than smoke, `template` for another than final, or a probe of
            several processes.
        ConflictError: a replay or export without a completed source, or with changes.
    """
    _check_bound(evidence.project, request.kind, request.max_steps)
    _check_template(evidence.project, request.kind, request.template, request.changes)
    return _repeated(evidence, request) if request.kind in REPEATING else _trained(evidence, request)


def _trained(evidence: Evidence, request: RunRequest) -> RunPlan:
    kind, seed, changes, notes = request.kind, request.seed, _asked(evidence, request), list[str]()
    values = request.base if request.base is not None else permits.base_values(evidence, kind)
    if request.base is None:
        merged = merge_changes(changes, values, argument="changes")
        trained, changes, notes = merged.values, merged.changes, merged.notes
    else:  # a trial of a study: its parameters are kept as they are
        trained = apply_changes(values, changes)
    _check_seed(evidence.project, kind, values, changes)
    config = parse_config(trained if seed is None else {**trained, "seed": seed})
    if kind is RunKind.FINAL:  # the ledger keeps an overlay key by key
        searched = list(evidence.confirmation.get("best_parameters") or {})  # which the template leaves as it is
        changes = overlay_of(values, evidence.name, template=request.template, changes=changes, searched=searched)
        config = parse_config(apply_changes(values, changes))
    _check_alone(evidence.project, kind, config)
    _check_rows(evidence, kind, config, changes)
    if kind in {RunKind.ABLATION, RunKind.TRIAL} and request.code is None:
        require_planned_code(evidence, [changes], called=f"A run of kind {kind.value}")
    bound = SMOKE_STEPS if kind is RunKind.SMOKE and request.max_steps is None else request.max_steps
    source = get_run(evidence.session, request.source_run) if kind is RunKind.CURE and request.source_run else None
    overlay = changes if kind is RunKind.FINAL else {}
    return RunPlan(config, evidence.config_digest, source, bound, overlay, tuple(notes))


def _asked(evidence: Evidence, request: RunRequest) -> dict[str, Any]:
    """Return a run's changes: those asked for, or of a leak_price run those that remove its leak."""
    if request.kind is not RunKind.LEAK_PRICE and request.finding is None:
        return request.changes
    return changes_without_leak(evidence, request.kind, request.finding, request.changes)


def _repeated(evidence: Evidence, request: RunRequest) -> RunPlan:
    kind = request.kind
    if request.changes or request.seed is not None:
        changed = sorted({*request.changes, *(() if request.seed is None else ("seed",))})
        raise ConflictError(
            f"A run of kind {kind.value} repeats its source exactly; it got changes to {', '.join(changed)}.",
            remedy=f"start_training(project='{evidence.name}', kind='{kind.value}') without changes or seed.",
        )
    source = _source(evidence, kind, request.source_run)
    specification = evidence.workspace.run_directory(evidence.name, source.id).specification()
    bound, told = specification.max_steps if kind is RunKind.REPLAY else None, ""
    if request.max_steps is not None:
        steps, told = told_steps(evidence, phase_status_of(evidence), source.id, request.max_steps)
        bound = min(steps, bound or steps)
    config = specification.config
    if kind is RunKind.EXPORT:
        now = evidence.config
        config = config.model_copy(update={"deployment": now.deployment, "evaluation_gate": now.evaluation_gate})
    return RunPlan(config, source.base_config_digest, source, bound, notes=(told,) if told else ())


def existing_run(evidence: Evidence, kind: RunKind, plan: RunPlan) -> Run | None:
    """Return the project's complete run that a plan would repeat (GATE-7); None: there is none, or reason to repeat."""
    if kind not in KEPT:
        return None
    source = plan.source.id if plan.source else None
    run = complete_run(evidence, kind, config_digest(plan.config), source, plan.max_steps)
    return run.row if run is not None else None


def _check_bound(project: Project, kind: RunKind, max_steps: int | None) -> None:
    """A bound outside the configuration would be a hyperparameter that no record compares."""
    if max_steps is not None and kind not in LOOKING | {RunKind.REPLAY}:
        raise ConfigurationError(
            f"A run of kind {kind.value} got max_steps={max_steps}; only a smoke run may be cut short (and a probe "
            "measures so many): every other one trains as long as its configuration says.",
            remedy="Leave max_steps out; how long to train is "
            f"configure(project='{project.name}', changes={{'training.epochs': …}}).",
        )


def _check_rows(evidence: Evidence, kind: RunKind, config: TrainingConfig, changes: dict[str, Any]) -> None:
    """An ablation is compared on the planned rows; the worker would find that they are others, and blame the code."""
    other = sorted(key for key in changes if key.startswith(OF_ROWS))
    if kind is RunKind.ABLATION and other and not is_fold(evidence.config, config):
        raise ConflictError(
            f"An ablation keeps the planned rows and inputs, and its changes to {', '.join(other)} make others.",
            remedy=f"Keep them as a configuration of its own: configure(project={evidence.name!r}, changes={{…}}, "
            "reason=…), and then advance; compare_runs tells both baselines. What a leak, or one column, is worth: "
            "start_training(kind='leak_price', finding=…), with its name.",
            details={"keys": other},
        )


def _check_alone(project: Project, kind: RunKind, config: TrainingConfig) -> None:
    """A probe times, sweeps and doubles one process's work; of a group it would measure the waiting too."""
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


def _check_template(project: Project, kind: RunKind, template: str | None, changes: dict[str, Any]) -> None:
    if template is None or (kind is RunKind.FINAL and template == TEMPLATE):
        return
    given = f", changes={changes!r}" if changes else ""
    raise ConfigurationError(
        f"A run of kind {kind.value} got template={template!r}; only a final run takes one, {TEMPLATE!r}.",
        remedy=f"start_training(project={project.name!r}, kind={kind.value!r}{given}); a project begins anew from a "
        f"template by configure(project={project.name!r}, template=…).",
        document="phases/05_finalization/workflow.md",
    )


def _source(evidence: Evidence, kind: RunKind, run_id: str | None) -> Run:
    project, workspace = evidence.project, evidence.workspace
    row = get_run(evidence.session, run_id) if run_id else _default_source(evidence, kind)
    if row is not None and row.project == project.name and _may_be_source(evidence, kind, row):
        state = workspace.run_directory(project.name, row.id).status().state
        if state is RunState.COMPLETED:
            _require_weights(workspace, row)
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


def _may_be_source(evidence: Evidence, kind: RunKind, row: Run) -> bool:
    """An export is of a final run, or of the baseline that counts as one; any training can be repeated."""
    if kind is not RunKind.EXPORT:
        return row.kind not in {RunKind.EXPORT, RunKind.PROBE}
    final = evidence.final
    return row.kind == RunKind.FINAL or (final is not None and final.id == row.id)


def _require_weights(workspace: Workspace, run: Run) -> None:
    """Raise ConflictError for a run whose weights were pruned: there is nothing left to compare with, or to export."""
    records = list_checkpoints(workspace.run_directory(run.project, run.id))
    tagged = [record for record in records if {"best", "last"} & set(record.tags)]
    if tagged and not all(has_weights(record.path) for record in tagged):
        raise ConflictError(
            f"The weights of run {run.id} were pruned; only a run that has them can be repeated or exported.",
            remedy=f"project_status(project='{run.project}') lists the runs; the newest of each kind keep theirs.",
            document="checkpointing/strategy.md",
        )


def _default_source(evidence: Evidence, kind: RunKind) -> Run | None:
    """The final run of the chosen configuration; before there is one, a replay repeats the newest baseline."""
    if evidence.final is not None:
        return evidence.final.row
    kinds = (RunKind.FINAL,) if kind is RunKind.EXPORT else (RunKind.FINAL, RunKind.BASELINE)
    rows = [row for row in runs_of(evidence.session, evidence.name, *kinds) if row.label is None]
    return rows[-1] if rows else None
