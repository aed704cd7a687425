"""Rule that one run with changes is tried before a second one is started beside it.

Planning's smoke run has tried the configuration itself; an ablation trains another one. Once any ablation of the
project has trained a step, several may run at once.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from trainwright.tools.answers import NextCall
from trainwright.tools.launchers import is_living
from trainwright.trainer.base.errors import GateRefusedError
from trainwright.trainer.run import RunKind

if TYPE_CHECKING:
    from trainwright.tools.gates.evidence import Evidence
    from trainwright.tools.gates.run_evidence import RunEvidence

CHANGED = frozenset({RunKind.ABLATION, RunKind.LEAK_PRICE})
"""Kinds that train another configuration than the one that planning tried."""
DOCUMENT = "phases/04_optimization/workflow.md"


def require_tried(evidence: Evidence, kind: RunKind) -> None:
    """Refuse a run of changes beside the project's first one of its kind, until that has trained a step or ended.

    Raises:
        GateRefusedError: with the call that waits for the first; it is never longer than that run's start.
    """
    first = _untried(evidence, kind) if kind in CHANGED else None
    if first is None:
        return
    call = NextCall(
        tool="run_status", arguments={"run_id": first.id, "wait_seconds": 50}, why="one is tried before the rest"
    )
    raise GateRefusedError(
        f"{first.id} is the first {kind.value} run and has not trained a step yet; a mistake in it would be made again "
        "by every further one.",
        remedy=f"{call}; then start this one.",
        document=DOCUMENT,
        details={"run": first.id, "next": call.model_dump(mode="json")},
    )


def _untried(evidence: Evidence, kind: RunKind) -> RunEvidence | None:
    """Return the run of the kind that is under way, where none of the kind has trained a step."""
    ids = [run_id for run_id, start in evidence.facts.started.items() if start.kind == kind.value and not start.study]
    runs = [run for run_id in ids if (run := evidence.run(run_id)) is not None]
    if any(run.status.step > 0 for run in runs):
        return None
    return next((run for run in runs if is_living(run.directory)), None)
