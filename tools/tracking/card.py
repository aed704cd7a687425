"""Card of a run: everything that trackers show, from what the run and the ledger recorded. It needs no tracker."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

from pydantic import Field

from trainwright.tools import ledger
from trainwright.tools.tracking.structure import Parent, place_of
from trainwright.tools.training_monitor.record import RunRecord
from trainwright.tools.versions import data_versions, version_of
from trainwright.tools.workspace import Workspace
from trainwright.tools.workspace.records import get_project, get_run
from trainwright.trainer.base.records import Frozen
from trainwright.trainer.config import flatten
from trainwright.trainer.run import RunDirectory, RunState
from trainwright.trainer.run.evaluation import Evaluation
from trainwright.trainer.run.results import Export

SHOWN_FILES = frozenset({".png", ".json", ".csv", ".html", ".md"})
"""Endings of the artifacts that trackers get as files; weights and programs they get by reference."""
MAX_FILE_BYTES = 5 * 2**20


class RunCard(Frozen):
    """One run as TRACK-1 lists it: parameters, data, metrics, artifacts, environment, metadata."""

    run_id: str
    experiment: str
    name: str
    tags: list[str]
    parents: list[Parent] = Field(default_factory=list)
    changed: dict[str, Any] = Field(default_factory=dict)
    """Configuration keys that differ from the baseline's."""
    parameters: dict[str, Any]
    """Hyperparameters and seeds by dotted key, and the architecture as `model.…`."""
    data: dict[str, Any]
    metrics: dict[str, float]
    """Of the best epoch, the last one, and an export's splits and latency; curves are in metrics.sqlite."""
    artifacts: dict[str, str]
    """Files by name below the run's folder; weights and checkpoints by digest."""
    environment: dict[str, Any]
    metadata: dict[str, Any]
    missing: list[str] = Field(default_factory=list)
    """What was not recorded of this run, each with its reason."""

    @property
    def started_at(self) -> float:
        """Unix seconds; 0 before it began."""
        return float(self.metadata.get("started_at") or 0.0)


def run_card(workspace: Workspace, run_id: str) -> RunCard:
    """Return the card of a run as it stands. Raises NotFoundError, IntegrityError."""
    with workspace.snapshot() as session:
        run = get_run(session, run_id)
        project = get_project(session, run.project)
        place = place_of(session, workspace, run)
        facts = ledger.ProjectFacts(session, run.project)
    directory = workspace.run_directory(run.project, run.id)
    record = RunRecord(directory)
    version = version_of(data_versions(workspace, facts, run.project), record.data.fingerprint)
    export = record.part(Export)
    return RunCard(
        run_id=run.id,
        **place.model_dump(),
        parameters=_parameters(record),
        data=_data(record) | ({"version": version.name} if version else {}),
        metrics=_metrics(record, export),
        artifacts=_artifacts(directory, record),
        environment=_environment(record),
        metadata=_metadata(record, {"intent": project.intent, "kind": run.kind, "label": run.label}),
        missing=_missing(record, export),
    )


def shown_files(directory: RunDirectory) -> dict[str, Path]:
    """Return the artifacts that trackers get as files, by their names below the run's folder."""
    found = sorted(path for path in directory.artifacts.rglob("*") if path.suffix in SHOWN_FILES and path.is_file())
    return {
        path.relative_to(directory.path).as_posix(): path for path in found if path.stat().st_size <= MAX_FILE_BYTES
    }


def _parameters(record: RunRecord) -> dict[str, Any]:
    resolved = record.resolved
    architecture = {
        "model.class": resolved.model_class,
        "model.parameters": resolved.parameters or None,
        "model.trainable_parameters": resolved.trainable_parameters or None,
        "model.layers": sum(resolved.products.values()) if resolved.products else None,
        "model.loss": resolved.loss,
        "total_steps": resolved.total_steps,
        "device": resolved.device,
    }
    values = flatten(record.config.model_dump(mode="json", exclude={"search"}))
    return {key: value for key, value in (values | architecture).items() if value is not None}


def _data(record: RunRecord) -> dict[str, Any]:
    data = record.data
    found: dict[str, Any] = {
        "source": data.source,
        "fingerprint": data.fingerprint,
        "split": data.split,
        "preprocessing_digest": data.preprocessing_digest,
        "sampling": {"shuffle": record.config.loader.shuffle, "drop_last": record.config.loader.drop_last},
        "files": data.files or None,
    }
    for name, split in data.splits.items():
        found |= {f"{name}.size": split.size, f"{name}.fingerprint": split.fingerprint}
    return {key: value for key, value in found.items() if value is not None}


def _metrics(record: RunRecord, export: Export) -> dict[str, float]:
    summary = record.summary
    found: dict[str, float | None] = {f"best/{name}": value for name, value in summary.best_metrics.items()}
    found |= {f"final/{name}": value for name, value in summary.final.items()}
    found |= {
        "train_seconds": summary.train_seconds if summary else None,
        "samples_per_second": summary.samples_per_second,
        "peak_memory_bytes": summary.peak_memory_bytes,
    }
    for name, split in (("validation", export.validation), ("test", export.test)):
        found |= {f"exported/{name}/{metric}": value for metric, value in (split.metrics or {}).items()}
    latency = export.latency_ms or record.part(Evaluation).latency_ms or {}
    found |= {f"latency_ms/{name}": value for name, value in latency.items()}
    return {key: float(value) for key, value in found.items() if value is not None and math.isfinite(value)}


def _artifacts(directory: RunDirectory, record: RunRecord) -> dict[str, str]:
    found = {name: name for name in shown_files(directory)}
    best = record.summary.best
    if best is not None and best.checkpoint is not None:
        found["weights of the best epoch"] = f"checkpoints/{best.checkpoint}"
    evaluated = record.part(Evaluation)
    parts = {
        "confusion matrix": evaluated.confusion, "permutation importance": evaluated.importance,
        "best and worst rows": evaluated.worst,
    }  # fmt: skip
    found |= {name: "artifacts/evaluation.json" for name, value in parts.items() if value}
    if record.summary.weights_digest:
        found["digest of the last weights"] = record.summary.weights_digest
    return found


def _environment(record: RunRecord) -> dict[str, Any]:
    environment = record.environment
    found = {
        "python": environment.python,
        "platform": environment.platform,
        "torch": environment.torch.get("version"),
        "hardware": environment.hardware or None,
        "fingerprint": environment.fingerprint,
        "packages_digest": environment.packages_digest,
        "container_image": environment.container_image,
    }
    return {key: value for key, value in found.items() if value is not None}


def _metadata(record: RunRecord, known: dict[str, Any]) -> dict[str, Any]:
    git, status, code = record.environment.git, record.status, record.code
    starts = [event.time for event in record.run.events("started")]
    found = {
        **known,
        "author": record.environment.author,
        "commit": git.commit if git else None,
        "branch": git.branch if git else None,
        "uncommitted_changes": git.dirty if git else None,
        "code_digest": code.digest,
        "engine_version": code.engine_version,
        "config_digest": record.specification.config_digest,
        "state": status.state.value,
        "stop_reason": status.stop_reason,
        "last_step": status.step,
        "attempts": status.attempt,
        "started_at": starts[0] if starts else None,
        "ended_at": status.heartbeat_at if status.state.is_terminal else None,
        "wall_clock_seconds": round(record.run.seconds_worked(), 3),
    }
    return {key: value for key, value in found.items() if value not in (None, "")}


def _missing(record: RunRecord, export: Export) -> list[str]:
    """Return what TRACK-1 lists and this run has not recorded."""
    if record.status.state is not RunState.COMPLETED:
        return [f"The run is {record.status.state.value}: its results may be incomplete."]
    found = []
    if record.environment.author is None:
        found.append("author: neither git nor the system names one")
    if record.environment.git is None:
        found.append("commit: the code stands in no git repository")
    evaluated = record.part(Evaluation)
    if export.latency_ms is None and evaluated.latency_ms is None:
        found.append("latency: it is measured where the trained model is evaluated, or exported")
    if evaluated.problem is not None:
        found.append(f"confusion matrix, importance, best and worst rows: {evaluated.problem}")
    if export.test.metrics is None:
        found.append("test metrics: only an export evaluates the test split")
    return found
