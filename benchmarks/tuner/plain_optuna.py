"""The same spaces and curves under Optuna as its users write it: sampler, pruner, `report`, `should_prune`."""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING, Any

from tasks import DIRECTION, EPOCHS

from trainwright.tools.hyperparameter_tuner.trials import COMPLETED, PRUNED, TrialRecord

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    import optuna

PRUNERS = ("none", "median", "hyperband", "successive_halving")


def play(
    method: str,
    pruner: str,
    seed: int,
    space: Mapping[str, Any],
    curve: Callable[[Mapping[str, Any]], dict[int, float]],
    *,
    trials: int,
    given: Sequence[Mapping[str, Any]] = (),
) -> list[TrialRecord]:
    """Return a sequential study's trials as lines of a trial table.

    Args:
        given: parameters of the first trials, so that pruners are compared on the very same ones.
    """
    import optuna

    optuna.logging.set_verbosity(optuna.logging.ERROR)
    warnings.filterwarnings("ignore", category=optuna.exceptions.ExperimentalWarning)

    def objective(trial: optuna.trial.Trial) -> float:
        values = curve(_asked(trial, space))
        for epoch, value in values.items():
            trial.report(value, epoch)
            if epoch < EPOCHS and trial.should_prune():
                raise optuna.TrialPruned
        return max(values.values())

    samplers = optuna.samplers
    sampler = samplers.RandomSampler(seed=seed) if method == "random" else samplers.TPESampler(seed=seed)
    study = optuna.create_study(direction=DIRECTION, sampler=sampler, pruner=_pruner(pruner))
    for parameters in given:
        study.enqueue_trial(dict(parameters))
    study.optimize(objective, n_trials=trials)
    return [_line(trial) for trial in study.trials]


def _pruner(name: str) -> optuna.pruners.BasePruner:
    """Return a pruner with the settings that Optuna has by itself; Hyperband is told the epochs, as its page asks."""
    from optuna import pruners

    return {
        "none": pruners.NopPruner,
        "median": pruners.MedianPruner,
        "hyperband": lambda: pruners.HyperbandPruner(min_resource=1, max_resource=EPOCHS, reduction_factor=3),
        "successive_halving": pruners.SuccessiveHalvingPruner,
    }[name]()


def _asked(trial: optuna.trial.Trial, space: Mapping[str, Any]) -> dict[str, Any]:
    asked: dict[str, Any] = {}
    for key, range_ in space.items():
        if range_["type"] == "categorical":
            asked[key] = trial.suggest_categorical(key, range_["choices"])
        else:
            asked[key] = trial.suggest_float(key, range_["low"], range_["high"], log=range_.get("log", False))
    return asked


def _line(trial: optuna.trial.FrozenTrial) -> TrialRecord:
    import optuna

    is_whole = trial.state is optuna.trial.TrialState.COMPLETE
    state, value = (COMPLETED, trial.value) if is_whole else (PRUNED, None)
    return TrialRecord(trial.number, trial.params, state, value, dict(trial.intermediate_values))
