"""Search methods: each draws a trial's parameters as a pure function of the search and the table it sees (TUNE-1).

All but `grid` and `quasi_random` are samplers of Optuna's over a study that is made of the table for each suggestion.
"""

from __future__ import annotations

import math
import warnings
from dataclasses import dataclass, replace
from itertools import islice
from typing import TYPE_CHECKING, Any

from trainwright.tools.hyperparameter_tuner.domain import at
from trainwright.tools.hyperparameter_tuner.memory_study import decoded, distributions, memory_study
from trainwright.tools.hyperparameter_tuner.trials import TrialRecord
from trainwright.trainer.base.canonical import canonical_json
from trainwright.trainer.base.releases import require_torch
from trainwright.trainer.config.search import Choices

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    import optuna

    from trainwright.tools.hyperparameter_tuner.domain import Domain
    from trainwright.tools.hyperparameter_tuner.start_points import StartPoint
    from trainwright.trainer.config import SearchSection

Drawn = tuple[dict[str, Any], dict[str, Any]]
"""Parameters that are searched together, and attributes to keep with the trial."""

STARTUP_TRIALS = 6
"""Trials that a model draws at random before it models: the same however long the study is, for it may be split."""
GENERATION = "NSGAIISampler:generation"
"""Optuna's attribute of a trial."""
POPULATION = 12
"""Trials of a generation at least: whole waves, and the same number however long the study is, for it may be split."""
BLOCK_BITS = 10
"""Quasi-random points that are drawn at once, as a power of 2."""
MOST_BITS = 17
"""Points of the sequence that are looked at, as a power of 2."""


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
) -> Drawn:
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


def tpe(question: Question) -> Drawn:
    """Return parameters that are likely under the good trials and unlikely under the others.

    Source: Bergstra et al., "Algorithms for Hyper-Parameter Optimization", NeurIPS 2011; multivariate as in Falkner et
    al., "BOHB", ICML 2018.
    """
    return ask(question, tpe_sampler(question), [*question.known, *question.trials])


def tpe_sampler(question: Question) -> optuna.samplers.TPESampler:
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


def random_draws(question: Question) -> Drawn:
    """Return parameters drawn evenly over every range's scale, each trial by itself.

    Source: Bergstra and Bengio, "Random Search for Hyper-Parameter Optimization", JMLR 2012.
    """
    import optuna

    return ask(question, optuna.samplers.RandomSampler(seed=question.seed), [])


def gaussian_process(question: Question) -> Drawn:
    """Return the point that promises most; a key that a trial had no part of counts as the middle of its range.

    What was rejected counts as under way: the most promising point would be the same one again. Optuna's needs torch:
    the only place where a study's process loads it.
    Source: Ament et al., "Unexpected Improvements to Expected Improvement for Bayesian Optimization", NeurIPS 2023.

    Raises:
        ConfigurationError: torch is missing.
    """
    import optuna

    require_torch("search.method gaussian_process", "Search with method tpe")

    sampler = optuna.samplers.GPSampler(
        seed=question.seed, n_startup_trials=STARTUP_TRIALS, warn_independent_sampling=False
    )
    rejected = [TrialRecord(question.number, parameters) for parameters in question.rejected]
    middle = {key: at(range_, 0.5) for key, range_ in question.search.space.items()}
    seen = (*question.known, *question.trials, *rejected)
    filled = [replace(trial, parameters={**middle, **trial.parameters}) for trial in seen]
    return ask(question, sampler, filled, whole=True)


def nsga2(question: Question) -> Drawn:
    """Return a child of the generation before, or a random point of the first, for several objectives.

    Parents, crossover and mutation are drawn anew from the table for each suggestion; only a trial's generation is kept
    with it. The present configuration and the guesses belong to the first generation.
    Source: Deb et al., "A Fast and Elitist Multiobjective Genetic Algorithm: NSGA-II", IEEE Transactions on
    Evolutionary Computation 6(2), 2002.
    """
    import optuna

    wave = question.search.wave
    population = wave * math.ceil(POPULATION / wave)
    sampler = optuna.samplers.NSGAIISampler(
        seed=question.seed, population_size=population, crossover_prob=0.9, swapping_prob=0.5
    )
    seen = (*question.known, *question.trials)
    return ask(question, sampler, [replace(one, attributes={GENERATION: 0, **one.attributes}) for one in seen])


def grid(question: Question) -> Drawn:
    """Return the next point of the grid that is none of the search's first trials.

    Raises:
        LookupError: the grid has no more points, which starting a search rules out.
    """
    first = {canonical_json(start.parameters) for start in question.starts}
    others = (point for point in question.domain.points() if canonical_json(point) not in first)
    place = question.number - len(question.starts)
    for point in islice(others, place, place + 1):
        return point, {}
    raise LookupError(f"the grid has no trial {question.number}")


def quasi_random(question: Question) -> Drawn:
    """Return the next point of the search's sequence that meets its constraints.

    Raises:
        LookupError: so few points meet them that the sequence has no more.
    """
    place = question.number - len(question.starts)
    met = 0
    for point in sequence(question.domain, question.search.seed, start=0 if question.domain.constraints else place):
        if question.domain.meets(point):
            if not question.domain.constraints or met == place:
                return point, {}
            met += 1
    raise LookupError(f"of {2**MOST_BITS} points {met} meet the constraints")


def sequence(domain: Domain, seed: int, *, start: int = 0, bits: int = MOST_BITS) -> Iterator[dict[str, Any]]:
    """Give the points of a seed's scrambled Sobol sequence as parameters that are searched together, 2**bits of them.

    Source: Sobol', "On the distribution of points in a cube", 1967; scrambled after Owen, "Randomly permuted
    (t,m,s)-nets", 1995; as implemented in SciPy.
    """
    from scipy.stats import qmc

    engine = qmc.Sobol(len(domain.space), scramble=True, rng=seed)
    if start:
        engine.fast_forward(start)
        for _ in range(2**bits - start):
            yield domain.at([float(share) for share in engine.random(1)[0]])
        return
    for _ in range(max(1, 2 ** (bits - BLOCK_BITS))):
        for row in engine.random(2 ** min(bits, BLOCK_BITS)):
            yield domain.at([float(share) for share in row])


METHODS: dict[str, Callable[[Question], Drawn]] = {
    "tpe": tpe,
    "random": random_draws,
    "grid": grid,
    "quasi_random": quasi_random,
    "gaussian_process": gaussian_process,
    "nsga2": nsga2,
}
LEARNING = frozenset({"tpe", "gaussian_process", "nsga2"})
"""Methods that suggest by the results of other trials."""
IN_SEQUENCE = frozenset({"grid", "quasi_random"})
"""Methods whose points are numbered, and meet the constraints as they are."""
