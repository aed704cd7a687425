"""How honest the rule of experiments is: simulated ideas whose truth is known, beside a loop that looks once.

    make bench-honesty

Values are in standard deviations of the noise of a seed. (a) ideas that change nothing, (b) gains of 1, 2 and 4, (c)
chains of 200 ideas, most of them harmful, kept by one run of each (the naive way) and by the rule; then what each
claims beside what it has.
"""

from __future__ import annotations

import json
import math
import random
import statistics
import sys
from collections.abc import Callable

from trainwright.tools.hyperparameter_tuner.experiments.verdict import KEPT, looks_up_to, verdict_of

MOST, NULL, REAL, CHAINS, IDEAS = 8, 6000, 1000, 40, 200
MEAN, SPREAD = -0.3, 0.8
"""Of the true effect of an idea in a chain."""
T_95 = 2.365
"""Student's factor for eight paired differences."""


def judged(draw: random.Random, effect: float) -> tuple[bool, list[float]]:
    """Return whether an idea of this true effect is kept, and the differences that were measured."""
    looks, differences = looks_up_to(MOST), list[float]()
    for number in looks:
        differences += [effect + draw.gauss(0, 1) - draw.gauss(0, 1) for _ in range(number - len(differences))]
        if (verdict := verdict_of(differences, looks)) is not None:
            break
    return verdict == KEPT, differences


def wilson(share: float, trials: int) -> list[float]:
    """Return the 95 % interval of a share (Wilson, JASA 22, 1927)."""
    z = 1.96
    middle = (share + z * z / (2 * trials)) / (1 + z * z / trials)
    half = z / (1 + z * z / trials) * math.sqrt(share * (1 - share) / trials + z * z / (4 * trials * trials))
    return [round(middle - half, 4), round(middle + half, 4)]


def chain(draw: random.Random, effects: list[float]) -> dict[str, float]:
    """Return true gain, the sum of what was kept, and the gain confirmed on eight new seeds with its interval."""
    real = summed = 0.0
    for effect in effects:
        is_kept, differences = judged(draw, effect)
        if is_kept:
            real, summed = real + effect, summed + statistics.fmean(differences)
    fresh = [real + draw.gauss(0, 1) - draw.gauss(0, 1) for _ in range(MOST)]
    half = T_95 * statistics.stdev(fresh) / math.sqrt(MOST)
    return {"real": real, "summed": summed, "confirmed": statistics.fmean(fresh), "half": half}


def naive(draw: random.Random, effects: list[float]) -> dict[str, float]:
    """Return true gain and claim of a loop that keeps whatever one run shows to be better than the best so far."""
    real, first = 0.0, draw.gauss(0, 1)
    best = first
    for effect in effects:
        if (value := real + effect + draw.gauss(0, 1)) > best:
            real, best = real + effect, value
    return {"real": real, "claimed": best - first}


def shares_inside(found: list[dict[str, float]], inside: Callable[[dict[str, float]], bool]) -> float:
    """Return the share of chains of which something holds."""
    return sum(map(inside, found)) / len(found)


def main() -> int:
    """Print the figures as one JSON object; 1 where a goal is missed."""
    draw = random.Random(36)
    false = sum(judged(draw, 0.0)[0] for _ in range(NULL)) / NULL
    kept, seeds = {}, {}
    for effect in (1.0, 2.0, 4.0):
        found = [judged(draw, effect) for _ in range(REAL)]
        kept[effect] = sum(one for one, _ in found) / REAL
        seeds[effect] = round(statistics.fmean(len(each) for _, each in found), 2)
    ideas = [[draw.gauss(MEAN, SPREAD) for _ in range(IDEAS)] for _ in range(CHAINS)]
    ours, other = [chain(draw, each) for each in ideas], [naive(draw, each) for each in ideas]
    covered = shares_inside(ours, lambda one: abs(one["confirmed"] - one["real"]) <= one["half"])
    print(json.dumps({
        "falsely_kept": round(false, 4), "falsely_kept_interval": wilson(false, NULL),
        "kept": {f"{effect:g}": round(share, 4) for effect, share in kept.items()}, "seeds": seeds,
        "chains": CHAINS, "ideas": IDEAS,
        "real_gain": round(statistics.median(one["real"] for one in ours), 2),
        "sum_of_kept": round(statistics.median(one["summed"] for one in ours), 2),
        "confirmed_gain": round(statistics.median(one["confirmed"] for one in ours), 2),
        "confirmed_interval_holds": covered,
        "naive_real_gain": round(statistics.median(one["real"] for one in other), 2),
        "naive_claim": round(statistics.median(one["claimed"] for one in other), 2),
    }))  # fmt: skip
    return int(false > 0.05 or any(kept[effect] < least for effect, least in ((1.0, 0.5), (2.0, 0.9), (4.0, 0.99))))


if __name__ == "__main__":
    sys.exit(main())
