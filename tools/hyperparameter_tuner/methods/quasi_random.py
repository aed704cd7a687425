"""Quasi-random search: the points of a scrambled Sobol sequence, which leave no part of the space out.

Source: Sobol', "On the distribution of points in a cube", 1967; scrambled after Owen, "Randomly permuted (t,m,s)-nets",
1995; as implemented in SciPy.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from trainwright.tools.hyperparameter_tuner.domain import Domain
from trainwright.tools.hyperparameter_tuner.methods.question import Question

BLOCK_BITS = 10
"""Points that are drawn at once, as a power of 2."""
MAX_BITS = 17
"""Points of the sequence that are looked at, as a power of 2."""


def draw(question: Question) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the next point of the search's sequence that meets its constraints.

    Raises:
        LookupError: so few points meet them that the sequence has no more.
    """
    place = question.number - len(question.starts)
    met = 0
    for point in sequence(question.domain, question.search.seed, start=0 if question.domain.constraints else place):
        if question.domain.meets(point):
            if not question.domain.constraints or met == place:
                return point, {}
            met += 1
    raise LookupError(f"of {2**MAX_BITS} points {met} meet the constraints")


def sequence(domain: Domain, seed: int, *, start: int = 0, bits: int = MAX_BITS) -> Iterator[dict[str, Any]]:
    """Give the points of a seed's sequence as parameters that are searched together, 2**bits of them."""
    from scipy.stats import qmc

    engine = qmc.Sobol(len(domain.space), scramble=True, rng=seed)
    if start:
        engine.fast_forward(start)
        for _ in range(2**bits - start):
            yield domain.at([float(share) for share in engine.random(1)[0]])
        return
    for _ in range(max(1, 2 ** (bits - BLOCK_BITS))):
        for row in engine.random(2 ** min(bits, BLOCK_BITS)):
            yield domain.at([float(share) for share in row])
