"""Results of an ablation study: a pure function of its search and of its sealed runs, so that `verify` derives them."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from typing import Any

import numpy as np

from trainwright.tools.gates.evidence import Evidence
from trainwright.tools.gates.improvement import resolution, seeds_in_words
from trainwright.tools.hyperparameter_tuner.ablation.design import Arm, Contrast, Design
from trainwright.tools.hyperparameter_tuner.ablation.section import AblationSearch
from trainwright.tools.hyperparameter_tuner.experiments.judging import foreign_code, judge
from trainwright.tools.hyperparameter_tuner.trials import COMPLETED
from trainwright.tools.ledger.events import TrialEnded
from trainwright.trainer.run.evidence import Data

BETTER, WORSE, INTERACTS = "better", "worse", "interacts"
UNSEEN = "not told apart from the seeds' noise"
NOTHING = "changes nothing: the same weights on every seed"
MAX_NAMED = 3


def results_of(
    evidence: Evidence, search: AblationSearch, objective: dict[str, str], seeds: list[int], lines: Sequence[TrialEnded]
) -> dict[str, Any]:
    """Return seeds, arms, effects and conclusion.

    An effect one of whose arms failed on a seed is not estimated: that it failed is the finding.

    Args:
        seeds: one for each repeat.
        lines: of all runs, by number.
    """
    design = search.design
    repeats = len(lines) // len(design.arms)
    arms = [_arm(evidence, arm, lines[own :: len(design.arms)]) for own, arm in enumerate(design.arms)]
    whole = [own for own, arm in enumerate(arms) if len(arm["values"]) == repeats and None not in arm["values"]]
    estimable = [one for one in design.contrasts if all(own in whole for own, w in enumerate(one.weights) if w)]
    problem = _without_effect(arms[0])
    effects: list[dict[str, Any]] = []
    samples = _samples(evidence, lines)
    if estimable and not problem:
        values = [arm["values"] if own in whole else [0.0] * repeats for own, arm in enumerate(arms)]
        effects = estimate(estimable, values, samples)
        for effect, contrast in zip(effects, estimable, strict=True):
            effect["verdict"] = _verdict(effect, contrast, arms, objective["direction"])
    found = problem if design.contrasts or problem else _repeated(arms[0], objective["metric"], samples)
    judged: dict[str, Any] = {}
    if search.experiment is not None:
        section, looks = search.experiment, search.looks
        problem = problem or foreign_code(evidence, section, arms)
        judged = judge(section, arms, effects, problem, direction=objective["direction"], looks=looks, rows=samples)
    for arm in arms:
        del arm["weights"], arm["runs"]  # compared, and not recorded: a seal holds them
    return {
        "design": search.ablation.design,
        **({"letters": design.letters} if design.letters else {}),
        "metric": objective["metric"],
        "direction": objective["direction"],
        "seeds": seeds[:repeats],
        "confidence": CONFIDENCE,
        "arms": arms,
        "effects": effects,
        **({"problem": problem} if problem else {}),
        "conclusion": found or conclusion(effects, design, arms, repeats),
        **judged,
    }


def conclusion(effects: list[dict[str, Any]], design: Design, arms: list[dict[str, Any]], repeats: int) -> str:
    """Return in words what was found, and where nothing was, what could have been seen."""
    failed = [f"{arm['name']} failed on {arm['failed']} of {repeats} seeds" for arm in arms if arm.get("failed")]
    found = [effect for effect in effects if effect["differs"]]
    parts = failed[:MAX_NAMED]
    if found:
        named = sorted(found, key=lambda one: one["p_holm"])[:MAX_NAMED]
        listed = "; ".join(
            f"{one['effect']} {one['verdict']} ({one['mean']:+.4g}, p {one['p_holm']:.2g})" for one in named
        )
        more = f" and {len(found) - len(named)} more" if len(found) > len(named) else ""
        parts.append(f"{len(found)} of {len(effects)} effects differ beyond the seeds' noise: {listed}{more}")
    elif effects:
        least, most = (end(one["smallest_seen"] for one in effects) for end in (min, max))
        size = f"{least:.2g}" if f"{least:.2g}" == f"{most:.2g}" else f"{least:.2g} to {most:.2g} (by effect)"
        parts.append(
            f"Nothing differs beyond the noise of {repeats} seeds. That is no proof of no effect: one of about {size} "
            f"would have been seen with {POWER:.0%} probability, a smaller one often not"
        )
    if len(effects) < len(design.contrasts):
        parts.append(f"{len(design.contrasts) - len(effects)} effects cannot be estimated, for runs of them failed")
    return "; ".join(parts) + "."


def _repeated(reference: dict[str, Any], metric: str, samples: int) -> str:
    """Return mean, deviation and interval of one configuration over its seeds, in words."""
    there = [value for value in reference["values"] if value is not None]
    seeds = len(reference["values"])
    if len(there) < 2:
        return f"No deviation: {len(there)} of {seeds} seeds completed."
    failed = f"; {seeds - len(there)} of {seeds} seeds failed" if len(there) < seeds else ""
    return f"{seeds_in_words(metric, there, samples, 'best epochs, as the training processes reported')}{failed}."


def _arm(evidence: Evidence, arm: Arm, lines: Sequence[TrialEnded]) -> dict[str, Any]:
    values = [line.value if line.state == COMPLETED else None for line in lines]
    there = [value for value in values if value is not None]
    failed = sum(value is None for value in values)
    runs = [evidence.run(line.run) if line.run else None for line in lines]
    return {
        "name": arm.name,
        "changes": arm.changes,
        "values": values,
        **({"mean": statistics.fmean(there)} if there else {}),
        **({"spread": statistics.stdev(there)} if len(there) > 1 else {}),
        **({"failed": failed} if failed else {}),
        "runs": runs,
        "weights": [run.summary.weights_digest if run is not None and run.is_complete else None for run in runs],
    }


def _without_effect(reference: dict[str, Any]) -> str:
    """Return a sentence when all seeds ended with the same weights: then no noise was measured."""
    digests = set(reference["weights"])
    if len(digests) > 1 or None in digests:
        return ""
    return (
        f"Nothing can be estimated: {len(reference['weights'])} seeds gave the same weights, so the code sets a seed "
        "itself (reproducibility/seed_control.md)."
    )


def _samples(evidence: Evidence, lines: Sequence[TrialEnded]) -> int:
    """Return the size of the validation split; 0 where no run says it."""
    ids = [line.run for line in lines if line.state == COMPLETED and line.run]
    run = evidence.run(ids[0]) if ids else None
    return run.directory.part(Data).sizes.get("validation", 0) if run is not None else 0


def _verdict(effect: dict[str, Any], contrast: Contrast, arms: list[dict[str, Any]], direction: str) -> str:
    weighted = [arms[own]["weights"] for own, weight in enumerate(contrast.weights) if weight]
    if len(weighted) == 2 and weighted[0] == weighted[1] and None not in weighted[0]:
        return NOTHING
    if not effect["differs"]:
        return UNSEEN
    if contrast.is_interaction:
        return INTERACTS
    return BETTER if (effect["mean"] > 0) == (direction == "maximize") else WORSE


# Estimates of an ablation study: paired differences with t-intervals, Holm's correction, and what could be seen.
#
# Every contrast is computed on each seed, over arms that share it, so what a seed does to all arms cancels. The mean of
# those values has Student's interval on n-1 degrees of freedom (Student, "The Probable Error of a Mean", Biometrika
# 6(1), 1908). No bootstrap: with three to ten seeds its percentile intervals are too narrow (Hesterberg, "What Teachers
# Should Know About the Bootstrap", The American Statistician 69(4), 2015), and a signed-rank test of five pairs can
# reach no p-value below 0.06. Holm, "A Simple Sequentially Rejective Multiple Test Procedure", Scandinavian Journal of
# Statistics 6(2), 1979, keeps the chance of any false finding of the study at 5 %, whatever the contrasts have in
# common.

CONFIDENCE = 0.95
"""Of each interval by itself, and 1 less the chance of any false finding among all comparisons (Holm)."""
POWER = 0.8
"""Chance with which the smallest effect is found that a study is said to be able to see."""
SPREADS = 400
"""Points at which the distribution of a standard deviation is averaged."""


def estimate(
    contrasts: Sequence[Contrast], values: Sequence[Sequence[float]], samples: int = 0
) -> list[dict[str, Any]]:
    """Return each contrast's mean over the seeds, its interval, its p-value with Holm's correction, and its verdict.

    No spread is taken to be smaller than the metric's resolution gives: values that agree show how coarse it is.

    Args:
        values: by arm, one finite value a seed, at least two, in the same order of seeds.
        samples: size of the split they were measured on; 0 where unknown.
    """
    step = resolution([value for own in values for value in own], samples)
    found = [_estimated(one, values, step, len(contrasts)) for one in contrasts]
    for one, adjusted in zip(found, holm([one["p"] for one in found]), strict=True):
        one["p_holm"] = adjusted
        one["differs"] = adjusted <= 1.0 - CONFIDENCE
    return found


def _estimated(one: Contrast, values: Sequence[Sequence[float]], step: float, tests: int) -> dict[str, Any]:
    from scipy import stats

    seeds = len(values[0])
    each = [math.fsum(w * own[seed] for w, own in zip(one.weights, values, strict=True)) for seed in range(seeds)]
    rounding = step * math.sqrt(sum(weight**2 for weight in one.weights) / 12)  # of rounded values, uniformly off
    mean = statistics.fmean(each)
    error = max(statistics.stdev(each), rounding) / math.sqrt(seeds)
    freedom = seeds - 1
    half, wide = (float(stats.t.ppf(1 - (1 - CONFIDENCE) / 2 / count, freedom)) * error for count in (1, tests))
    return {
        "effect": one.name,
        "differences": each,
        "mean": mean,
        "low": mean - half,
        "high": mean + half,
        "low_all": mean - wide,
        "high_all": mean + wide,
        "p": float(2 * stats.t.sf(abs(mean) / error, freedom)),
        "smallest_seen": smallest_seen(error, freedom, tests),
    }


def holm(values: Sequence[float]) -> list[float]:
    """Return Holm's adjusted p-values, in the order of the given ones."""
    adjusted, largest = [0.0] * len(values), 0.0
    for rank, place in enumerate(sorted(range(len(values)), key=values.__getitem__)):
        largest = max(largest, min(1.0, (len(values) - rank) * values[place]))
        adjusted[place] = largest
    return adjusted


def smallest_seen(error: float, freedom: int, tests: int) -> float:
    """Return the smallest true effect that is found with probability `POWER`, at Holm's strictest step.

    The statistic is (Z + effect / error) / S with Z normal and S^2 chi-squared over its degrees of freedom; its chance
    to pass is averaged over S (Cohen, "Statistical Power Analysis for the Behavioral Sciences", 1988, gives tables).
    SciPy's noncentral t has no value so far out. The error itself is estimated, so this is a guide, and no promise.
    """
    from scipy import optimize, special, stats

    test = float(stats.t.ppf(1 - (1 - CONFIDENCE) / 2 / tests, freedom))
    spreads = np.sqrt(stats.chi2.ppf((np.arange(SPREADS) + 0.5) / SPREADS, freedom) / freedom)

    def missed(effect: float) -> float:
        return POWER - float(np.mean(special.ndtr(effect - test * spreads) + special.ndtr(-effect - test * spreads)))

    return float(optimize.brentq(missed, 0.0, 10.0 * test + 10.0)) * error
