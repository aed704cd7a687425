"""Values that several reports show: the gate's checks, the owner's grants, labels of metrics."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from sqlalchemy.orm import Session

from trainwright.tools.gates.decide import GateReport
from trainwright.tools.gates.evidence import Evidence
from trainwright.tools.gates.since_release import before
from trainwright.tools.owner import meaning, requests_of
from trainwright.tools.workspace import Workspace
from trainwright.trainer.run.evidence import Resolved


def shared_values(evidence: Evidence, report: GateReport) -> dict[str, Any]:
    """Return the part common to every gate's report: the project, its goal, the checks, and the owner's grants."""
    return {
        "name": evidence.name,
        "written": written_at(),
        "goal": evidence.goal_text,
        "goal_metric": evidence.goal_metric,
        "checks": report.checks,
        "granted": granted(evidence.session, evidence.workspace, evidence.name),
    }


def metric_label(name: str, resolved: Resolved) -> str:
    """Return a metric's name, marked where the user's code computes it and not the engine.

    Args:
        name: `accuracy`, or `train/accuracy`.
        resolved: the run's `resolved` evidence. Metrics that it does not list as built in were returned by the user's
            metrics; with a user's validation step, built-in metrics compare its outputs and targets.
    """
    metrics, judge = resolved.metrics, resolved.judged_by
    plain = name.removeprefix("train/")
    built_in = {"loss"} | {metric.name for metric in metrics or () if not metric.user_defined}
    if metrics is not None and plain not in built_in:
        return f"{name} (user-defined)"
    return f"{name} (from the user's {judge})" if judge and plain == name else name


def written_at() -> str:
    """Return the line that says who wrote the file and when."""
    now = datetime.now(UTC).strftime("%Y-%m-%d %H:%M:%S UTC")
    return f"Written by Trainwright on {now} from recorded evidence. An edit of this file makes its gate stale."


def granted(session: Session, workspace: Workspace, project: str) -> list[tuple[str, str, str]]:
    """Return the owner's grants as (what, its meaning, when in UTC), lapsed ones included."""
    found = [each for each in requests_of(session, workspace, project) if each.state in {"granted", "lapsed"}]
    return [(str(each), meaning(each.grant), (each.decided_at or "")[:19]) for each in found]


def reference_line(evidence: Evidence, value: float | None) -> str:
    """Return how a validation value of the goal's metric compares with the release before; empty for the first one."""
    found = before(evidence)
    if found is None:
        return ""
    if value is None or found.value is None:
        return f"Before it: {found.release}, whose value of {evidence.goal_metric} cannot be compared."
    since = f"({value - found.value:+.6g} since)" if found.is_on_same_rows else "on other rows: no comparison"
    return f"Before it: {found.release} with validation {evidence.goal_metric} {found.value:.6g} {since}."
