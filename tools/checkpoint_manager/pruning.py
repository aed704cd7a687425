"""Giving disk back: a plan first, then the deletion of exactly that plan, with a tombstone in the ledger (CKPT-4).

Only weights go (the two safetensors files of a checkpoint). Manifest, state, metrics and events stay, so every seal
and every verdict can still be derived.
"""

from __future__ import annotations

import logging
from typing import Any

from pydantic import BaseModel, Field
from sqlalchemy import select
from sqlalchemy.orm import Session

from trainwright.tools import ledger
from trainwright.tools.answers import Answer, NextCall
from trainwright.tools.checkpoint_manager.retention import Offer, Plan, plan, tombstone
from trainwright.tools.gates.evidence import Evidence
from trainwright.tools.gates.next_call import next_call
from trainwright.tools.ledger.events import Pruned
from trainwright.tools.ledger.seals import is_tombstone_of
from trainwright.tools.training_orchestrator import refresh_project
from trainwright.tools.workspace import Workspace
from trainwright.tools.workspace.records import get_project
from trainwright.tools.workspace.settings import RetentionPolicy
from trainwright.tools.workspace.tables import LedgerEntry
from trainwright.trainer.base.canonical import digest_json
from trainwright.trainer.base.errors import ConflictError, StorageError
from trainwright.trainer.checkpoints.index import WEIGHTS, CheckpointRecord, list_checkpoints, verify_checkpoint

log = logging.getLogger("trainwright")
MAX_LISTED = 12


class PruneLine(BaseModel):
    """Deleted weights of one run, planned or done."""

    run_id: str
    kind: str
    why: str
    checkpoints: int
    bytes: int


class PruneAnswer(Answer):
    """A plan, or its result."""

    project: str
    deleted: bool
    """False: this is a dry run, and nothing was touched."""
    plan: str
    """Id of the plan: `confirm` takes it."""
    checkpoints: int
    freed_bytes: int
    kept_bytes: int
    """Weights of the project that stay."""
    runs: list[PruneLine]
    left_out: int = 0
    """Runs that are not listed."""
    damaged: list[str] = Field(default_factory=list)
    """Checkpoints that are not as they were recorded: they stay, for `verify` to be read against."""


def prune(
    workspace: Workspace, project: str, policy: RetentionPolicy | None = None, *, confirm: str | None = None
) -> PruneAnswer:
    """Say which weights can go, or delete those of a plan that was shown before.

    Args:
        workspace: where the project is.
        project: its name.
        policy: default: the owner's `retention` in settings.yaml.
        confirm: id of the plan to carry out; None for a dry run.

    Raises:
        NotFoundError: there is no such project.
        ConflictError: the plan to confirm is not what would be deleted now; nothing was deleted.
        StorageError: files could not be deleted; the next call, or the next server, finishes it.
    """
    policy = policy or workspace.settings.retention
    with workspace.session() as session:
        get_project(session, project)
    refresh_project(workspace, project)
    with workspace.session() as session:
        made = plan(Evidence(session, workspace, project), policy)
    damaged = _damaged(made)
    offers = [offer for offer in made.offers if _name(offer) not in damaged]
    identifier = _identifier(offers)
    if confirm is None:
        call = _confirming(project, policy, identifier) if offers else None
        return _answer(workspace, project, made, offers, damaged, deleted=False, call=call)
    with workspace.session() as session:
        now = plan(Evidence(session, workspace, project), policy).offers
        now = [offer for offer in now if _name(offer) not in damaged]
        if _identifier(now) != confirm:
            raise ConflictError(
                f"The plan {confirm[:40]!r} is not what would be deleted now ({_identifier(now)}).",
                remedy=f"prune_checkpoints(project={project!r}) with the same policy shows the present plan.",
                document="checkpointing/strategy.md",
            )
        if now:
            gone = [tombstone(offer) for offer in now]
            ledger.record(session, project, Pruned(plan=confirm, policy=policy.model_dump(), checkpoints=gone))
    _delete([offer.record for offer in now])
    return _answer(workspace, project, made, now, damaged, deleted=True, call=None)


def finish_pruning(workspace: Workspace) -> int:
    """Delete the weights that killed servers left beside their tombstones; return how many checkpoints.

    A server does it when it starts.
    """
    left: list[CheckpointRecord] = []
    with workspace.session() as session:
        for project in sorted({str(name) for name in _pruned_projects(session)}):
            facts = ledger.ProjectFacts(session, project)
            for run_id, stones in facts.pruned.items():
                records = list_checkpoints(workspace.run_directory(project, run_id))
                left += [one for one in records if is_tombstone_of(stones.get(one.name), one) and _any_weights(one)]
    _delete(left)
    if left:
        log.warning("deleted the weights of %d checkpoints that a killed server had recorded as pruned", len(left))
    return len(left)


def _pruned_projects(session: Session) -> list[str]:
    named = select(LedgerEntry.project).where(LedgerEntry.kind == Pruned.name).distinct()
    return [str(name) for name in session.scalars(named)]


def _any_weights(record: CheckpointRecord) -> bool:
    return any((record.path / name).exists() for name in WEIGHTS)


def _damaged(made: Plan) -> list[str]:
    """Return the offered checkpoints that are damaged: deleting them would delete the proof of it."""
    return [_name(offer) for offer in made.offers if verify_checkpoint(offer.record.path)]


def _name(offer: Offer) -> str:
    return f"{offer.run_id}/{offer.record.name}"


def _identifier(offers: list[Offer]) -> str:
    """Return the id of a plan: it names exactly these checkpoints, with these digests."""
    return "plan-" + digest_json(sorted([_name(offer), offer.record.digest] for offer in offers))[-12:]


def _delete(records: list[CheckpointRecord]) -> None:
    try:
        for record in records:
            for name in WEIGHTS:
                (record.path / name).unlink(missing_ok=True)
    except OSError as error:
        raise StorageError(
            f"Weights of {record.path.parent.parent.name} could not be deleted: {error.strerror}.",
            remedy="Make the workspace writable; prune_checkpoints finishes it, and so does the next server's start.",
        ) from error


def _confirming(project: str, policy: RetentionPolicy, identifier: str) -> NextCall:
    asked: dict[str, Any] = policy.model_dump(exclude_defaults=True)
    arguments = {"project": project, **asked, "confirm": identifier}
    return NextCall(tool="prune_checkpoints", arguments=arguments, why="deletes exactly these weights, for good")


def _answer(
    workspace: Workspace, project: str, made: Plan, offers: list[Offer], damaged: list[str],
    *, deleted: bool, call: NextCall | None,
) -> PruneAnswer:  # fmt: skip
    lines = _lines(offers)
    freed = sum(offer.weight_bytes for offer in offers)
    if call is None:
        with workspace.session() as session:
            call = next_call(session, workspace, project)
    if call is not None and call.tool == "prune_checkpoints" and not offers:
        why = "no weights can go: the workspace's owner frees the disk elsewhere, then this shows what to do"
        call = NextCall(tool="project_status", arguments={"project": project}, why=why)
    return PruneAnswer(
        project=project,
        deleted=deleted,
        plan=_identifier(offers),
        checkpoints=len(offers),
        freed_bytes=freed,
        kept_bytes=made.present_bytes - freed,
        runs=lines[:MAX_LISTED],
        left_out=max(0, len(lines) - MAX_LISTED),
        damaged=damaged[:MAX_LISTED],
        next=call,
    )


def _lines(offers: list[Offer]) -> list[PruneLine]:
    runs: dict[str, list[Offer]] = {}
    for offer in offers:
        runs.setdefault(offer.run_id, []).append(offer)
    return [
        PruneLine(
            run_id=run_id,
            kind=own[0].kind,
            why=own[0].why,
            checkpoints=len(own),
            bytes=sum(offer.weight_bytes for offer in own),
        )
        for run_id, own in runs.items()
    ]
