"""The release before the one under way: what it reached on validation, and whether the new model is any better."""

from __future__ import annotations

from typing import Any, NamedTuple

from trainwright.tools.gates.evidence import Evidence
from trainwright.tools.gates.exits import takes_best
from trainwright.tools.gates.records import RunRecords
from trainwright.tools.gates.releases import Release
from trainwright.tools.gates.rows_moved import validates_on_same_rows
from trainwright.tools.gates.shown import gain
from trainwright.tools.versions import DataVersion, version_of
from trainwright.trainer.config import config_digest, flatten, parse_config


class Before(NamedTuple):
    """What the release before reached."""

    release: Release
    final: RunRecords | None
    value: float | None
    """The goal's metric of its final run on validation; None where the metric is another now."""
    is_on_same_rows: bool
    """Whether the present plan validates on its rows."""


def before(evidence: Evidence) -> Before | None:
    """Return what the release before reached; None for a project's first one."""
    release = evidence.reference
    if release is None:
        return None
    runs = release.decision["rested_on"].get("runs", [])
    final = evidence.run(runs[0]) if runs else None
    value = final.best_value(evidence.goal_metric) if final is not None else None
    is_same = (
        final is not None and evidence.smoke is not None and validates_on_same_rows(evidence, final, evidence.smoke)
    )
    return Before(release, final, value, is_same)


def released_data(evidence: Evidence) -> DataVersion | None:
    """Return the data of the release before; None for a project's first one."""
    found = before(evidence)
    final = found.final if found is not None else None
    return version_of(evidence.data_versions, final.data.fingerprint) if final is not None else None


def no_better(evidence: Evidence) -> str:
    """Say that the final run is no better on validation than the release before; '' where it is, or none compares."""
    found, final = before(evidence), evidence.final
    if found is None or final is None or found.value is None or not found.is_on_same_rows:
        return ""
    value = final.best_value(evidence.goal_metric)
    if value is None or (found.final is not None and final.id == found.final.id):
        return ""
    if gain(evidence.goal, value) > gain(evidence.goal, found.value):
        return ""
    return (
        f"{final.id} is no better than {found.release} on the same validation rows ({evidence.goal_metric} {value:.6g} "
        f"and {found.value:.6g}): a look at the test rows may not be worth it"
    )


def left_behind(evidence: Evidence, values: dict[str, Any]) -> dict[str, Any]:
    """Return the values that the project's search has shown to be better, and that a next configuration has not.

    Args:
        evidence: of the finished project.
        values: the configuration with which the next release begins.
    """
    config = parse_config(values)
    if not takes_best(evidence) or config_digest(config) == evidence.config_digest:
        return {}  # the same configuration keeps its study
    has = flatten(config.model_dump(mode="json"))
    return {key: best for key, best in evidence.confirmation["best_parameters"].items() if has.get(key) != best}
