"""The first run that has a result, beside which a goal is no longer changed at will."""

from __future__ import annotations

from trainwright.tools.gates.evidence import Evidence
from trainwright.trainer.base.errors import TrainwrightError
from trainwright.trainer.run import RunKind

LOOKS = (RunKind.SMOKE, RunKind.PROBE)
FEW_STEPS = 20
"""Up to which such a run is a look: one of more steps could be a whole training."""


def first_result(evidence: Evidence) -> str | None:
    """Return the first run that has or will have a result; also one whose files are gone, or cannot be read."""
    started = evidence.facts.started.items()
    whole = (run_id for run_id, start in started if start.kind not in LOOKS)
    long = (run_id for run_id, start in started if start.kind in LOOKS and _steps(evidence, run_id) > FEW_STEPS)
    return next(whole, None) or next(long, None)


def _steps(evidence: Evidence, run_id: str) -> int:
    try:
        return evidence.workspace.run_directory(evidence.name, run_id).specification().max_steps or 0
    except TrainwrightError:
        return FEW_STEPS + 1
