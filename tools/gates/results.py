"""Runs that have a result, beside which a goal is no longer changed at will."""

from __future__ import annotations

from typing import TYPE_CHECKING

from trainwright.trainer.run import RunKind

if TYPE_CHECKING:
    from trainwright.tools.gates.evidence import Evidence

LOOKS = (RunKind.SMOKE, RunKind.PROBE)
FEW_STEPS = 20
"""Up to which such a run is a look: one of more steps could be a whole training."""


def results_of(evidence: Evidence) -> list[str]:
    """Return the runs, in order, that have or will have a result; also of runs whose files are gone."""
    return [
        run_id for run_id, start in evidence.facts.started.items()
        if start.kind not in LOOKS or _steps(evidence, run_id) > FEW_STEPS
    ]  # fmt: skip


def _steps(evidence: Evidence, run_id: str) -> int:
    directory = evidence.workspace.run_directory(evidence.name, run_id)
    return (directory.specification().max_steps or 0) if (directory.path / "run.json").is_file() else FEW_STEPS + 1
