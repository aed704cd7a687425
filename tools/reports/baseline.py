"""`baseline_results.md`."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from trainwright.tools.documents.rendering import render
from trainwright.tools.reports.markdown import metric_label, shared_values
from trainwright.tools.reports.reference import reference_line
from trainwright.trainer.checkpoints.index import list_checkpoints

if TYPE_CHECKING:
    from trainwright.tools.gates.decide import GateReport
    from trainwright.tools.gates.evidence import Evidence


def baseline_results(evidence: Evidence, report: GateReport) -> str:
    """Return the baseline's numbers as its worker recorded them."""
    run = evidence.baseline
    assert run is not None  # noqa: S101 - the gate's checks have shown it
    value, summary = run.best_value(evidence.goal_metric), run.summary
    return render(
        "reports/baseline_results.md.j2",
        **shared_values(evidence, report),
        run=run,
        value=value,
        verdict="reached" if evidence.reaches_goal(value) else "not reached",
        reference=reference_line(evidence, value),
        label=partial(metric_label, resolved=run.resolved),
        best=summary.best,
        summary=summary,
        metrics=sorted(summary.best_metrics.keys() | summary.final.keys()),
        ignored=run.resolved.ignored_keys or [],
        checkpoints=list_checkpoints(run.directory),
    )
