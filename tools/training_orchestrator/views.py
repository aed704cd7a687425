"""Views of a run for agents: small, with the alerts and the next call."""

from __future__ import annotations

from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Any

from pydantic import BaseModel, ConfigDict, Field

from trainwright.tools import alerts
from trainwright.tools.answers import Answer, NextCall
from trainwright.tools.evaluation import STAGE, is_under_way
from trainwright.tools.gates.beside_trees import trees_text
from trainwright.tools.gates.evidence import Evidence
from trainwright.tools.gates.figures import beside, evaluation_text
from trainwright.tools.gates.onward import after_alert
from trainwright.tools.ledger import Look
from trainwright.tools.training_monitor.diagnosis import Alert, diagnose
from trainwright.tools.training_orchestrator.follow import followed_next
from trainwright.tools.training_orchestrator.gate_views import (
    ClosedBy,
    folds_of,
    leak_of,
    planning_closed_by,
    rows_of,
)
from trainwright.tools.training_orchestrator.observation import Observation, last_lines, observe
from trainwright.tools.training_orchestrator.probes import probe_result, suggested_call
from trainwright.tools.versions import data_versions, version_of
from trainwright.trainer.base.errors import TrainwrightError
from trainwright.trainer.run import RunKind, RunState
from trainwright.trainer.run.digests import METRICS
from trainwright.trainer.run.evidence import Data, Resolved
from trainwright.trainer.run.results import Comparison, Export, Probe
from trainwright.trainer.run.torn import TornMetrics, damage_of

if TYPE_CHECKING:
    from trainwright.tools.workspace import Workspace
    from trainwright.tools.workspace.tables import Run
    from trainwright.trainer.run import MetricStore, RunDirectory
    from trainwright.trainer.run.results import AdapterExport

EXPORTING = {RunKind.BASELINE, RunKind.TRIAL, RunKind.FINAL, RunKind.EXPORT}
"""Kinds of runs that may export a program."""
SHOWN = ("train/loss", "train/learning_rate", "train/gradient_norm")
OF_A_STEP = ("train/learning_rate", "train/gradient_norm")
"""Metrics of little use once a run has ended."""
MOST_METRICS, MOST_KEYS = 10, 10
MOST_NOTES, MOST_NOTE_CHARACTERS = 8, 200
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
    data_version: str | None = None
    """Which content of the project's data it saw: `v2 of 1200 rows`; its card is the resource
    trainwright://projects/PROJECT/data/v2."""
    model: list[str] | None = None
    """Of a smoke run: how the model is called and why, what its output is, what goes in."""
    notes: list[str] | None = None
    """Of a smoke run: what it does otherwise than the code says (rows held back as the test, callbacks left out)."""
    columns: dict[str, list[str]] | None = None
    """Of a smoke run over a table: columns by kind; `left out` with the reason."""
    best: dict[str, Any] | None = None
    """{epoch, step, metric, value} of the best epoch by the selection metric; the value certified where it can be,
    then with `reported`, the training process's own, where that reads differently."""
    evaluated: str | None = None
    """Of a run that exported a program: what it alone gives on the fixed rows, or why that is not known."""
    folds: str | None = None
    """Of a run with data.split.folds: mean and deviation over the folds so far, as reported, and the next call."""
    untrusted: str | None = None
    """Of a run whose record is no evidence, so that it counts for nothing: why."""
    trees: str | None = None
    """Of a baseline on a table: what gradient-boosted trees score on the same validation rows. It decides nothing."""
    result: dict[str, Any] | None = None
    """Result of a replay's comparison, an export's checks and test metrics, or a probe's measurements."""
    seconds: float = 0.0
    """Wall-clock seconds of this attempt."""
    samples_per_second: float | None = None
    alerts: list[Alert] = Field(default_factory=list)
    alert_history: list[str] | None = None
    """What became of alerts that are not simply open: recurring, cleared, or fixed by a later run."""
    leak: str | None = None
    """Of a leak_price run: what the leak that its label names was worth."""
    planning_closed_by: list[ClosedBy] | None = None
    """Of a completed smoke run: the checks of the planning gate that its record does not meet; absent: none."""
    rows: str | None = None
    """Of a completed smoke run on other data than the one before: how many rows are new, gone, and moved from test."""
    note: str | None = None
    """Set where a start found this run complete, and started none."""
    damaged: list[str] | None = None
    """Which parts of its record are torn, and what of them was read; absent where it is whole."""
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
        of_alerts = {"__all__": {**in_words, "requirement": True, "fixes": {"__all__": {"id"}}}}
        return {name: True for name, is_gone in gone.items() if is_gone} | {"metrics": shown, "alerts": of_alerts}


def view_run(workspace: Workspace, run: Run, *, with_alerts: bool = False) -> RunView:
    """Describe a run from its row and its directory; damaged records show as the run's failure.

    The view of an ended and sealed run is cached: nothing of it is read again until one of its files changes.
    """
    look = partial(describe_run, workspace, run, with_alerts=with_alerts)
    if run.sealed:
        with workspace.snapshot() as session:
            view = workspace.kept.answer(session, run.project, ("run", run.id, with_alerts), look).model_copy()
    else:
        view = look()
    if view.kind == RunKind.SMOKE and view.state is RunState.COMPLETED and view.is_ended:
        view.planning_closed_by = planning_closed_by(workspace, run)
        view.rows = rows_of(workspace, run)
    if view.kind == RunKind.LEAK_PRICE and view.state is RunState.COMPLETED and view.is_ended:
        view.leak = leak_of(workspace, run)
    if view.kind in {RunKind.BASELINE, RunKind.ABLATION} and view.state is RunState.COMPLETED and view.is_ended:
        view.folds = folds_of(workspace, run)
    view.alert_history = (alerts.history(workspace, run.id) or None) if with_alerts else None
    view.next = next_for(workspace, run, view)
    return view


def describe_run(workspace: Workspace, run: Run, *, with_alerts: bool) -> RunView:
    """Describe a run as it is now, without the call that makes sense next; nothing is filed or sealed."""
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
        _add_measurements(view, directory, directory.metrics())
        view.resumed = _resumed(directory, view)
        view.result = _result(directory)
        view.alerts = diagnose(directory) if with_alerts else []
        _certify(view, workspace)
        view.untrusted = _untrusted(view, workspace)
        view.data_version = _data_version(workspace, directory, run.project)
        if view.best is not None and view.kind == RunKind.BASELINE:
            view.trees = trees_text(directory, view.best["metric"], view.best["value"])
    except TrainwrightError as error:
        view.failure = view.failure or FailureView.model_validate(error.as_dict() | {"last_lines": []})
        torn = TornMetrics(directory.path / METRICS)
        with suppress(TrainwrightError):
            _add_measurements(view, directory, torn)
        view.damaged = damage_of(directory, torn)
    else:
        view.damaged = damage_of(directory) or None
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


def _untrusted(view: RunView, workspace: Workspace) -> str | None:
    if not view.sealed:
        return None
    with workspace.snapshot() as session:
        seal = Look().facts(session, workspace, view.project, None).seals.get(view.run_id)
    return (seal.problem or None) if seal is not None else None


def _data_version(workspace: Workspace, directory: RunDirectory, project: str) -> str | None:
    fingerprint = directory.part(Data).fingerprint
    if fingerprint is None:
        return None
    with workspace.snapshot() as session:
        facts = Look().facts(session, workspace, project, None)
    found = version_of(data_versions(workspace, facts, project), fingerprint)
    return f"{found.name} of {found.rows} rows" if found is not None else None


def next_for(workspace: Workspace, run: Run, view: RunView) -> NextCall | None:
    """Return the call that makes sense after this view."""
    if not view.is_ended:
        return NextCall(tool="run_status", arguments={"run_id": run.id, "wait_seconds": 50}, why="the run goes on")
    if (parent := _parent(run)) is not None:
        return parent
    suggested = suggested_call(run.project, run.id, view.result) if view.kind == RunKind.PROBE else None
    if suggested is not None:
        return suggested
    after = _after_end(workspace, run, view) if view.state is not RunState.COMPLETED else None
    return after or followed_next(workspace, run.project)


def _after_end(workspace: Workspace, run: Run, view: RunView) -> NextCall | None:
    """Return the change that fixes the alert which ended the run, else what resumes or explains it."""
    with workspace.snapshot() as session:
        found = Evidence(session, workspace, run.project).run(run.id)
        call = after_alert(found) if found is not None else None
    if call is not None:
        return call
    own = {"project": run.project, "run_id": run.id}
    if view.state in {RunState.INTERRUPTED, RunState.STOPPED}:
        return NextCall(tool="resume_training", arguments=own, why=f"the run is {view.state.value}")
    if view.kind != RunKind.EXPORT:  # an export has no curves to read
        return NextCall(tool="diagnose_run", arguments={"run_id": run.id}, why="the run failed")
    return None


def _parent(run: Run) -> NextCall | None:
    """Return the call about what a run belongs to: a study, or a trial of another run's fixes."""
    if run.study is not None:
        arguments: dict[str, Any] = {"study_id": run.study, "wait_seconds": 50}
        return NextCall(tool="tuning_status", arguments=arguments, why="the run belongs to this study")
    if run.kind == RunKind.CURE:
        arguments = {"project": run.project, "run_id": run.source_run}
        return NextCall(tool="diagnose_run", arguments=arguments, why="it says what the tried fixes did")
    return None


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
            **({} if export.adapter is None else {"adapter": _adapter(export.adapter)}),
        }
    return None


def _adapter(written: AdapterExport) -> dict[str, Any]:
    """Return which adapter an export wrote, alone and merged."""
    merged = written.merged.max_abs_difference if written.merged is not None else None
    found = written.model_dump(include={"kind", "folder", "bytes", "base", "merged_in"})
    return {**found, "merged_max_abs_difference": merged}


def _add_measurements(view: RunView, directory: RunDirectory, store: MetricStore) -> None:
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
    view.notes = _notes(directory) if view.kind == RunKind.SMOKE else None
    view.columns = directory.part(Data).by_kind(MOST_KEYS) if view.kind == RunKind.SMOKE else None


def _notes(directory: RunDirectory) -> list[str] | None:
    """Return what the run did otherwise than its code says, each sentence once: left out, held back, switched off."""
    texts = list(dict.fromkeys(str(event.data.get("text", "")) for event in directory.events("note")))
    return [text[:MOST_NOTE_CHARACTERS] for text in texts[:MOST_NOTES]] or None


def best_epoch(directory: RunDirectory) -> dict[str, Any] | None:
    """Return {epoch, step, metric, value} of the last epoch that improved the selection metric, or None."""
    improved = [event.data for event in directory.events("epoch") if event.data.get("improved")]
    if not improved:
        return None
    metric = directory.specification().config.selection.metric
    last = improved[-1]
    value = (last.get("validation") or {}).get(metric)
    return {"epoch": last.get("epoch"), "step": last.get("step"), "metric": metric, "value": value}
