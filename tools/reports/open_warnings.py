"""Section of the model card on alerts that the released run still shows, and what was tried against each."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from trainwright.tools.gates import cures
from trainwright.tools.training_monitor.diagnosis import diagnose
from trainwright.tools.training_monitor.documents import load_diagnostics

if TYPE_CHECKING:
    from trainwright.tools.gates.evidence import Evidence
    from trainwright.tools.gates.run_evidence import RunEvidence
    from trainwright.tools.training_monitor import Alert

NONE_TRIED = "nothing"


def open_warnings(evidence: Evidence, final: RunEvidence) -> list[dict[str, Any]]:
    """Return the warnings and critical alerts of the final run: id, value, rule, document and what was tried.

    Raises IntegrityError.
    """
    return [
        {
            "id": alert.id,
            "severity": alert.severity,
            "measured": "not finite" if alert.measured is None else f"{alert.measured:.4g}",
            "unit": alert.unit,
            "rule": _rule(alert),
            "document": alert.document,
            "tried": "; ".join(str(one) for one in cures.on_baseline(evidence, alert.id)) or NONE_TRIED,
        }
        for alert in diagnose(final.directory)
        if alert.severity != "info"
    ]


def _rule(alert: Alert) -> str:
    """Return the condition of the document that raised an alert: `generalisation_gap above 0.15`."""
    triggers = [trigger for one in load_diagnostics() if one.id == alert.id for trigger in one.triggers]
    comparison = next((each.comparison for each in triggers if each.signal == alert.signal), "past")
    return f"{alert.signal} {comparison.replace('_', ' ')} {alert.threshold:g}"
