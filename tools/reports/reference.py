"""The release before, in the reports of the one that is worked on: the value that a new result is compared with."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from trainwright.tools.gates.evidence import Evidence


def reference_line(evidence: Evidence, value: float | None) -> str:
    """Return how a validation value of the goal's metric compares with the release before; empty for the first one."""
    release = evidence.reference
    if release is None:
        return ""
    runs = release.decision["rested_on"].get("runs", [])
    final = evidence.run(runs[0]) if runs else None
    before = final.best_value(evidence.goal_metric) if final is not None else None
    if value is None or before is None:
        return f"Before it: {release}, whose value of {evidence.goal_metric} cannot be compared."
    against = f"validation {evidence.goal_metric} {before:.6g} ({value - before:+.6g} since)"
    return f"Before it: {release} with {against}."
