"""Search methods: each draws a trial's parameters as a pure function of the search and the table it sees (TUNE-1)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from trainwright.tools.hyperparameter_tuner.methods import (
    cma_es,
    gaussian_process,
    grid,
    nsga2,
    quasi_random,
    random_draws,
    tpe,
)
from trainwright.tools.hyperparameter_tuner.methods.question import Question

METHODS: dict[str, Callable[[Question], tuple[dict[str, Any], dict[str, Any]]]] = {
    "tpe": tpe.draw,
    "random": random_draws.draw,
    "grid": grid.draw,
    "quasi_random": quasi_random.draw,
    "gaussian_process": gaussian_process.draw,
    "cma_es": cma_es.draw,
    "nsga2": nsga2.draw,
}
"""Method to its function: parameters that are searched together, and attributes to keep with the trial."""
LEARNING = frozenset({"tpe", "gaussian_process", "cma_es", "nsga2"})
"""Methods that suggest by the results of other trials."""
IN_SEQUENCE = frozenset({"grid", "quasi_random"})
"""Methods whose points are numbered, and meet the constraints as they are."""

__all__ = ["METHODS", "LEARNING", "IN_SEQUENCE"]
