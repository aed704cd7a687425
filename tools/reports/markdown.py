"""Markdown parts that every report uses."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from trainwright.tools.owner import meaning, requests_of

if TYPE_CHECKING:
    from sqlalchemy.orm import Session

    from trainwright.tools.gates.decide import GateReport
    from trainwright.tools.gates.evidence import Evidence
    from trainwright.tools.workspace import Workspace


def table(head: Sequence[str], rows: Iterable[Sequence[Any]]) -> str:
    """Return a Markdown table; bars inside cells are escaped."""
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join("| " + " | ".join(cell(value) for value in line) + " |" for line in lines)


def cell(value: Any) -> str:
    """Return a value as one table cell: floats with six significant digits, nothing for None."""
    if value is None:
        return ""
    text = f"{value:.6g}" if isinstance(value, float) else str(value)
    return " ".join(text.replace("|", "\\|").split())


def checks_section(evidence: Evidence, report: GateReport) -> str:
    """Return the gate's checks as a section, and below it what the owner granted."""
    rows = [(r.id, r.status.replace("_", " "), r.measured, r.required) for r in report.checks]
    checks = "## Checks\n\n" + table(("check", "status", "measured", "required"), rows)
    return checks + grants_section(evidence.session, evidence.workspace, evidence.name)


def metric_label(name: str, resolved: Mapping[str, Any]) -> str:
    """Return a metric's name, marked where the user's code computes it and not the engine.

    Args:
        name: `accuracy`, or `train/accuracy`.
        resolved: the run's `resolved` evidence. What it does not list as built in, a user's metric returned by name;
            and where a step of the user's judges, built-in metrics compare the outputs and targets that it returned.
    """
    metrics, judge = resolved.get("metrics"), resolved.get("judged_by")
    plain = name.removeprefix("train/")
    built_in = {"loss"} | {metric["name"] for metric in metrics or () if not metric["user_defined"]}
    if metrics is not None and plain not in built_in:
        return f"{name} (user-defined)"
    return f"{name} (from the user's {judge})" if judge and plain == name else name


def written_at() -> str:
    """Return the line that says who wrote the file and when."""
    now = datetime.now(UTC).strftime("%Y-%m-%d %H:%M:%S UTC")
    return f"Written by Trainwright on {now} from recorded evidence. An edit of this file makes its gate stale."


def grants_section(session: Session, workspace: Workspace, project: str) -> str:
    """Return the section on the owner's grants, lapsed ones included; empty when nothing was granted."""
    granted = [each for each in requests_of(session, workspace, project) if each.state in {"granted", "lapsed"}]
    rows = [(str(each), meaning(each.grant), (each.decided_at or "")[:19]) for each in granted]
    return "\n\n## Granted by the owner\n\n" + table(("what", "meaning", "when (UTC)"), rows) if rows else ""
