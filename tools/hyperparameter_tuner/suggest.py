"""Suggestion of the next trial: a pure function of the search and the trial table (TUNE-1, TUNE-3).

The sampler lives for one suggestion and is seeded by (search seed, number of trials), so a study that was killed
anywhere goes on with the very trials it would have made. (A sampler carried along, or one seeded alike at each start,
repeats itself or diverges after a restart.)
"""

from __future__ import annotations

from importlib.metadata import version
from typing import TYPE_CHECKING, Any

import trainwright
from trainwright.tools.hyperparameter_tuner.memory_study import decoded, distributions, memory_study
from trainwright.trainer.base.canonical import digest_json

if TYPE_CHECKING:
    from collections.abc import Sequence

    import optuna

    from trainwright.tools.hyperparameter_tuner.trials import TrialRecord
    from trainwright.trainer.config import SearchSection

STARTUP_TRIALS = 6
"""Trials that TPE draws at random before it models: the same however long the study is, for it may be split."""


def suggest(
    search: SearchSection, direction: str, trials: Sequence[TrialRecord]
) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return (dotted key to value, Optuna's system attributes) of trial number `len(trials)`.

    Args:
        trials: all before it, as it sees them (`waves.seen_by`).
    """
    sampler = _sampler(search, len(trials))
    study = memory_study(search.space, direction, trials, sampler=sampler)
    asked = study.ask(distributions(search.space))
    attributes = study.trials[-1].system_attrs
    return decoded(search.space, asked.params), dict(attributes)


def made_by() -> dict[str, str]:
    """Return the versions on which suggestions and prunings depend, as a study's start records them."""
    return {"trainwright": trainwright.__version__, "optuna": version("optuna")}


def _sampler(search: SearchSection, number: int) -> optuna.samplers.BaseSampler:
    import optuna

    seed = int(digest_json([search.seed, number]).split(":")[1][:8], 16)
    if search.method == "random":
        return optuna.samplers.RandomSampler(seed=seed)
    return optuna.samplers.TPESampler(seed=seed, n_startup_trials=STARTUP_TRIALS)
