"""Question to a method: which trial's parameters to draw, and all that they may depend on."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from trainwright.tools.hyperparameter_tuner.memory_study import decoded, distributions, memory_study
from trainwright.tools.hyperparameter_tuner.trials import COMPLETED, FAILED, PRUNED
from trainwright.trainer.config import SearchSection
from trainwright.trainer.config.search import Choices

if TYPE_CHECKING:
    import optuna

    from trainwright.tools.hyperparameter_tuner.domain import Domain
    from trainwright.tools.hyperparameter_tuner.start_points import StartPoint
    from trainwright.tools.hyperparameter_tuner.trials import TrialRecord

STARTUP_TRIALS = 6
"""Trials that a model draws at random before it models: the same however long the study is, for it may be split."""
ENDED = frozenset({COMPLETED, PRUNED, FAILED})


@dataclass(frozen=True)
class Question:
    """The next trial of a search, as its method sees it."""

    search: SearchSection
    domain: Domain
    direction: str
    trials: Sequence[TrialRecord]
    """All before it, as it sees them (`waves.seen_by`)."""
    known: Sequence[TrialRecord]
    """Trials of earlier studies."""
    starts: Sequence[StartPoint]
    """The first trials, which no method suggests."""
    seed: int
    """Of this trial, and this attempt at it."""
    rejected: Sequence[dict[str, Any]] = ()
    """Parameters that the method suggested for this trial, and that broke a constraint."""

    @property
    def number(self) -> int:
        """The trial's number."""
        return len(self.trials)


def ask(
    question: Question, sampler: optuna.samplers.BaseSampler, trials: Sequence[TrialRecord], *, whole: bool = False
) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return what a sampler of Optuna's suggests after these trials, and its attributes.

    Args:
        whole: whether it suggests every key, though some are left out then.
    """
    domain = question.domain
    search = question.search
    study = memory_study(search.space, question.direction, trials, objectives=search.objectives, sampler=sampler)
    known = distributions(question.search.space)
    if whole or not domain.is_conditional:
        given = decoded(question.search.space, study.ask(known).params)
        return domain.kept(given), dict(study.trials[-1].system_attrs)
    trial, given = study.ask(), {}
    for key in domain.order:
        if domain.is_active(key, given):
            given |= decoded(question.search.space, {key: _suggested(trial, key, question)})
    return dict(sorted(given.items())), dict(study.trials[-1].system_attrs)


def _suggested(trial: optuna.Trial, key: str, question: Question) -> Any:
    distribution = distributions(question.search.space)[key]
    if isinstance(question.search.space[key], Choices):
        return trial.suggest_categorical(key, distribution.choices)
    suggest = trial.suggest_int if question.search.space[key].type == "int" else trial.suggest_float
    return suggest(key, distribution.low, distribution.high, step=distribution.step, log=distribution.log)
