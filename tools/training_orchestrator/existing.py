"""Existing run that an order would repeat: complete, with equal configuration, data, code and packages (GATE-7)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from trainwright.tools.gates.memory import complete_run
from trainwright.trainer.config import config_digest
from trainwright.trainer.run import RunKind

if TYPE_CHECKING:
    from trainwright.tools.gates.evidence import Evidence
    from trainwright.tools.training_orchestrator.run_plan import Order
    from trainwright.tools.workspace.tables import Run

KEPT = frozenset({RunKind.SMOKE, RunKind.BASELINE, RunKind.FINAL, RunKind.REPLAY, RunKind.EXPORT})
"""Kinds whose second run would be the same again. A probe measures a machine, and an ablation is an attempt."""


def existing_run(evidence: Evidence, kind: RunKind, what: Order) -> Run | None:
    """Return the project's complete run that an order would repeat; None where there is none, or reason for it."""
    if kind not in KEPT:
        return None
    source = what.source.id if what.source else None
    run = complete_run(evidence, kind, config_digest(what.config), source, what.max_steps)
    return run.row if run is not None else None
