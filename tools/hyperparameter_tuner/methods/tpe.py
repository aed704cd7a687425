"""TPE: a tree-structured Parzen estimator over all keys together.

Source: Bergstra et al., "Algorithms for Hyper-Parameter Optimization", NeurIPS 2011; multivariate as in Falkner et al.,
"BOHB", ICML 2018; as implemented in Optuna.
"""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING, Any

from trainwright.tools.hyperparameter_tuner.methods.question import STARTUP_TRIALS, Question, ask

if TYPE_CHECKING:
    import optuna


def draw(question: Question) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return parameters that are likely under the good trials and unlikely under the others."""
    return ask(question, sampler(question), [*question.known, *question.trials])


def sampler(question: Question) -> optuna.samplers.TPESampler:
    """Return the sampler. What Optuna 5 takes by default is written out, so that another version changes no study."""
    import optuna

    with warnings.catch_warnings():  # conditional keys are modelled in groups, which Optuna calls experimental
        warnings.simplefilter("ignore", optuna.exceptions.ExperimentalWarning)
        return optuna.samplers.TPESampler(
            seed=question.seed,
            n_startup_trials=STARTUP_TRIALS,
            multivariate=True,
            constant_liar=True,
            group=question.domain.is_conditional,
        )
