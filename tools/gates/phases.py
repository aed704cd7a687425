"""The five phases, their order, and which kinds of run each permits (PHASE-1)."""

from __future__ import annotations

from enum import StrEnum

from trainwright.trainer.run import RunKind


class Phase(StrEnum):
    """The phases in their order."""

    PLANNING = "planning"
    BASELINE = "baseline"
    DIAGNOSTICS = "diagnostics"
    OPTIMIZATION = "optimization"
    FINALIZATION = "finalization"

    @property
    def number(self) -> int:
        """The phase's place in the order, from 0."""
        return list(Phase).index(self)

    @property
    def document(self) -> str:
        """The checklist that is read and enforced."""
        return f"phases/{self.number + 1:02d}_{self.value}/checklist.md"


LOOKING = frozenset({RunKind.SMOKE, RunKind.PROBE, RunKind.CURE})
"""Kinds that try the work without being evidence of its quality."""

PERMITTED: dict[Phase, frozenset[RunKind]] = {
    Phase.PLANNING: LOOKING,
    Phase.BASELINE: LOOKING | {RunKind.BASELINE, RunKind.LEAK_PRICE, RunKind.REPLAY},
    Phase.DIAGNOSTICS: LOOKING | {RunKind.BASELINE, RunKind.LEAK_PRICE, RunKind.ABLATION, RunKind.REPLAY},
    Phase.OPTIMIZATION: LOOKING
    | {RunKind.BASELINE, RunKind.LEAK_PRICE, RunKind.TRIAL, RunKind.ABLATION, RunKind.REPLAY},
    Phase.FINALIZATION: frozenset({RunKind.SMOKE, RunKind.ABLATION, RunKind.FINAL, RunKind.REPLAY, RunKind.EXPORT}),
}


def phase_that_permits(kind: RunKind) -> Phase:
    """Return the first phase in which a run of this kind may start."""
    return next(phase for phase in Phase if kind in PERMITTED[phase])
