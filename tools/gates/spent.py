"""Limits that leave no room for another trial: a ground to conclude below the goal (PHASE-10)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from trainwright.tools.limits import Amounts, limit_table

if TYPE_CHECKING:
    from trainwright.tools.gates.evidence import Evidence

UNITS = {"wall_clock_seconds": ("s", 1.0), "gpu_hours": ("GPU hours", 1.0), "money": ("of money", 1.0),
         "disk_bytes": ("MB", 1e6)}  # fmt: skip


def spent_limit(evidence: Evidence) -> str:
    """Return which limit leaves no room for a trial like the baseline, with both figures; empty where all leave it.

    What runs under way hold reserved comes back when they end, and counts as left.
    """
    if evidence.trials_left < 1:
        return "no trial is left of the limits"
    if evidence.baseline is None:
        return ""
    table = limit_table(evidence.session, evidence.workspace, evidence.project)
    seal = evidence.facts.seals.get(evidence.baseline.id)
    needed = Amounts.model_validate(seal.used if seal else {})
    for name, (unit, scale) in UNITS.items():
        line = min(table[name], key=lambda line: line.allowed - line.used)
        left, least = line.allowed - line.used, getattr(needed, name)
        if left < least:
            took = f"the baseline took {least / scale:.3g}"
            return f"{max(left, 0.0) / scale:.3g} {unit} are left of {line.name}, and {took}"
    return ""
