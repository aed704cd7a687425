"""Whether a study's best configuration really is better: measured anew from sealed runs over seeds (PHASE-5).

The seeds are nobody's choice: they follow from the configuration. The configuration's own seed is not among them, for
the best trial was chosen on it, and its value there is better than what it repeats (the winner's curse).
"""

from __future__ import annotations

import math
import statistics
from itertools import count
from typing import TYPE_CHECKING, Any

from trainwright.tools.gates.staleness import inherited
from trainwright.trainer.canonical import digest_json
from trainwright.trainer.config import apply_changes, config_digest, parse_config

if TYPE_CHECKING:
    from trainwright.tools.gates.evidence import Evidence

CONFIDENCE = 0.95


def confirmation_seeds(base_config_digest: str, repeats: int, *, own_seed: int) -> list[int]:
    """Return the 32-bit seeds on which a configuration's studies are confirmed, distinct and without its own seed.

    More repeats only add to the seeds of fewer.
    """
    seeds: list[int] = []
    for number in count():
        if len(seeds) >= repeats:
            break
        seed = int(digest_json(["confirmation", base_config_digest, number]).removeprefix("blake3:")[:8], 16)
        if seed not in {own_seed, *seeds}:
            seeds.append(seed)
    return seeds


def compare(baseline: list[float], best: list[float], direction: str) -> dict[str, Any]:
    """Return the mean paired improvement with its 95 % t-interval; validated when the interval lies above zero.

    Pairs share a seed, and an improvement is positive whichever way the metric points. Differences that are all equal
    have an interval of no width.
    """
    from scipy import stats

    sign = 1.0 if direction == "maximize" else -1.0
    differences = [sign * (b - a) for a, b in zip(baseline, best, strict=True)]
    mean = statistics.fmean(differences)
    error = statistics.stdev(differences) / math.sqrt(len(differences))
    half = float(stats.t.ppf(0.5 + CONFIDENCE / 2, len(differences) - 1)) * error
    return {
        "differences": differences,
        "confidence": CONFIDENCE,
        "improvement_mean": mean,
        "improvement_low": mean - half,
        "improvement_high": mean + half,
        "validated": mean - half > 0.0,
    }


def measure_improvement(evidence: Evidence) -> tuple[dict[str, Any], list[str]]:
    """Compare the baseline's and the best configuration's repetitions by what their sealed records say.

    Nothing is taken from the study's row but which runs to look at: each must be complete, unchanged since its seal,
    trained with exactly the configuration and seed it stands for, on what planning approved. The seeds must be the
    configuration's `confirmation_seeds`.

    Returns:
        The comparison (empty when it cannot be made), and what stands against it.
    """
    confirmation = evidence.confirmation
    if not confirmation:
        return {}, ["not confirmed yet"]
    seeds = list(confirmation["seeds"])
    sides = {"baseline": ({}, "baseline_runs"), "best": (confirmation["best_parameters"], "best_runs")}
    values: dict[str, list[float]] = {}
    problems = _seed_problems(evidence, seeds)
    for side, (parameters, key) in sides.items():
        found = [_value(evidence, parameters, seed, run) for seed, run in zip(seeds, confirmation[key], strict=True)]
        values[side] = [value for value, _ in found if value is not None]
        problems += [problem for _, problem in found if problem]
    if problems:
        return {}, problems
    measured = compare(values["baseline"], values["best"], str(evidence.project.goal["direction"]))
    return {**measured, **values, "seeds": seeds}, []


def _seed_problems(evidence: Evidence, seeds: list[int]) -> list[str]:
    derived = confirmation_seeds(evidence.config_digest, len(seeds), own_seed=evidence.config.seed)
    return (
        [] if seeds == derived else [f"it was confirmed on the seeds {seeds}, not on the configuration's own {derived}"]
    )


def _value(evidence: Evidence, parameters: dict[str, Any], seed: int, run_id: str) -> tuple[float | None, str]:
    run = evidence.run(run_id)
    if run is None or not run.is_complete:
        return None, f"run {run_id} is not complete"
    if run.differences:
        return None, run.differences[0]
    expected = config_digest(parse_config(apply_changes(evidence.version.values, {**parameters, "seed": seed})))
    specification = run.directory.specification()
    if config_digest(specification.config) != expected or specification.max_steps is not None:
        return None, f"run {run_id} did not train the configuration it stands for (seed {seed})"
    if evidence.smoke is None or inherited(run, evidence.smoke):
        return None, f"run {run_id} saw other data, code or packages than planning approved"
    value = run.best_value(evidence.goal_metric)
    return value, "" if value is not None else f"run {run_id} recorded no validation {evidence.goal_metric}"
