"""Judging an experiment by its sealed runs: one state of code on every seed, then the verdict and its words."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from trainwright.tools.gates.improvement import resolution
from trainwright.tools.hyperparameter_tuner.experiments.verdict import CRASHED, DISCARDED, KEPT, UNDECIDED, verdict_of

WORDS = {
    KEPT: "kept: better beyond the noise of the seeds, at this look's part of the 5 %",
    DISCARDED: "discarded: no better on these seeds",
    UNDECIDED: "undecided after all of its seeds; more may tell: max_repeats",
    CRASHED: "crashed",
}


def judge(
    arms: list[dict[str, Any]],
    effects: list[dict[str, Any]],
    problem: str,
    *,
    direction: str,
    looks: Sequence[int],
    rows: int,
) -> dict[str, Any]:
    """Return verdict and conclusion, or nothing where more seeds are needed.

    Args:
        arms: the incumbent's and the experiment's values and runs, by seed.
        effects: their difference, where every run completed.
        problem: why nothing can be estimated.
        looks: numbers of seeds after which a verdict may fall.
        rows: size of the validation split; 0 where unknown.
    """
    incumbent, tried = arms
    if None in tried["values"]:
        return _told(CRASHED, f"{tried['failed']} of {len(tried['values'])} runs failed{_cause(tried)}")
    if problem or (problem := _another_code(arms)) or not effects:
        return _told(UNDECIDED, problem or "the incumbent's runs failed")
    sign = 1.0 if direction == "maximize" else -1.0
    step = resolution([*incumbent["values"], *tried["values"]], rows)
    effect = effects[0]
    verdict = verdict_of([sign * one for one in effect["differences"]], looks, step)
    if verdict is None:
        return {}
    return _told(
        verdict,
        f"{effect['mean']:+.4g} ({effect['low']:+.4g} to {effect['high']:+.4g}) over {len(tried['values'])} seeds, "
        f"{tried['mean']:.4g} against {incumbent['mean']:.4g}",
    )


def _told(verdict: str, figures: str) -> dict[str, Any]:
    return {"verdict": verdict, "conclusion": f"{WORDS[verdict]}; {figures}."}


def _cause(arm: dict[str, Any]) -> str:
    failures = [run.status.failure for run in arm["runs"] if run is not None and run.status.failure is not None]
    return f": {failures[0].message.rstrip('.')}" if failures else ""


def _another_code(arms: Sequence[dict[str, Any]]) -> str:
    """Return that a state of the code was not the same in all of its runs; empty where it was."""
    for arm in arms:
        if len({run.code.meaning or run.code.digest for run in arm["runs"] if run is not None}) > 1:
            return f"the runs of {arm['name']} imported different code"
    return ""
