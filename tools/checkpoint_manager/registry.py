"""The model registry: versions of exported models, each with its complete lineage (CKPT-6)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pydantic import BaseModel
from sqlalchemy import func, select

from trainwright.tools import ledger
from trainwright.tools.answers import Answer, NextCall
from trainwright.tools.ledger.events import ModelRegistered
from trainwright.tools.workspace.records import get_project, get_run
from trainwright.tools.workspace.tables import RegisteredModel, Run, now
from trainwright.trainer.base.errors import ConflictError, IntegrityError
from trainwright.trainer.run import RunKind, RunState
from trainwright.trainer.run.evidence import Code, Data, Environment
from trainwright.trainer.run.results import Export

if TYPE_CHECKING:
    from sqlalchemy.orm import Session

    from trainwright.tools.workspace import Workspace


class RegistryEntry(BaseModel):
    """One version of a project's model."""

    version: int
    run_id: str
    """The export run."""
    checkpoint_digest: str
    metrics: dict[str, Any]
    """{test: {…}, validation: {…}} as the export measured them."""
    lineage: dict[str, Any]
    """{run, kind, parent, data, code, environment, configuration, seed, checkpoint, files}."""


class ModelRegistry(Answer):
    """The versions of one project's model, the newest first."""

    project: str
    models: list[RegistryEntry]


def register_model(session: Session, workspace: Workspace, export_run: str) -> RegistryEntry:
    """Register a completed, sealed and unchanged export as the next version; the same export gives the same version.

    Works within the caller's transaction, so that a version and its decision are committed together.

    Raises:
        NotFoundError: no such run.
        ConflictError: not a completed and sealed export run.
        IntegrityError: the export or its source run was changed after it was sealed.
    """
    run = get_run(session, export_run)
    existing = session.scalars(select(RegisteredModel).where(RegisteredModel.run == run.id)).first()
    if existing is not None:
        return _entry(existing)
    if run.kind != RunKind.EXPORT or run.state != RunState.COMPLETED or not run.sealed or run.source_run is None:
        raise ConflictError(
            f"Run {run.id} is of kind {run.kind}, {run.state}; only a completed export can be registered.",
            remedy=f"export_model(project='{run.project}') makes one; run_status(run_id=…) follows it.",
        )
    source = get_run(session, run.source_run)
    for part in (run, source):
        _check_unchanged(session, workspace, part)
    evidence = workspace.run_directory(run.project, run.id).part(Export)
    newest = session.scalar(select(func.max(RegisteredModel.version)).where(RegisteredModel.project == run.project))
    model = ModelRegistered(
        version=(newest or 0) + 1,
        run_id=run.id,
        checkpoint_digest=evidence.checkpoint_digest or "",
        metrics=_metrics(session, run, evidence),
        lineage=_lineage(workspace, source, evidence),
        created_at=now(),
    )
    ledger.record(session, run.project, model)
    return RegistryEntry.model_validate(model.model_dump(exclude={"created_at"}))


def _metrics(session: Session, run: Run, export: Export) -> dict[str, Any]:
    """Return the model's metrics by split: certified ones, else as the export reported them."""
    found = ledger.ProjectFacts(session, run.project).evaluations.get(run.id)
    reported = {"test": export.test.metrics, "validation": export.validation.metrics}
    if found is None:
        return reported
    return {split: values and {**values, **found.certified(split)} for split, values in reported.items()}


def list_models(workspace: Workspace, project: str) -> ModelRegistry:
    """Return the project's registered models. Raises NotFoundError."""
    with workspace.session() as session:
        get_project(session, project)
        query = select(RegisteredModel).where(RegisteredModel.project == project)
        models = [_entry(model) for model in session.scalars(query.order_by(RegisteredModel.version.desc()))]
    call = NextCall(tool="project_status", arguments={"project": project}, why="where the project stands")
    return ModelRegistry(project=project, models=models, next=call)


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


def _check_unchanged(session: Session, workspace: Workspace, run: Run) -> None:
    seals = [body for _, body in ledger.entries(session, run.project, "run_sealed") if body["run_id"] == run.id]
    directory = workspace.run_directory(run.project, run.id)
    problems = ledger.seal_differences(directory, seals[-1]["digests"]) if seals else [f"run {run.id} has no seal"]
    if problems:
        raise IntegrityError(
            f"The model cannot be registered: {'; '.join(problems[:3])}.",
            remedy=f"Export again: export_model(project='{run.project}').",
        )


def _entry(model: RegisteredModel) -> RegistryEntry:
    return RegistryEntry(
        version=model.version,
        run_id=model.run,
        checkpoint_digest=model.checkpoint_digest,
        metrics=model.metrics,
        lineage=model.lineage,
    )
