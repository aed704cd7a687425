"""Registering an exported model: the next version, with its certified figures and complete lineage (CKPT-6)."""

from __future__ import annotations

from typing import Any

from sqlalchemy import func, select
from sqlalchemy.orm import Session

from trainwright.tools import ledger
from trainwright.tools.ledger.events import ModelRegistered, RunEvaluated
from trainwright.tools.workspace import Workspace
from trainwright.tools.workspace.records import get_run
from trainwright.tools.workspace.tables import RegisteredModel, Run, now
from trainwright.trainer.base.errors import ConflictError, IntegrityError
from trainwright.trainer.run import RunKind, RunState
from trainwright.trainer.run.evidence import Code, Data, Environment
from trainwright.trainer.run.results import Export


def register_model(session: Session, workspace: Workspace, export_run: str) -> int:
    """Register a completed, sealed and unchanged export as the next version; return its number.

    The same export gives the same version.

    Works within the caller's transaction, so that a version and its decision are committed together.

    Raises:
        NotFoundError: no such run.
        ConflictError: not a completed and sealed export run.
        IntegrityError: the export or its source run was changed after it was sealed.
    """
    run = get_run(session, export_run)
    existing = session.scalars(select(RegisteredModel).where(RegisteredModel.run == run.id)).first()
    if existing is not None:
        return existing.version
    if run.kind != RunKind.EXPORT or run.state != RunState.COMPLETED or not run.sealed or run.source_run is None:
        raise ConflictError(
            f"Run {run.id} is of kind {run.kind}, {run.state}; only a completed export can be registered.",
            remedy=f"export_model(project='{run.project}') makes one; run_status(run_id=…) follows it.",
        )
    source = get_run(session, run.source_run)
    for part in (run, source):
        require_unchanged(session, workspace, part)
    evidence = workspace.run_directory(run.project, run.id).part(Export)
    found = ledger.ProjectFacts(session, run.project).evaluations.get(run.id)
    newest = session.scalar(select(func.max(RegisteredModel.version)).where(RegisteredModel.project == run.project))
    model = ModelRegistered(
        version=(newest or 0) + 1,
        run_id=run.id,
        checkpoint_digest=evidence.checkpoint_digest or "",
        metrics=_metrics(found, evidence),
        figures=_figures(found),
        lineage=_lineage(workspace, source, evidence),
        created_at=now(),
    )
    ledger.record(session, run.project, model)
    return model.version


def _metrics(found: RunEvaluated | None, export: Export) -> dict[str, Any]:
    """Return the model's metrics by split: certified ones, else as the export reported them."""
    reported = {"test": export.test.metrics, "validation": export.validation.metrics}
    if found is None:
        return reported
    return {split: values and {**values, **found.certified(split)} for split, values in reported.items()}


def _figures(found: RunEvaluated | None) -> dict[str, Any]:
    """Return {rows, metrics, intervals} of each split that the clean room evaluated."""
    splits = found.splits if found is not None and not found.problem else {}
    return {
        name: {"rows": one["rows"], "metrics": found.certified(name), "intervals": one.get("intervals", {})}
        for name, one in splits.items()
        if found is not None
    }


def _lineage(workspace: Workspace, source: Run, export: Export) -> dict[str, Any]:
    """The model's lineage: every part by its digest."""
    directory = workspace.run_directory(source.project, source.id)
    return {
        "run": source.id,
        "kind": source.kind,
        "parent": source.source_run,
        "study": source.study,
        "seed": source.seed,
        "configuration": source.config_digest,
        "checkpoint": export.checkpoint,
        "files": {name: file["digest"] for name, file in export.files.items()},
        "data": directory.part(Data).fingerprint,
        "code": directory.part(Code).digest,
        "environment": directory.part(Environment).packages_digest,
    }


def require_unchanged(session: Session, workspace: Workspace, run: Run) -> None:
    """Compare a run's files with its seal. Raises IntegrityError."""
    seals = [body for _, body in ledger.entries(session, run.project, "run_sealed") if body["run_id"] == run.id]
    directory = workspace.run_directory(run.project, run.id)
    problems = ledger.seal_differences(directory, seals[-1]["digests"]) if seals else [f"run {run.id} has no seal"]
    if problems:
        raise IntegrityError(
            f"The model cannot be used: {'; '.join(problems[:3])}.",
            remedy=f"Export again: export_model(project='{run.project}').",
        )
