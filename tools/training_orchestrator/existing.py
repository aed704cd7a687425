"""What an order would only repeat: a complete run of the same configuration, data, code and packages (GATE-7)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from trainwright.tools.gates.evidence import Evidence
from trainwright.tools.gates.replays import compared
from trainwright.tools.gates.staleness import exemption_changes, inherited
from trainwright.tools.owner.grants import operations
from trainwright.trainer.config import config_digest
from trainwright.trainer.run import RunKind

if TYPE_CHECKING:
    from sqlalchemy.orm import Session

    from trainwright.tools.gates.evidence import RunEvidence
    from trainwright.tools.training_orchestrator.order import Order
    from trainwright.tools.workspace import Workspace
    from trainwright.tools.workspace.tables import Run

KEPT = frozenset({RunKind.SMOKE, RunKind.BASELINE, RunKind.FINAL, RunKind.REPLAY, RunKind.EXPORT})
"""Kinds whose second run would be the same again. A probe measures a machine, and an ablation is an attempt."""


def existing_run(session: Session, workspace: Workspace, project: str, kind: RunKind, what: Order) -> Run | None:
    """Return the project's complete run that an order would repeat; None where there is none, or reason to repeat it.

    Reasons are a record that was changed, surroundings that are others now, and a replay that differed.
    """
    if kind not in KEPT:
        return None
    evidence = Evidence(session, workspace, project)
    source = what.source.id if what.source else None
    run = evidence.newest(kind, config=config_digest(what.config), source=source)
    if run is None or not run.is_complete or run.directory.specification().max_steps != what.max_steps:
        return None
    is_other = run.differences or evidence.surroundings(run) or exemption_changes(run, operations(evidence.grants))
    return None if is_other or _must_be_repeated(evidence, run, kind) else run.row


def _must_be_repeated(evidence: Evidence, run: RunEvidence, kind: RunKind) -> bool:
    """Whether a gate needs another one: other evidence than planning's, or weights that did not come out again."""
    smoke = evidence.smoke
    if kind in {RunKind.BASELINE, RunKind.FINAL} and smoke is not None and smoke.is_complete and inherited(run, smoke):
        return True
    if kind is RunKind.REPLAY:
        source = evidence.run(run.row.source_run or "")
        return source is None or not compared(source, run).is_identical
    replay = evidence.newest(RunKind.REPLAY, source=run.id) if kind is RunKind.FINAL else None
    return replay is not None and replay.is_complete and not compared(run, replay).is_identical
