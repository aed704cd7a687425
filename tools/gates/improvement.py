"""Improvement of a study's best configuration over the baseline, measured from sealed runs over seeds (PHASE-5).

The seeds are nobody's choice: they follow from the configuration. The configuration's seed is not among them, for the
best trial was chosen on it, and its value there is better than its repetitions (the winner's curse).
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Mapping, Sequence
from itertools import count
from typing import Any

from trainwright.tools.gates.checklist import CheckLine
from trainwright.tools.gates.phases import Phase
from trainwright.tools.gates.records import Records, RunRecords
from trainwright.tools.gates.releases import other_than_planned
from trainwright.tools.workspace.tables import Study
from trainwright.trainer.base.canonical import digest_json
from trainwright.trainer.config import apply_changes, config_digest, parse_config

CONFIDENCE = 0.95
"""Of the first test of a configuration's improvement. Alpha spending: the k-th test uses alpha/2^(k-1), so the
family-wise error stays below 2 alpha."""
FLOAT32 = 2.0**-23
"""Relative step of the arithmetic that metrics come from."""


def confirmation_seeds(
    base_config_digest: str, repeats: int, *, own_seed: int, purpose: str = "confirmation"
) -> list[int]:
    """Return the 32-bit seeds on which a configuration's studies are confirmed, distinct and without its seed.

    More repeats only add to the seeds of fewer.

    Args:
        purpose: another one gives other seeds, so that what it shows tells nothing of a confirmation to come.
    """
    seeds: list[int] = []
    for number in count():
        if len(seeds) >= repeats:
            break
        seed = int(digest_json([purpose, base_config_digest, number]).removeprefix("blake3:")[:8], 16)
        if seed not in {own_seed, *seeds}:
            seeds.append(seed)
    return seeds


def compare(
    baseline: list[float], best: list[float], direction: str, *, samples: int = 0, look: int = 1
) -> dict[str, Any]:
    """Return the mean paired improvement with its t-interval, and whether it is validated.

    Pairs share a seed, and an improvement is positive whichever way the metric points. Validated means: the interval
    lies above zero, and the mean above the spread (standard deviation) of the baseline over the seeds. No interval is
    narrower than the metric's resolution: values that all agree show how coarse it is, not that there is no noise.

    Args:
        baseline: finite values, one a seed; at least two.
        best: as many, on the same seeds in the same order.
        direction: `maximize` or `minimize`.
        samples: size of the split they were measured on; 0 where unknown.
        look: 1 for the first confirmation of a study of this configuration, 2 for the next, and so on.
    """
    from scipy import stats

    sign = 1.0 if direction == "maximize" else -1.0
    differences = [sign * (b - a) for a, b in zip(baseline, best, strict=True)]
    mean, spread = statistics.fmean(differences), statistics.stdev(baseline)
    rounding = resolution([*baseline, *best], samples) / math.sqrt(6)  # of a difference of two rounded values
    error = max(statistics.stdev(differences), rounding) / math.sqrt(len(differences))
    confidence = 1.0 - (1.0 - CONFIDENCE) / 2 ** (look - 1)
    half = float(stats.t.ppf(0.5 + confidence / 2, len(differences) - 1)) * error
    return {
        "differences": differences,
        "confidence": confidence,
        "look": look,
        "improvement_mean": mean,
        "improvement_low": mean - half,
        "improvement_high": mean + half,
        "baseline_spread": spread,
        "validated": mean - half > 0.0 and mean > spread,
    }


def told_separated(found: dict[str, Any]) -> str:
    """Say that every repetition of the best beats every one of the baseline; empty where one does not, or few tell.

    The exact rank test of 3 seeds against 3 gives one in 20 to chance, where the t-interval of three differences, 4.3
    standard errors wide, has zero in it. That is enough to choose one of two configurations, and no claim of a gain.

    Args:
        found: a comparison over seeds, with both sides' values.
    """
    baseline, best = found.get("baseline") or [], found.get("best") or []
    if not baseline or found.get("validated") or found["improvement_mean"] <= 0.0:
        return ""
    gap = max(min(best) - max(baseline), min(baseline) - max(best))  # the mean tells which way is better
    if gap <= resolution([*baseline, *best], 0) or 1.0 / math.comb(2 * len(best), len(best)) > 1.0 - CONFIDENCE:
        return ""
    return (
        f"all {len(best)} seeds of the best beat all {len(baseline)} of the baseline; the difference "
        f"{found['improvement_mean']:+.4g} is not settled by its interval"
    )


def seed_spread(baseline: list[float], samples: int) -> float:
    """Return how much another seed changes the baseline: its standard deviation, at least the metric's rounding.

    Args:
        baseline: finite values, one a seed; at least two.
        samples: size of the split they were measured on; 0 where unknown.
    """
    return max(statistics.stdev(baseline), resolution(baseline, samples) / math.sqrt(6))


def seeds_interval(values: list[float], samples: int) -> tuple[float, tuple[float, float]]:
    """Return the mean over seeds and its 95 % t-interval, no narrower than the metric's rounding.

    Args:
        values: finite, one a seed; at least two.
        samples: size of the split they were measured on; 0 where unknown.
    """
    from scipy import stats

    mean = statistics.fmean(values)
    rounding = resolution(values, samples) / math.sqrt(12)
    error = max(statistics.stdev(values), rounding) / math.sqrt(len(values))
    half = float(stats.t.ppf(0.5 + CONFIDENCE / 2, len(values) - 1)) * error
    return mean, (mean - half, mean + half)


def seeds_in_words(metric: str, values: list[float], samples: int, source: str) -> str:
    """Return mean, deviation and interval of a validation metric over seeds, and where the values come from.

    Args:
        values: as `seeds_interval` takes them, and `samples`.
        source: `certified`, say.
    """
    mean, (low, high) = seeds_interval(values, samples)
    return (
        f"validation {metric} {mean:.4g} ± {statistics.stdev(values):.2g} (mean and deviation over {len(values)} "
        f"seeds, {CONFIDENCE:.0%} interval of the mean {low:.4g} to {high:.4g}; {source})"
    )


def look_number(
    studies: list[dict[str, Any]], study_id: str, seeds: list[int], best: dict[str, Any] | None = None
) -> int:
    """Return the number of the study's confirmation among its configuration's, by the ledger's entries, in order.

    Studies of one configuration are confirmed on the same seeds, which nobody chooses. One that found the same best
    configuration, on as many seeds, compares the same runs: that is not another test.
    """
    own, looked = digest_json([seeds, best]), set()
    for body in studies:
        if body["study_id"] == study_id and body.get("confirmation"):
            break
        if (body.get("confirmation") or {}).get("seeds", [])[:1] == seeds[:1]:
            looked.add(digest_json([body["confirmation"]["seeds"], body["confirmation"].get("best_parameters")]))
    return len(looked - {own}) + 1


def study_that_counts(newest_first: list[Study], entries: list[tuple[int, dict[str, Any]]]) -> Study | None:
    """Return the newest study that was validated, so that a later search in vain takes nothing back.

    Without one the newest that completed, and without that the newest.

    Args:
        newest_first: the studies of one configuration.
        entries: the ledger's entries on studies.
    """
    held = {body["study_id"] for _, body in entries if (body.get("confirmation") or {}).get("validated") is True}
    completed = [study for study in newest_first if study.state == "completed"]
    validated = [study for study in completed if study.id in held]
    return next(iter(validated or completed or newest_first), None)


def resolution(values: list[float], samples: int) -> float:
    """Return the smallest step between two values: of one sample where they all count samples, else of float32."""
    largest = max(map(abs, values))
    whole = [math.isclose(value * samples, round(value * samples), abs_tol=1e-4) for value in values]
    return 1.0 / samples if samples > 0 and all(whole) and largest <= 1.0 else FLOAT32 * largest


def validation_rows(evidence: Records) -> int:
    """Return the size of the validation split that planning fixed; 0 where it is unknown."""
    return evidence.smoke.data.sizes.get("validation", 0) if evidence.smoke is not None else 0


def measure_improvement(evidence: Records) -> tuple[dict[str, Any], list[str]]:
    """Compare the baseline's and the best configuration's repetitions by their sealed records.

    The study's row only names the runs to read: each must be complete, unchanged since its seal, trained with exactly
    its configuration and seed, on the data and code that planning approved. The seeds must be the
    configuration's `confirmation_seeds`, as many as the checklist asks for, and must have had an effect.

    Returns:
        The comparison (empty when it cannot be made), and its problems.
    """
    confirmation = evidence.confirmation
    if not confirmation:
        return {}, ["not confirmed yet"]
    seeds = list(confirmation["seeds"])
    sides = {"baseline": ({}, "baseline_runs"), "best": (confirmation["best_parameters"], "best_runs")}
    problems = _seed_problems(evidence, seeds)
    if any(len(confirmation[key]) != len(seeds) for _, key in sides.values()):
        return {}, [*problems, "it names another number of runs than of seeds"]
    runs: dict[str, list[RunRecords]] = {}
    for side, (parameters, key) in sides.items():
        found = [
            _repetition(evidence, parameters, seed, run) for seed, run in zip(seeds, confirmation[key], strict=True)
        ]
        runs[side] = [run for run, _ in found if run is not None]
        problems += [problem for _, problem in found if problem]
    problems += [] if problems else _without_effect(evidence, confirmation["baseline_runs"])
    if problems:
        return {}, problems
    values, is_certified, problems = repeated_values(runs, evidence.goal_metric)
    if problems:
        return {}, problems
    direction = str(evidence.project.goal["direction"])
    samples = validation_rows(evidence)
    studies = [body for _, body in evidence.entries("study")]
    look = look_number(studies, evidence.study.id if evidence.study else "", seeds, confirmation["best_parameters"])
    measured = compare(values["baseline"], values["best"], direction, samples=samples, look=look)
    return {**measured, **values, "certified": is_certified, "seeds": seeds}, []


def repeated_values(
    runs: Mapping[str, Sequence[RunRecords]], metric: str
) -> tuple[dict[str, list[float]], bool, list[str]]:
    """Return a metric of each side's repetitions, whether it is certified, and problems.

    Certified values of all repetitions are compared, or reported ones of all, where one cannot be evaluated apart.
    """
    every = [run for side in runs.values() for run in side]
    problems = [
        f"run {run.id}: {run.evaluation.differences[0]}" for run in every if run.evaluation and run.evaluation.differs
    ]
    is_certified = all(metric in run.certified() for run in every)
    lost = [run.id for run in every if run.evaluation is None]
    problems += [f"run {run_id} exported no program: its value cannot be compared" for run_id in lost]
    found = {
        side: [(run.id, run.best_value(metric) if is_certified else run.reported_value(metric)) for run in own]
        for side, own in runs.items()
    }
    odd = [run_id for side in found.values() for run_id, value in side if value is None or not math.isfinite(value)]
    problems += [f"run {run_id} recorded no finite validation {metric}" for run_id in odd]
    return (
        {side: [value for _, value in own if value is not None] for side, own in found.items()},
        is_certified,
        problems,
    )


def confirmed_value(evidence: Records) -> tuple[str, float]:
    """Return the confirmed best configuration's value and its source: certified over the repetitions, else its trial's.

    A trial exports no program, so its value is what the training process reported.
    """
    found = evidence.improvement[0]
    if found.get("certified"):
        return "best configuration's repetitions", statistics.fmean(found["best"])
    return "best trial", float(evidence.confirmation["best_value"])


def _seed_problems(evidence: Records, seeds: list[int]) -> list[str]:
    least = least_seeds(evidence.lines(Phase.OPTIMIZATION))
    if len(seeds) < least:
        return [f"it was confirmed on {len(seeds)} seeds; at least {least} are needed"]
    assert evidence.study is not None, "what was measured was measured on its repetitions"  # noqa: S101
    digest = evidence.study.base_config_digest
    derived = confirmation_seeds(digest, len(seeds), own_seed=evidence.config.seed)
    return (
        [] if seeds == derived else [f"it was confirmed on the seeds {seeds}, not on the configuration's own {derived}"]
    )


def least_seeds(lines: list[CheckLine]) -> int:
    """Return how many seeds these lines of the optimization checklist ask for; an interval needs two."""
    return max(2, *(int(line.threshold or 0) for line in lines if line.id == "optimization.improvement_validated"))


def _without_effect(evidence: Records, run_ids: list[str]) -> list[str]:
    """Return a sentence when all repetitions ended with the same weights: then the seeds measured nothing."""
    runs = [evidence.run(run_id) for run_id in run_ids]
    digests = {run.summary.weights_digest for run in runs if run is not None}
    if len(digests) > 1 or None in digests:
        return []
    return [
        f"{len(run_ids)} seeds gave the same weights: the code sets a seed itself (reproducibility/seed_control.md)"
    ]


def _repetition(evidence: Records, parameters: dict[str, Any], seed: int, run_id: str) -> tuple[RunRecords | None, str]:
    run = evidence.run(run_id)
    if run is None or not run.is_complete:
        return None, f"run {run_id} is not complete"
    if run.differences:
        return None, run.differences[0]
    expected = config_digest(parse_config(apply_changes(evidence.version.values, {**parameters, "seed": seed})))
    specification = run.directory.specification()
    if config_digest(specification.config) != expected or specification.max_steps is not None:
        return None, f"run {run_id} did not train the configuration it stands for (seed {seed})"
    if other_than_planned(evidence, run):
        return None, f"run {run_id} saw other data, code or packages than planning approved"
    return run, ""
