"""Gaussian process: a Matern kernel over all keys, and the point of the largest expected improvement (log EI).

Source: Ament et al., "Unexpected Improvements to Expected Improvement for Bayesian Optimization", NeurIPS 2023, as
implemented in Optuna, which needs torch: the only place where a study's process loads it.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from trainwright.tools.hyperparameter_tuner.domain import at
from trainwright.tools.hyperparameter_tuner.methods.question import STARTUP_TRIALS, Question, ask
from trainwright.tools.hyperparameter_tuner.trials import TrialRecord
from trainwright.trainer.base.releases import require_torch


def draw(question: Question) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the point that promises most; a key that a trial had no part of counts as the middle of its range.

    What was rejected counts as under way: the most promising point would be the same one again.

    Raises:
        ConfigurationError: torch is missing.
    """
    import optuna

    require_torch("search.method gaussian_process", "Search with method tpe")

    sampler = optuna.samplers.GPSampler(
        seed=question.seed, n_startup_trials=STARTUP_TRIALS, warn_independent_sampling=False
    )
    rejected = [TrialRecord(question.number, parameters) for parameters in question.rejected]
    trials = [_filled(trial, question) for trial in (*question.known, *question.trials, *rejected)]
    return ask(question, sampler, trials, whole=True)


def _filled(trial: TrialRecord, question: Question) -> TrialRecord:
    middle = {key: at(range_, 0.5) for key, range_ in question.search.space.items()}
    return replace(trial, parameters={**middle, **trial.parameters})
