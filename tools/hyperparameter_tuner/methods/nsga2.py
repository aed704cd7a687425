"""NSGA-II: generations of trials, bred from those that fewest others dominate and that stand furthest apart.

Parents, crossover and mutation are drawn anew from the table for each suggestion; only a trial's generation is kept
with it. The present configuration and the guesses belong to the first generation.

Source: Deb et al., "A Fast and Elitist Multiobjective Genetic Algorithm: NSGA-II", IEEE Transactions on Evolutionary
Computation 6(2), 2002; as implemented in Optuna.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

from trainwright.tools.hyperparameter_tuner.methods.question import Question, ask
from trainwright.tools.hyperparameter_tuner.trials import TrialRecord

GENERATION = "NSGAIISampler:generation"
"""Optuna's attribute of a trial."""
POPULATION = 12
"""Trials of a generation at least: whole waves, and the same number however long the study is, for it may be split."""


def draw(question: Question) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return a child of the generation before, or a random point of the first."""
    import optuna

    wave = question.search.wave
    population = wave * math.ceil(POPULATION / wave)
    sampler = optuna.samplers.NSGAIISampler(
        seed=question.seed, population_size=population, crossover_prob=0.9, swapping_prob=0.5
    )
    return ask(question, sampler, [_of_a_generation(trial) for trial in (*question.known, *question.trials)])


def _of_a_generation(trial: TrialRecord) -> TrialRecord:
    return replace(trial, attributes={GENERATION: 0, **trial.attributes})
