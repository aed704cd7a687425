"""Views of a probe run for agents."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from trainwright.tools.answers import NextCall

if TYPE_CHECKING:
    from pathlib import Path


def probe_result(probe: dict[str, Any], artifacts: Path) -> dict[str, Any]:
    """Return what an agent decides by after a probe; the whole record is the run's `probe` evidence.

    Args:
        artifacts: the run's folder of evidence and plots, whose full paths are told.
    """
    profile, rate, size = (probe.get(part) or {} for part in ("profile", "learning_rate", "batch_size"))
    slowest = profile.get("bottleneck") or {}
    found = {
        "step_ms": profile.get("step_ms"),
        "phases_percent": profile.get("phases_percent"),
        "bottleneck": f"{slowest.get('phase')}: {slowest.get('why')}",
        "samples_per_second": profile.get("samples_per_second"),
        "epoch_seconds": profile.get("epoch_seconds"),
        "run_seconds": profile.get("run_seconds"),
        "peak_memory_bytes": profile.get("peak_memory_bytes"),
        "suggested_learning_rate": rate.get("suggested"),
        "suggested_batch_size": size.get("suggested"),
        "batch_sizes": {
            str(one["batch_size"]): one.get("samples_per_second", one.get("failure")) for one in size.get("tried", [])
        },
        "plots": [str(artifacts / name) for name in (rate.get("plot"), probe.get("schedule_plot")) if name],
        "changes": probe.get("changes"),
    }
    return {name: value for name, value in found.items() if value is not None}


def suggested_call(project: str, run_id: str, result: dict[str, Any] | None) -> NextCall | None:
    """Return the call that makes the probe's changes; None when it found nothing to change."""
    if not result or not result.get("changes"):
        return None
    arguments = {"project": project, "changes": result["changes"], "reason": f"probe {run_id}"}
    return NextCall(tool="configure", arguments=arguments, why="the probe suggests it")
