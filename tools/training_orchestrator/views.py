"""Views of a run for agents: small, with the alerts and the next call."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

from pydantic import BaseModel, ConfigDict, Field

from trainwright.tools.answers import Answer, NextCall
from trainwright.tools.evaluation import STAGE, is_under_way
from trainwright.tools.gates.decide import evaluate
from trainwright.tools.gates.evidence import Evidence
from trainwright.tools.gates.figures import beside, evaluation_text
from trainwright.tools.gates.phase_status import phase_status_of
from trainwright.tools.gates.phases import Phase
from trainwright.tools.ledger import Look
from trainwright.tools.training_monitor.diagnosis import Alert, diagnose
from trainwright.tools.training_orchestrator.follow import followed_next
from trainwright.tools.training_orchestrator.observation import Observation, last_lines, observe
from trainwright.trainer.base.errors import TrainwrightError
from trainwright.trainer.run import RunKind, RunState
from trainwright.trainer.run.evidence import Resolved
from trainwright.trainer.run.results import Comparison, Export, Probe

if TYPE_CHECKING:
    from pathlib import Path

    from sqlalchemy.orm import Session

    from trainwright.tools.workspace import Workspace
    from trainwright.tools.workspace.tables import Run
    from trainwright.trainer.run import RunDirectory

EXPORTING = {RunKind.BASELINE, RunKind.TRIAL, RunKind.FINAL, RunKind.EXPORT}
"""Kinds of runs that may export a program."""
SHOWN = ("train/loss", "train/learning_rate", "train/gradient_norm")
OF_A_STEP = ("train/learning_rate", "train/gradient_norm")
"""Metrics of little use once a run has ended."""
MOST_METRICS = 10
MOST_KEYS = 10
MOST_TRACEBACK_LINES = 12
MOST_MESSAGE_CHARACTERS = 500
EXPLAINED_BY_THE_LOG = {"error", "interrupted"}
"""Failures without a recorded cause; the log of any other shows only our frames and this machine's paths."""


class FailureView(BaseModel):
    """Why a run failed or vanished, and what to do."""

    model_config = ConfigDict(frozen=True)

    category: str
    message: str
    remedy: str
    document: str | None = None
    traceback: str | None = None
    """The end of the user's part of the traceback."""
    last_lines: list[str] = []
    """The worker's last output, where nothing else shows the cause."""


class ResumedView(BaseModel):
    """The checkpoint from which the newest attempt of a resumed run began."""

    model_config = ConfigDict(frozen=True)

    from_checkpoint: str | None = None
    step: int = 0
    skipped: list[str] = []
    """Newer checkpoints that were passed over, each with the reason."""
    note: str | None = None
    """Set when there was no intact checkpoint."""


class ClosedBy(BaseModel):
    """A check that keeps a gate closed: the measured beside the required value."""

    model_config = ConfigDict(frozen=True)

    id: str
    measured: str
    required: str


class RunView(Answer):
    """The status of a run."""

    run_id: str
    project: str
    kind: str
    label: str | None = None
    state: RunState
    stage: str = ""
    epoch: int = 0
    """Epochs completed."""
    total_epochs: int | None = None
    step: int = 0
    """Optimizer steps done."""
    total_steps: int | None = None
    attempt: int = 0
    """Worker processes so far: 1, and one more for every resume."""
    resumed: ResumedView | None = None
    """Absent until a resumed attempt has looked for its checkpoint."""
    stop_reason: str | None = None
    failure: FailureView | None = None
    metrics: dict[str, float | str] = Field(default_factory=dict)
    """Latest values; 'nan' and 'inf' as text."""
    ignored_keys: list[str] | None = None
    """Keys that the configuration sets and this run makes no use of; absent where there are none."""
    model: list[str] | None = None
    """Of a smoke run: how the model is called and why, what its output is, what goes in."""
    best: dict[str, Any] | None = None
    """{epoch, step, metric, value} of the best epoch by the selection metric; the value certified where it can be,
    then with `reported`, the training process's own, where that reads differently."""
    evaluated: str | None = None
    """Of a run that exported a program: what it alone gives on the fixed rows, or why that is not known."""
    result: dict[str, Any] | None = None
    """Result of a replay's comparison, an export's checks and test metrics, or a probe's measurements."""
    seconds: float = 0.0
    """Wall-clock seconds of this attempt."""
    samples_per_second: float | None = None
    alerts: list[Alert] = Field(default_factory=list)
    planning_closed_by: list[ClosedBy] | None = None
    """Of a completed smoke run: the checks of the planning gate that its record does not meet; absent: none."""
    note: str | None = None
    """Set where a start found this run complete, and started none."""
    sealed: bool = False
    """Whether the ended run's digests are in the ledger."""

    @property
    def is_ended(self) -> bool:
        """Whether the run has ended and is filed: nothing about it changes any more unless it is resumed."""
        return self.state.is_ended and (self.sealed or self.state is RunState.INTERRUPTED)

    def unsaid(self) -> dict[str, Any]:
        """Fields with their usual values, and those that an alert's message and document say in words."""
        gone = {"sealed": True, "stage": not self.stage, "attempt": self.attempt <= 1}
        gone |= {"epoch": not self.epoch, "seconds": not self.seconds, "stop_reason": self.stop_reason == "completed"}
        shown = {name: True for name in self.metrics if self.state.is_ended and name in OF_A_STEP}
        in_words = dict.fromkeys(("title", "signal", "measured", "threshold", "unit", "step", "epoch"), True)
        alerts = {"__all__": {**in_words, "requirement": True, "fixes": {"__all__": {"id"}}}}
        return {name: True for name, is_gone in gone.items() if is_gone} | {"metrics": shown, "alerts": alerts}


def view_run(workspace: Workspace, run: Run, *, with_alerts: bool = False) -> RunView:
    """Describe a run from its row and its directory; damaged records show as the run's failure.

    The view of an ended and sealed run is cached: nothing of it is read again until one of its files changes.
    """
    look = partial(_described, workspace, run, with_alerts=with_alerts)
    if run.sealed:
        with workspace.snapshot() as session:
            view = workspace.kept.answer(session, run.project, ("run", run.id, with_alerts), look).model_copy()
    else:
        view = look()
    if view.kind == RunKind.SMOKE and view.state is RunState.COMPLETED and view.is_ended:
        view.planning_closed_by = _planning_closed_by(workspace, run)
    view.next = next_for(workspace, run, view)
    return view


def _described(workspace: Workspace, run: Run, *, with_alerts: bool) -> RunView:
    directory = workspace.run_directory(run.project, run.id)
    seen = observe(directory)
    status = seen.status
    view = RunView(
        run_id=run.id,
        project=run.project,
        kind=run.kind,
        label=run.label,
        state=seen.state,
        stage=status.stage if not seen.state.is_ended else STAGE if is_under_way(directory.path) else "",
        epoch=status.epoch,
        total_epochs=status.total_epochs,
        step=status.step,
        total_steps=status.total_steps,
        attempt=max(status.attempt, seen.launch.attempt),
        stop_reason=status.stop_reason if seen.state.is_ended else None,
        failure=failure_of(directory, seen),
        seconds=round(max(0.0, status.heartbeat_at - status.started_at), 1),
        sealed=run.sealed,
    )
    try:
        _add_measurements(view, directory)
        view.resumed = _resumed(directory, view)
        view.result = _result(directory)
        view.alerts = diagnose(directory) if with_alerts else []
        _certify(view, workspace)
    except TrainwrightError as error:
        view.failure = view.failure or FailureView.model_validate(error.as_dict() | {"last_lines": []})
    return view


def _certify(view: RunView, workspace: Workspace) -> None:
    """Put certified figures in place of the reported ones of a sealed run that exported a program."""
    if not view.sealed or view.kind not in EXPORTING:
        return
    with workspace.snapshot() as session:
        found = Look().facts(session, workspace, view.project, None).evaluations.get(view.run_id)
    if found is None:
        return
    view.evaluated = evaluation_text(found)
    if view.best is not None:
        view.best |= beside(found.certified().get(view.best["metric"]), view.best["value"])
    if view.result and view.result.get("test"):
        view.result["test"] = view.result["test"] | found.certified("test")


def next_for(workspace: Workspace, run: Run, view: RunView) -> NextCall | None:
    """Return the call that makes sense after this view."""
    if not view.is_ended:
        return NextCall(tool="run_status", arguments={"run_id": run.id, "wait_seconds": 50}, why="the run goes on")
    if run.study is not None:
        arguments = {"study_id": run.study, "wait_seconds": 50}
        return NextCall(tool="tuning_status", arguments=arguments, why="the run belongs to this study")
    if view.state in {RunState.INTERRUPTED, RunState.STOPPED}:
        return NextCall(
            tool="resume_training",
            arguments={"project": run.project, "run_id": run.id},
            why=f"the run is {view.state.value}",
        )
    suggested = suggested_call(run.project, run.id, view.result) if view.kind == RunKind.PROBE else None
    if suggested is not None:
        return suggested
    if view.state is RunState.FAILED and view.kind != RunKind.EXPORT:  # an export has no curves to read
        return NextCall(tool="diagnose_run", arguments={"run_id": run.id}, why="the run failed")
    return followed_next(workspace, run.project)


def _planning_closed_by(workspace: Workspace, run: Run) -> list[ClosedBy] | None:
    """Return what a smoke run's record lacks for the planning gate, where it is the gate's smoke run."""
    with workspace.session() as session:
        look = partial(_lacks, session, workspace, run)
        return workspace.kept.answer(session, run.project, ("planning", run.id), look)


def _lacks(session: Session, workspace: Workspace, run: Run) -> list[ClosedBy] | None:
    evidence = Evidence(session, workspace, run.project, inspection=Look())
    if not evidence.has_valid_config or evidence.smoke is None or evidence.smoke.id != run.id:
        return None
    if phase_status_of(evidence).phase is not Phase.PLANNING:
        return None
    blocking = evaluate(evidence, Phase.PLANNING).blocking
    return [ClosedBy(id=one.id, measured=one.measured, required=one.required) for one in blocking] or None


def failure_of(directory: RunDirectory, seen: Observation | None = None) -> FailureView | None:
    """Return why a run failed or vanished, cut to what a reader needs; None where it did neither."""
    failure = (seen or observe(directory)).failure
    if failure is None:
        return None
    lines = failure.details.get("last_lines") or last_lines(directory.log)
    message = failure.message
    if len(message) > MOST_MESSAGE_CHARACTERS:
        message = message[: MOST_MESSAGE_CHARACTERS - 1] + "…"
    traceback = "\n".join((failure.traceback or "").splitlines()[-MOST_TRACEBACK_LINES:]) or None
    return FailureView(
        category=failure.category,
        message=message,
        remedy=failure.remedy,
        document=failure.document,
        traceback=traceback,
        last_lines=lines if failure.category in EXPLAINED_BY_THE_LOG else [],
    )


def _resumed(directory: RunDirectory, view: RunView) -> ResumedView | None:
    if view.attempt < 2 or view.kind == RunKind.EXPORT:
        return None
    events = directory.events()
    began = max((place for place, event in enumerate(events) if event.kind == "started"), default=0)
    newest = events[began:]
    if view.attempt != next((event.data.get("attempt") for event in newest), None):
        return None  # the newest attempt has not begun yet
    taken_up = next((event.data for event in newest if event.kind == "resumed"), None)
    passed_over: list[dict[str, Any]] = next(
        (event.data["skipped"] for event in newest if event.data.get("skipped")), []
    )
    skipped = [f"{one.get('name')}: {'; '.join(map(str, one.get('problems', [])))}" for one in passed_over]
    if taken_up is not None:
        return ResumedView(from_checkpoint=taken_up["from_checkpoint"], step=taken_up["step"], skipped=skipped)
    if not skipped and not any(event.kind == "epoch" for event in newest) and not view.step:
        return None
    return ResumedView(skipped=skipped, note="no intact checkpoint: began at step 0")


def _result(directory: RunDirectory) -> dict[str, Any] | None:
    """Return the few values of a replay, an export or a probe that decide the next call."""
    if probe := directory.part(Probe):
        return probe_result(probe, directory.artifacts)
    if comparison := directory.part(Comparison):
        kept = {"identical", "tensors", "metrics_identical", "first_difference_step", "causes"}
        return comparison.model_dump(include=kept)
    if export := directory.part(Export):
        return {
            "test": export.test.metrics,
            "onnx_max_abs_difference": export.onnx.max_abs_difference if export.onnx is not None else None,
            "onnx_passed": export.onnx.passed if export.onnx is not None else None,
            "safetensors_identical": export.safetensors.reloaded_identical,
        }
    return None


def _add_measurements(view: RunView, directory: RunDirectory) -> None:
    store = directory.metrics()
    with store.reading():
        names = [*SHOWN, *filter(lambda key: key.startswith("validation/"), store.keys())][:MOST_METRICS]
        latest = {name: point.value for name in names if (point := store.last(name)) is not None}
        speed = store.last("throughput/samples_per_second")
    view.metrics = {name: value if value - value == 0 else str(value) for name, value in latest.items()}
    view.samples_per_second = round(speed.value, 1) if speed else None
    view.best = best_epoch(directory)
    resolved = directory.part(Resolved)
    view.ignored_keys = (resolved.ignored_keys or [])[:MOST_KEYS] or None
    view.model = resolved.told if view.kind == RunKind.SMOKE else None


def best_epoch(directory: RunDirectory) -> dict[str, Any] | None:
    """Return {epoch, step, metric, value} of the last epoch that improved the selection metric, or None."""
    improved = [event.data for event in directory.events("epoch") if event.data.get("improved")]
    if not improved:
        return None
    metric = directory.specification().config.selection.metric
    last = improved[-1]
    value = (last.get("validation") or {}).get(metric)
    return {"epoch": last.get("epoch"), "step": last.get("step"), "metric": metric, "value": value}


def probe_result(probe: Probe, artifacts: Path) -> dict[str, Any]:
    """Return the values for an agent's decision after a probe; the complete record is the run's `probe` evidence.

    Args:
        artifacts: the run's folder of evidence and plots, whose full paths are reported.
    """
    profile, rate, size = probe.profile, probe.learning_rate, probe.batch_size
    found = {
        "step_ms": profile.step_ms,
        "phases_percent": profile.phases_percent,
        "bottleneck": f"{profile.bottleneck.phase}: {profile.bottleneck.why}",
        "samples_per_second": profile.samples_per_second,
        "epoch_seconds": profile.epoch_seconds,
        "run_seconds": profile.run_seconds,
        "peak_memory_bytes": profile.peak_memory_bytes,
        "suggested_learning_rate": rate.suggested,
        "suggested_batch_size": size.suggested,
        "batch_sizes": {
            str(one["batch_size"]): one.get("samples_per_second", one.get("failure")) for one in size.tried
        },
        "plots": [str(artifacts / name) for name in (rate.plot, probe.schedule_plot) if name],
        "changes": probe.changes,
    }
    return {name: value for name, value in found.items() if value is not None}


def suggested_call(project: str, run_id: str, result: dict[str, Any] | None) -> NextCall | None:
    """Return the call that makes the probe's changes; None when it found nothing to change."""
    if not result or not result.get("changes"):
        return None
    arguments = {"project": project, "changes": result["changes"], "reason": f"probe {run_id}"}
    return NextCall(tool="configure", arguments=arguments, why="the probe suggests it")
