"""Result of a probe run, and the call that it suggests."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from trainwright.tools.answers import NextCall

if TYPE_CHECKING:
    from pathlib import Path

    from trainwright.trainer.run.results import Probe


def probe_result(probe: Probe, artifacts: Path) -> dict[str, Any]:
    """Return the values for an agent's decision after a probe; the complete record is the run's `probe` evidence.

    Args:
        artifacts: the run's folder of evidence and plots, whose full paths are reported.
    """
    profile, rate, size = probe.profile, probe.learning_rate, probe.batch_size
    found = {
        "step_ms": profile.step_ms,
        "phases_percent": profile.phases_percent,
        "bottleneck": f"{profile.bottleneck.phase}: {profile.bottleneck.why}",
        "samples_per_second": profile.samples_per_second,
        "epoch_seconds": profile.epoch_seconds,
        "run_seconds": profile.run_seconds,
        "peak_memory_bytes": profile.peak_memory_bytes,
        "suggested_learning_rate": rate.suggested,
        "suggested_batch_size": size.suggested,
        "suggested_threads": probe.threads.suggested,
        "threads_ms": {str(count): each for count, each in probe.threads.tried.items()} or None,
        "batch_sizes": {
            str(one["batch_size"]): one.get("samples_per_second", one.get("failure")) for one in size.tried
        },
        "plots": [str(artifacts / name) for name in (rate.plot, probe.schedule_plot) if name],
        "changes": probe.changes,
    }
    return {name: value for name, value in found.items() if value is not None}


def suggested_call(project: str, run_id: str, result: dict[str, Any] | None) -> NextCall | None:
    """Return the call that makes the probe's changes; None when it found nothing to change."""
    if not result or not result.get("changes"):
        return None
    arguments = {"project": project, "changes": result["changes"], "reason": f"probe {run_id}"}
    return NextCall(tool="configure", arguments=arguments, why="the probe suggests it")
