"""The trial table as an in-memory Optuna study, rebuilt for every query, so nothing is lost with a process."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from trainwright.tools.hyperparameter_tuner.conditions import own_choice
from trainwright.tools.hyperparameter_tuner.trials import COMPLETED, FAILED, PRUNED, RUNNING, TrialRecord
from trainwright.trainer.base.canonical import canonical_json
from trainwright.trainer.config import Range, SearchSection
from trainwright.trainer.config.search import Choices, FloatRange, ObjectiveSection, last_of

if TYPE_CHECKING:
    import optuna

STUDY_NAME = "trainwright"
"""Fixed: Hyperband hashes the study's name into its brackets."""


def memory_study(
    space: Mapping[str, Range],
    direction: str,
    trials: Sequence[TrialRecord],
    *,
    objectives: Sequence[ObjectiveSection] = (),
    sampler: optuna.samplers.BaseSampler | None = None,
    pruner: optuna.pruners.BasePruner | None = None,
) -> optuna.Study:
    """Return a study that holds the trials in their order, running and failed ones too.

    Args:
        objectives: further ones, beside that of `direction`. A completed trial without one of them is left out.
    """
    import optuna

    optuna.logging.set_verbosity(optuna.logging.WARNING)
    directions = [direction, *(one.direction for one in objectives)]
    study = optuna.create_study(study_name=STUDY_NAME, directions=directions, sampler=sampler, pruner=pruner)
    known, metrics = distributions(space), [one.metric for one in objectives]
    for trial in trials:
        if trial.state != COMPLETED or all(metric in trial.further for metric in metrics):
            study.add_trial(_frozen(trial, _encoded(space, trial.parameters), known, metrics))
    return study


def distributions(space: Mapping[str, Range]) -> dict[str, optuna.distributions.BaseDistribution]:
    """Return Optuna's distributions in the order of the keys. Choices are written as JSON, so any value can be one."""
    return {key: _distribution(space[key]) for key in sorted(space)}


def decoded(space: Mapping[str, Range], parameters: Mapping[str, Any]) -> dict[str, Any]:
    """Return suggested parameters as configuration values."""
    return {
        key: json.loads(value) if isinstance(space[key], Choices) else value
        for key, value in sorted(parameters.items())
    }


def _encoded(space: Mapping[str, Range], parameters: Mapping[str, Any]) -> dict[str, Any]:
    return {key: _as_json(space[key], value) for key, value in parameters.items()}


def _as_json(range_: Range, value: Any) -> Any:
    """Return a choice as JSON in its own form: an earlier study may hold 0.0 for the choice 0."""
    return canonical_json(own_choice(value, range_.choices)) if isinstance(range_, Choices) else value


def _distribution(range_: Range) -> optuna.distributions.BaseDistribution:
    import optuna

    if isinstance(range_, Choices):
        return optuna.distributions.CategoricalDistribution([canonical_json(choice) for choice in range_.choices])
    if isinstance(range_, FloatRange):
        return optuna.distributions.FloatDistribution(range_.low, last_of(range_), log=range_.log, step=range_.step)
    return optuna.distributions.IntDistribution(range_.low, int(last_of(range_)), log=range_.log, step=range_.step or 1)


def _frozen(
    trial: TrialRecord,
    encoded: dict[str, Any],
    space: dict[str, optuna.distributions.BaseDistribution],
    metrics: Sequence[str],
) -> optuna.trial.FrozenTrial:
    from optuna.trial import TrialState, create_trial

    states = {
        COMPLETED: TrialState.COMPLETE,
        PRUNED: TrialState.PRUNED,
        FAILED: TrialState.FAIL,
        RUNNING: TrialState.RUNNING,
    }
    return create_trial(
        state=states[trial.state],
        values=[trial.value, *(trial.further[metric] for metric in metrics)] if trial.state == COMPLETED else None,
        params=encoded,
        distributions={key: space[key] for key in trial.parameters},
        intermediate_values={} if metrics else trial.intermediate,  # Optuna has none of several objectives
        system_attrs={key: value for key, value in trial.attributes.items() if key != "cause"},
    )


# Pruning of a trial: a pure function of the trial table and the trial's values so far (TUNE-2).
#
# A trial is evaluated from the epoch `warmup_epochs` on, by all three rules.
# The decision is made for every epoch in order, from the first, and the table keeps values only up to the deciding
# epoch: epochs that the worker trained after it leave no trace, so timing cannot change the values that later trials
# see.


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
