"""Judging an experiment by its sealed runs: one state of code on every seed, then the verdict and its words."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from trainwright.tools.gates.evidence import Evidence
from trainwright.tools.gates.ideas import CRASHED, KEPT, UNDECIDED, digests_of_snapshot
from trainwright.tools.gates.improvement import resolution
from trainwright.tools.hyperparameter_tuner.experiments.verdict import ALPHA, verdict_of
from trainwright.tools.training_orchestrator.snapshots import snapshot_folder
from trainwright.trainer.base.errors import NotFoundError

if TYPE_CHECKING:
    from trainwright.tools.hyperparameter_tuner.ablation.section import ExperimentSection


def judge(
    arms: list[dict[str, Any]], effects: list[dict[str, Any]], problem: str,
    *, direction: str, looks: Sequence[int], rows: int, look: int, confirms: bool = False,
) -> dict[str, Any]:  # fmt: skip
    """Return verdict and conclusion, or nothing where more seeds are needed.

    Args:
        arms: the incumbent's and the experiment's values and runs, by seed.
        effects: their difference, where every run completed.
        problem: why nothing can be estimated.
        looks: numbers of seeds after which a verdict may fall.
        rows: size of the validation split; 0 where unknown.
        confirms: whether a chain is measured, for which a release would be made.
        look: 1 where the very same is judged for the first time; 2 for the second, which may err half as often; and on.
    """
    incumbent, tried = arms
    if None in tried["values"]:
        return _told(CRASHED, f"{tried['failed']} of {len(tried['values'])} runs failed{_cause(tried)}")
    if problem or not effects:
        return _told(UNDECIDED, problem or "the incumbent's runs failed")
    sign = 1.0 if direction == "maximize" else -1.0
    step = resolution([*incumbent["values"], *tried["values"]], rows)
    effect = effects[0]
    verdict = verdict_of([sign * one for one in effect["differences"]], looks, step, ALPHA / 2 ** (look - 1))
    if verdict is None:
        return {}
    vain = ". It is not shown to hold on new seeds: release nothing for it" if confirms and verdict != KEPT else ""
    again = "" if look == 1 else f", judged for the {look}. time"
    return _told(
        verdict,
        f"{effect['mean']:+.4g} ({effect['low']:+.4g} to {effect['high']:+.4g}) over {len(tried['values'])} seeds, "
        f"{tried['mean']:.4g} against {incumbent['mean']:.4g}{again}{vain}",
    )


def _told(verdict: str, figures: str) -> dict[str, Any]:
    return {"verdict": verdict, "conclusion": f"{verdict}: {figures}."}


def _cause(arm: dict[str, Any]) -> str:
    failures = [run.status.failure for run in arm["runs"] if run is not None and run.status.failure is not None]
    return f": {failures[0].message.rstrip('.')}" if failures else ""


def foreign_code(evidence: Evidence, section: ExperimentSection, arms: Sequence[dict[str, Any]]) -> str:
    """Return that a run imported code which is not its snapshot's; empty where each did, or the snapshot is gone."""
    for arm, code in zip(arms, (section.against_code, section.code), strict=True):
        try:
            kept = digests_of_snapshot(snapshot_folder(evidence.workspace, evidence.name, code))
        except NotFoundError:
            continue
        for run in (run for run in arm["runs"] if run is not None):
            other = [name for name, digest in run.code.files.items() if kept.get(name) != digest]
            if other:
                return f"{arm['name']} imported {', '.join(other[:3])}, which its snapshot does not have so"
    return ""
