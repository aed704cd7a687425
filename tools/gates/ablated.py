"""Comparison of an ablation study's configurations with the best of them, and which of those to take."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from typing import Any

from trainwright.tools.answers import NextCall
from trainwright.tools.gates.improvement import CONFIDENCE, resolution, validation_rows
from trainwright.tools.gates.records import Records
from trainwright.tools.gates.studies import ACTIVE, ablation_studies, every_study
from trainwright.trainer.config import flatten

Arm = dict[str, Any]
MIN_SEEDS = 3
ENOUGH_SEEDS = 10
"""Of an arm that leads, after which more are not proposed."""
MAX_CONFIRMED = 3
"""Keys of an ablation study's best arm that one search confirms."""


def beside_best(results: dict[str, Any], samples: int) -> tuple[Arm, list[tuple[Arm, float]]] | None:
    """Return the arm with the best mean, and those that are not told apart from it with what they are behind.

    One that is worse on every seed is not among them, though so few may not settle it.

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
    others = [
        (arm, _behind(best, arm, step, len(arms) - 1))
        for arm in arms
        if arm is not best and not _on_each(arm, best, results["direction"], better=False)
    ]
    return best, [(arm, behind) for arm, behind in others if behind is not None]


def told_beside_best(results: dict[str, Any], samples: int) -> str:
    """Say which arm has the best mean, which are as good within the seeds' noise, and which of these changes least."""
    found, each = beside_best(results, samples), told_by_seed(results)
    if found is None or len(results["arms"]) < 3:
        return each
    best, equal = found
    told_best = f"{best['name']} has the best mean ({best['mean']:.4g})"
    if not equal:
        return f"{told_best}; every other is behind it beyond the seeds' noise, or on every seed. {each}".rstrip()
    listed = ", ".join(f"{arm['name']} (by {behind:.3g})" for arm, behind in equal)
    least = _simplest([best, *(arm for arm, _ in equal)], best)
    told = "" if least is best else f" {least['name']} is as good with fewer changes."
    return f"{told_best}; behind it within the seeds' noise: {listed}.{told} {each}".rstrip()


def watched_ablation(evidence: Records) -> NextCall | None:
    """Return the call that follows the ablation study, or experiment, that is under way; None without one."""
    under_way = [name for name, body in every_study(evidence, "ablation").items() if body["state"] in ACTIVE]
    if not under_way:
        return None
    watched = {"study_id": under_way[-1], "wait_seconds": 50}
    return NextCall(tool="tuning_status", arguments=watched, why="an ablation study is under way")


def more_seeds(evidence: Records, room: int) -> NextCall | None:
    """Return twice the seeds for the arm that leads the newest ablation study, where its own do not settle it.

    None where a level was better beyond the noise, where nothing leads the reference, after ten seeds, and where the
    limits leave fewer runs.

    Args:
        room: runs that the limits leave.
    """
    results = _newest(evidence)
    if not results or any(effect["verdict"] == "better" for effect in results["effects"]):
        return None
    found, repeats = beside_best(results, validation_rows(evidence)), len(results["seeds"])
    if found is None or not found[0]["changes"] or repeats >= ENOUGH_SEEDS or room < 4 * repeats:
        return None
    leads = found[0]
    why = f"{leads['name']} leads the ablation study, and {repeats} seeds do not settle it; those made are taken over"
    asked = {"factors": {}, "combinations": [leads["changes"]], "repeats": 2 * repeats}
    return evidence.call("start_tuning", why, search={"ablation": asked})


def space_to_confirm(evidence: Records) -> dict[str, Any]:
    """Return the space between the present values and the newest ablation study's arm of fewest changes that is best.

    Best is what is not told apart from the best mean. Empty where no level was better than the present value, and where
    there are more than `MAX_CONFIRMED` changes.
    """
    results = _newest(evidence)
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


def _newest(evidence: Records) -> dict[str, Any]:
    """Return the results of the newest ablation study of the present configuration that has ended; or nothing."""
    ended = [body for body in ablation_studies(evidence).values() if body.get("results")]
    own = [body["results"] for body in ended if body.get("base_config_digest") == evidence.config_digest]
    return dict(own[-1]) if own else {}


def told_by_seed(results: dict[str, Any]) -> str:
    """Say which arms are better, or worse, than the reference on every seed, and by how many times at least."""
    reference, *others = results["arms"]
    told, seeds = [], len(results["seeds"])
    for word, is_better in (("Better", True), ("Worse", False)):
        found = [arm for arm in others if _on_each(arm, reference, results["direction"], better=is_better)]
        if found:
            listed = ", ".join(f"{arm['name']}{_times(reference, arm)}" for arm in found)
            told.append(f"{word} than {reference['name']} on each of {seeds} seeds: {listed}.")
    return " ".join(told)


def _on_each(arm: Arm, other: Arm, direction: str, *, better: bool) -> bool:
    """Whether an arm is better, or worse, than another on every seed on which both completed all."""
    if None in [*arm["values"], *other["values"]] or len(arm["values"]) < MIN_SEEDS:
        return False
    sign = 1 if (direction == "maximize") == better else -1
    return all(sign * (one - of) > 0 for one, of in zip(arm["values"], other["values"], strict=True))


def _times(reference: Arm, arm: Arm) -> str:
    """Return by how many times the values differ at least, where that is twice or more: ` (2.8 times at least)`."""
    if min(*reference["values"], *arm["values"]) <= 0:
        return ""
    ratios = [max(one / of, of / one) for one, of in zip(arm["values"], reference["values"], strict=True)]
    return f" ({min(ratios):.2g} times at least)" if min(ratios) >= 2 else ""


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
