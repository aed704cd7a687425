"""Surroundings of a plan: those of its smoke run, and those that a short replay carried it over to."""

from __future__ import annotations

from typing import TYPE_CHECKING

from trainwright.tools.gates.releases import CARRIED
from trainwright.tools.gates.staleness import inherited
from trainwright.trainer.run import RunKind

if TYPE_CHECKING:
    from trainwright.tools.gates.evidence import Evidence, RunEvidence


def witnesses(evidence: Evidence, smoke: RunEvidence) -> list[RunEvidence]:
    """Return the runs that show under what a plan's evidence holds: its smoke run, and replays that carried it."""
    carried = [body["replay"] for _, body in evidence.entries(CARRIED) if body["smoke_run"] == smoke.id]
    return [smoke, *(run for run_id in carried if (run := evidence.run(run_id)) is not None)]


def other_than_planned(evidence: Evidence, run: RunEvidence) -> list[str]:
    """Return what a run saw differently from what planning rests on, or was carried over to."""
    if evidence.smoke is None:
        return ["the plan's smoke run"]
    return min((inherited(run, witness) for witness in witnesses(evidence, evidence.smoke)), key=len)


def holds_now(evidence: Evidence, run: RunEvidence) -> bool:
    """Return whether a run saw what is present, or what a plan that was carried over to the present rests on."""
    if not evidence.surroundings(run):
        return True
    smoke = evidence.smoke
    carried = smoke is not None and len(witnesses(evidence, smoke)) > 1 and not evidence.surroundings(smoke)
    return carried and not other_than_planned(evidence, run)


def is_short_replay(run: RunEvidence) -> bool:
    """Return whether a run was told to repeat no more than its source's first steps."""
    return run.row.kind == RunKind.REPLAY and run.directory.specification().permit.get("is_short") is True
