"""Comparison of an ablation study's configurations with the best of them, and which of those to take."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from typing import Any

from trainwright.tools.gates.improvement import CONFIDENCE, resolution, validation_rows
from trainwright.tools.gates.records import Records
from trainwright.trainer.config import flatten

Arm = dict[str, Any]
MAX_CONFIRMED = 3
"""Keys of an ablation study's best arm that one search confirms."""


def beside_best(results: dict[str, Any], samples: int) -> tuple[Arm, list[tuple[Arm, float]]] | None:
    """Return the arm with the best mean, and those that are not told apart from it with what they are behind.

    An arm's differences from the best are paired by seed; their t-intervals hold for all arms together (Bonferroni), as
    in multiple comparisons with the best (Hsu, "Constrained Simultaneous Confidence Intervals for Multiple Comparisons
    with the Best", The Annals of Statistics 12(3), 1984). None where fewer than two arms completed on all seeds.

    Args:
        results: as the study's ledger entry holds them.
        samples: size of the validation split; 0 where unknown.
    """
    arms = [arm for arm in results["arms"] if len(arm["values"]) > 1 and None not in arm["values"]]
    if len(arms) < 2 or results.get("problem"):
        return None
    best = (max if results["direction"] == "maximize" else min)(arms, key=lambda arm: arm["mean"])
    step = resolution([value for arm in arms for value in arm["values"]], samples)
    others = [(arm, _behind(best, arm, step, len(arms) - 1)) for arm in arms if arm is not best]
    return best, [(arm, behind) for arm, behind in others if behind is not None]


def told_beside_best(results: dict[str, Any], samples: int) -> str:
    """Say which arm has the best mean, which are as good within the seeds' noise, and which of these changes least."""
    found = beside_best(results, samples)
    if found is None or len(results["arms"]) < 3:
        return ""
    best, equal = found
    told_best = f"{best['name']} has the best mean ({best['mean']:.4g})"
    if not equal:
        return (
            f"{best['name']} has the best mean ({best['mean']:.4g}); every other is behind it beyond the seeds' noise."
        )
    listed = ", ".join(f"{arm['name']} (by {behind:.2g})" for arm, behind in equal)
    least = _simplest([best, *(arm for arm, _ in equal)], best)
    told = "" if least is best else f" {least['name']} is as good with fewer changes."
    return f"{told_best}; behind it within the seeds' noise: {listed}.{told}"


def space_to_confirm(evidence: Records) -> dict[str, Any]:
    """Return the space between the present values and the newest ablation study's arm of fewest changes that is best.

    Best is what is not told apart from the best mean. Empty where no level was better than the present value, and where
    there are more than `MAX_CONFIRMED` changes.
    """
    own: set[str] = set()
    results: dict[str, Any] = {}
    for _, body in evidence.entries("ablation"):
        own |= {body["study_id"]} if body.get("base_config_digest") == evidence.config_digest else set()
        results = body["results"] if body.get("results") and body["study_id"] in own else results
    if not any(effect["verdict"] == "better" for effect in results.get("effects", [])):
        return {}
    found = beside_best(results, validation_rows(evidence))
    if found is None:
        return {}
    changed = [arm for arm in (found[0], *(arm for arm, _ in found[1])) if arm["changes"]]
    changes = _simplest(changed, found[0])["changes"] if changed else {}
    present = flatten(evidence.config.model_dump(mode="json"))
    space = {key: {"type": "categorical", "choices": [present.get(key), value]} for key, value in changes.items()}
    is_plain = all(isinstance(value, int | float | str) for one in space.values() for value in one["choices"])
    return space if is_plain and len(space) <= MAX_CONFIRMED else {}


def _simplest(arms: Sequence[Arm], best: Arm) -> Arm:
    """Return the arm of fewest changes; of several, the best one or else the one nearest to it."""
    return min(arms, key=lambda arm: (len(arm["changes"]), arm is not best, abs(arm["mean"] - best["mean"])))


def _behind(best: Arm, arm: Arm, step: float, tests: int) -> float | None:
    """Return how far an arm's mean is behind the best one's; None where it is so beyond the seeds' noise."""
    from scipy import stats

    each = [one - other for one, other in zip(best["values"], arm["values"], strict=True)]
    error = max(statistics.stdev(each), step / math.sqrt(6)) / math.sqrt(len(each))
    half = float(stats.t.ppf(1 - (1 - CONFIDENCE) / 2 / tests, len(each) - 1)) * error
    behind = abs(statistics.fmean(each))
    return behind if behind <= half else None
