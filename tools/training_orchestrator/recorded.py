"""Recorded values of one run, read from its directory alone: measurements, failure, resumption, result."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

from trainwright.tools.answers import NextCall
from trainwright.tools.gates.folds import folds_advice
from trainwright.tools.training_orchestrator.observation import Observation, last_lines, observe
from trainwright.tools.training_orchestrator.run_view import FailureView, ResumedView, RunView
from trainwright.trainer.run import MetricStore, RunDirectory, RunKind, RunState
from trainwright.trainer.run.evidence import Data, Resolved, Summary
from trainwright.trainer.run.results import AdapterExport, Comparison, Export, Probe

OF_STEP, OF_EPOCH = "train/loss", "train/epoch_loss"
SHOWN = (OF_STEP, OF_EPOCH, "train/learning_rate", "train/gradient_norm")
MAX_METRICS, MAX_KEYS = 10, 10
MAX_NOTES, MAX_NOTE_CHARACTERS = 8, 200
MAX_TRACEBACK_LINES = 12
MAX_MESSAGE_CHARACTERS = 500
EXPLAINED_BY_THE_LOG = {"error", "interrupted"}
"""Failures without a recorded cause; the log of any other shows only our frames and this machine's paths."""


def failure_of(directory: RunDirectory, seen: Observation | None = None) -> FailureView | None:
    """Return why a run failed or vanished, cut to what a reader needs; None where it did neither."""
    failure = (seen or observe(directory)).failure
    if failure is None:
        return None
    lines = failure.details.get("last_lines") or last_lines(directory.log)
    message = failure.message
    if len(message) > MAX_MESSAGE_CHARACTERS:
        message = message[: MAX_MESSAGE_CHARACTERS - 1] + "…"
    traceback = "\n".join((failure.traceback or "").splitlines()[-MAX_TRACEBACK_LINES:]) or None
    return FailureView(
        category=failure.category,
        message=message,
        remedy=failure.remedy,
        document=failure.document,
        traceback=traceback,
        last_lines=lines if failure.category in EXPLAINED_BY_THE_LOG else [],
    )


def resumed_of(directory: RunDirectory, view: RunView) -> ResumedView | None:
    """Return the checkpoint from which the newest attempt began; None before it has looked, and of a first one."""
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


def result_of(directory: RunDirectory) -> dict[str, Any] | None:
    """Return the few values of a replay, an export or a probe that decide the next call."""
    if probe := directory.part(Probe):
        return probe_result(probe, directory.artifacts)
    if comparison := directory.part(Comparison):
        if (status := directory.status()).state is RunState.STOPPED:
            first = comparison.first_difference_step
            differs = "" if first is None or first > status.step else f"; the records differ from step {first} on"
            return {"not_compared": f"it was stopped at step {status.step}, before the end of its source{differs}"}
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


def add_measurements(view: RunView, directory: RunDirectory, store: MetricStore) -> None:
    """Put the latest metrics, the best epoch, and what the engine noted of configuration and data into a view."""
    with store.reading():
        names = [*SHOWN, *filter(lambda key: key.startswith("validation/"), store.keys())][:MAX_METRICS]
        points = {name: point for name in names if (point := store.last(name)) is not None}
        speed = store.last("throughput/samples_per_second")
    if OF_EPOCH in points and points[OF_EPOCH].step >= points.get(OF_STEP, points[OF_EPOCH]).step:
        points.pop(OF_STEP, None)  # of one batch, where the loss beside it is of all validation rows
    latest = {name: point.value for name, point in points.items()}
    view.metrics = {name: value if value - value == 0 else str(value) for name, value in latest.items()}
    view.samples_per_second = round(speed.value, 1) if speed else None
    view.best = best_epoch(directory)
    resolved = directory.part(Resolved)
    view.ignored_keys = (resolved.ignored_keys or [])[:MAX_KEYS] or None
    view.model = resolved.told if view.kind == RunKind.SMOKE else None
    view.notes = _notes(directory) if view.kind == RunKind.SMOKE else None
    data = directory.part(Data) if view.kind == RunKind.SMOKE else Data()
    view.understood, view.columns, view.classes = (
        data.understood or None,
        data.by_kind(MAX_KEYS),
        data.by_class(MAX_KEYS),
    )


def _notes(directory: RunDirectory) -> list[str] | None:
    """Return what the run did otherwise than its code says, each sentence once: left out, held back, switched off."""
    problems = directory.part(Summary).problems
    texts = [f"{name} cannot be computed on validation: {why}" for name, why in problems.items()]
    texts += filter(None, [_folds_advice(directory)])
    texts += dict.fromkeys(str(event.data.get("text", "")) for event in directory.events("note"))
    return [text[:MAX_NOTE_CHARACTERS] for text in texts[:MAX_NOTES]] or None


def _folds_advice(directory: RunDirectory) -> str:
    """Return the advice on folds of a run whose source splits its rows."""
    data, section = directory.part(Data), directory.specification().config.data
    parts = data.split if isinstance(data.split, dict) else {}
    groups = parts.get("groups") or parts.get("scaffolds")
    if section is None or not parts:
        return ""
    known = [data.splits[name] for name in ("train", "validation") if name in data.splits]
    classes = sum((Counter(one.classes or {}) for one in known), Counter[str]())
    rows, counted = sum(data.sizes.values()), sum(one.size for one in known)
    rare = round(min(classes.values()) * rows / counted) if len(classes) == 2 else None
    return folds_advice(section.split, rows, groups and sum(groups.values()), rare)


def best_epoch(directory: RunDirectory) -> dict[str, Any] | None:
    """Return {epoch, step, metric, value} of the last epoch that improved the selection metric, or None."""
    improved = [event.data for event in directory.events("epoch") if event.data.get("improved")]
    if not improved:
        return None
    metric = directory.specification().config.selection.metric
    last = improved[-1]
    value = (last.get("validation") or {}).get(metric)
    return {"epoch": last.get("epoch"), "step": last.get("step"), "metric": metric, "value": value}


# Result of a probe run, and the call that it suggests.


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
        "suggested_threads": probe.threads.suggested,
        "threads_ms": {str(count): each for count, each in probe.threads.tried.items()} or None,
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
