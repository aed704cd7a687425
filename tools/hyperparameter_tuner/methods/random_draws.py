"""Random search: each trial drawn by itself.

Source: Bergstra and Bengio, "Random Search for Hyper-Parameter Optimization", JMLR 2012.
"""

from __future__ import annotations

from typing import Any

from trainwright.tools.hyperparameter_tuner.methods.question import Question, ask


def draw(question: Question) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return parameters drawn evenly over every range's scale."""
    import optuna

    return ask(question, optuna.samplers.RandomSampler(seed=question.seed), [])
