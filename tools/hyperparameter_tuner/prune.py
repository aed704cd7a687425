"""Pruning of a trial: a pure function of the trial table and the trial's values so far (TUNE-2).

A trial is evaluated from the epoch `warmup_epochs` on, by all three rules.
The decision is made for every epoch in order, from the first, and the table keeps values only up to the deciding epoch:
epochs that the worker trained after it leave no trace, so timing cannot change the values that later trials see.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from trainwright.tools.hyperparameter_tuner.memory_study import memory_study
from trainwright.tools.hyperparameter_tuner.trials import RUNNING

if TYPE_CHECKING:
    from collections.abc import Sequence

    import optuna

    from trainwright.tools.hyperparameter_tuner.trials import TrialRecord
    from trainwright.trainer.config import SearchSection


def pruned_epoch(
    search: SearchSection,
    direction: str,
    trials: Sequence[TrialRecord],
    current: TrialRecord,
    values: dict[int, float],
    *,
    epochs: int,
) -> tuple[int | None, dict[str, Any]]:
    """Return (epoch at which the trial is pruned or None, the trial's attributes after the epochs looked at).

    Args:
        trials: the trials before it, in order, as it sees them (`waves.seen_by`).
        values: the objective's value by epoch, as far as the trial has run.
        epochs: the most that any trial runs (Hyperband plans its brackets with it).
    """
    pruner = _pruner(search, epochs)
    if pruner is None:
        return None, dict(current.attributes)
    import optuna

    fresh = replace(current, state=RUNNING, value=None, intermediate={})
    study = memory_study(search.space, direction, [*trials, fresh], pruner=pruner)
    trial = optuna.trial.Trial(study, study.trials[-1]._trial_id)  # ask() would draw again
    decided = None
    for epoch, value in sorted(values.items()):
        trial.report(value, epoch)
        if trial.should_prune() and epoch < epochs:  # after the last one nothing is left to save
            decided = epoch
            break
    return decided, dict(study.trials[-1].system_attrs)


def _pruner(search: SearchSection, epochs: int) -> optuna.pruners.BasePruner | None:
    import optuna

    rules, first = search.pruning, max(1, search.pruning.warmup_epochs)
    if rules.bracket is not None:  # halved together (`halving`)
        return None
    if rules.name == "median":
        return optuna.pruners.MedianPruner(n_startup_trials=rules.startup_trials, n_warmup_steps=rules.warmup_epochs)
    if rules.name == "hyperband":
        return optuna.pruners.HyperbandPruner(
            min_resource=first, max_resource=max(first, epochs), reduction_factor=rules.reduction_factor
        )
    if rules.name == "successive_halving":
        return optuna.pruners.SuccessiveHalvingPruner(min_resource=first, reduction_factor=rules.reduction_factor)
    return None
