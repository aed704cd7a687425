"""`baseline_results.md`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from trainwright.tools.reports.markdown import checks_section, metric_label, table, written_at
from trainwright.tools.reports.reference import reference_line
from trainwright.trainer.checkpoints.index import list_checkpoints

if TYPE_CHECKING:
    from trainwright.tools.gates.decide import GateReport
    from trainwright.tools.gates.evidence import Evidence, RunEvidence


def baseline_results(evidence: Evidence, report: GateReport) -> str:
    """Return the baseline's numbers as its worker recorded them."""
    run = evidence.baseline
    assert run is not None  # noqa: S101 - the gate's checks have shown it
    value = run.best_value(evidence.goal_metric)
    goal_metric = metric_label(evidence.goal_metric, run.resolved.as_dict())
    verdict = "reached" if evidence.reaches_goal(value) else "not reached"
    parts = [
        f"# Baseline results: {evidence.name}",
        written_at(),
        f"Run `{run.id}`, configuration `{run.row.config_digest}`, seed {run.row.seed}. "
        f"Goal {evidence.goal_text}: **{verdict}** ({goal_metric} {value:.6g})."
        if value is not None
        else f"Run `{run.id}`: the goal's metric was not recorded.",
        *filter(None, [reference_line(evidence, value)]),
        results_section(run),
        checkpoints_section(run),
        checks_section(evidence, report),
    ]
    return "\n\n".join(parts) + "\n"


def results_section(run: RunEvidence) -> str:
    """Return the run's best and last metrics, and what it cost."""
    summary = run.summary.as_dict()
    best, final = summary.get("best") or {}, summary.get("final") or {}
    names = sorted(set(best.get("metrics", {})) | set(final))
    resolved = run.resolved.as_dict()
    rows = [(metric_label(name, resolved), best.get("metrics", {}).get(name), final.get(name)) for name in names]
    chosen_by = metric_label(best["metric"], resolved) if best else None
    cost = [
        ("epochs", summary.get("epochs")),
        ("optimizer steps", summary.get("steps")),
        ("stopped by", summary.get("stop_reason")),
        ("training time, s", summary.get("train_seconds")),
        ("samples per second", summary.get("samples_per_second")),
        ("share of time waiting for data", summary.get("data_wait_fraction")),
        ("CPU, % of the allowed cores", summary.get("cpu_percent_mean")),
        ("GPU, %", summary.get("gpu_percent_mean")),
        ("peak memory, bytes", summary.get("peak_memory_bytes")),
        ("weights digest", summary.get("weights_digest")),
    ]
    ignored = ", ".join(f"`{key}`" for key in resolved.get("ignored_keys") or []) or "none"
    return "\n\n".join(
        [
            f"## Results\n\nBest epoch: {best.get('epoch')} (step {best.get('step')}), chosen by {chosen_by}.",
            table(("metric", "at the best epoch", "at the end"), rows),
            table(("cost", "value"), cost),
            f"Keys that the configuration sets and the run made no use of: {ignored}.",
        ]
    )


def checkpoints_section(run: RunEvidence) -> str:
    """Return the run's checkpoints with their digests."""
    rows = [
        (record.name, ", ".join(record.tags), record.epoch, record.bytes, record.digest)
        for record in list_checkpoints(run.directory)
    ]
    return "## Checkpoints\n\n" + table(("checkpoint", "tags", "epoch", "bytes", "digest"), rows)
