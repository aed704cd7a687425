"""Final run of a project: trained with the accepted configuration and an overlay or none, or an earlier proven run.

Where the accepted configuration is the baseline's, the baseline is that training already: it is not repeated but
replayed, exported and evaluated. A final run that was started all the same, or with an overlay, takes its place.
"""

from __future__ import annotations

from typing import Any

from trainwright.tools.gates.improvement import confirmed_value
from trainwright.tools.gates.overlay import accepts
from trainwright.tools.gates.records import Records, RunRecords
from trainwright.trainer.base.errors import TrainwrightError
from trainwright.trainer.config import apply_changes, config_digest, parse_config
from trainwright.trainer.run import RunKind


def final_of(evidence: Records) -> str | None:
    """Return the id of the accepted configuration's newest final run, completed ones first, else of its baseline."""
    values = evidence.final_values
    if values is None:
        return None
    ids = [
        run_id
        for run_id, start in evidence.facts.started.items()
        if (start.kind, start.study) == (RunKind.FINAL, None) and accepts(values, start.overlay, start.config_digest)
    ]
    found = [run for run_id in reversed(ids) if (run := evidence.run(run_id)) is not None]
    counts = next((run for run in found if run.is_complete), found[0] if found else _proven(evidence, values))
    return counts.id if counts is not None else None


def overlay_of_run(evidence: Records, run: RunRecords) -> dict[str, Any]:
    """Return a run's overlay on the accepted configuration, by its entry in the ledger."""
    return evidence.facts.overlay(run.id)


def is_as_accepted(evidence: Records, run: RunRecords) -> bool:
    """Return whether nothing is laid over the accepted configuration."""
    return not overlay_of_run(evidence, run)


def is_reused(evidence: Records) -> bool:
    """Return whether the baseline counts as the final run."""
    return evidence.final is not None and evidence.final.row.kind == RunKind.BASELINE


def is_as_asked(evidence: Records, export: RunRecords) -> bool:
    """Return whether an export was made to what the configuration asks for now."""
    try:
        return export.directory.specification().config.exports_as(evidence.config)
    except TrainwrightError:  # a record or a configuration that cannot be read: its check reports it
        return True


def accepted_result(evidence: Records) -> tuple[str, float | None]:
    """Return where the accepted configuration's value comes from, and it: the confirmed best one, or the baseline."""
    best = evidence.confirmation.get("best_parameters")
    values = evidence.final_values
    if best and values is not None and _digest(apply_changes(evidence.version.values, best)) == _digest(values):
        return confirmed_value(evidence)
    baseline = evidence.baseline
    return "baseline", baseline.best_value(evidence.goal_metric) if baseline is not None else None


def _proven(evidence: Records, values: dict[str, Any]) -> RunRecords | None:
    baseline = evidence.baseline
    is_same = baseline is not None and baseline.row.config_digest == _digest(values)
    return baseline if baseline is not None and is_same and baseline.is_complete else None


def _digest(values: dict[str, Any]) -> str:
    return config_digest(parse_config(values))
