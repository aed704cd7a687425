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
from trainwright.trainer.run import RunState

if TYPE_CHECKING:
    from trainwright.tools.hyperparameter_tuner.ablation.section import ExperimentSection


def judge(
    section: ExperimentSection, arms: list[dict[str, Any]], effects: list[dict[str, Any]], problem: str,
    *, direction: str, looks: Sequence[int], rows: int,
) -> dict[str, Any]:  # fmt: skip
    """Return verdict and conclusion, or nothing where more seeds are needed.

    The very same that is judged for the second time may err half as often; and on. What saves lines or parameters is
    compared with what is worse by the margin that was stated (a test of non-inferiority), all else with the incumbent.

    Args:
        section: the experiment.
        arms: the incumbent's and the experiment's values and runs, by seed.
        effects: their difference, where every run completed.
        problem: why nothing can be estimated.
        looks: numbers of seeds after which a verdict may fall.
        rows: size of the validation split; 0 where unknown.
    """
    incumbent, tried = arms
    runs = [run for arm in arms for run in arm["runs"] if run is not None]
    if stopped := [run.id for run in runs if run.status.state is RunState.STOPPED]:  # a stop draws no other seeds
        return _told(UNDECIDED, f"{stopped[0]} was stopped")
    if None in tried["values"]:
        return _told(CRASHED, f"{tried['failed']} of {len(tried['values'])} runs failed{_cause(tried)}")
    if problem or not effects:
        return _told(UNDECIDED, problem or "the incumbent's runs failed")
    sign = 1.0 if direction == "maximize" else -1.0
    step = resolution([*incumbent["values"], *tried["values"]], rows)
    effect, saved = effects[0], _saved(section, arms) if section.margin else ""
    margin = section.margin if saved else 0.0
    differences = [sign * one + margin for one in effect["differences"]]
    verdict = verdict_of(differences, looks, step, ALPHA / 2 ** (section.look - 1))
    if verdict is None:
        return {}
    vain = section.confirms and verdict != KEPT
    more = (
        f", no worse than by {margin:g}, with {saved}" if saved and verdict == KEPT else "",
        f", judged for the {section.look}. time" if section.look > 1 else "",
        ". It is not shown to hold on new seeds: release nothing for it" if vain else "",
    )
    return _told(
        verdict,
        f"{effect['mean']:+.4g} ({effect['low']:+.4g} to {effect['high']:+.4g}) over {len(tried['values'])} seeds, "
        f"{tried['mean']:.4g} against {incumbent['mean']:.4g}{''.join(more)}",
    )


def _saved(section: ExperimentSection, arms: list[dict[str, Any]]) -> str:
    """Return the lines and parameters that the experiment has fewer; empty where it has none fewer."""
    before, after = ([run.resolved.parameters for run in arm["runs"] if run is not None][:1] for arm in arms)
    added, removed = section.lines
    saved = {"lines": removed - added, "parameters": sum(before) - sum(after)}
    return " and ".join(f"{number:,} {name} fewer" for name, number in saved.items() if number > 0)


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
