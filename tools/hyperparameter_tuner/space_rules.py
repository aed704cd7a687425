"""Rules between the parts of a search: method and ranges, objectives, constraints, guesses.

All are checked before the first trial, so that nothing is trained for a search that contradicts itself.
"""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Iterator, Mapping
from itertools import islice
from typing import Any

from trainwright.tools.hyperparameter_tuner.conditions import exclude, own_choice
from trainwright.tools.hyperparameter_tuner.domain import Constraint, Domain
from trainwright.tools.hyperparameter_tuner.methods import LEARNING
from trainwright.tools.hyperparameter_tuner.methods.quasi_random import sequence
from trainwright.tools.hyperparameter_tuner.start_points import guess_problem, start_points
from trainwright.trainer.base.canonical import canonical_json
from trainwright.trainer.base.errors import did_you_mean
from trainwright.trainer.base.releases import BESIDE, has_torch
from trainwright.trainer.config import SearchSection, parse_config
from trainwright.trainer.config.search import Choices, size_of

MAX_GRID = 10_000
"""Points of a grid; more are a sample's business."""
MAX_COUNTED = 100_000
"""Points up to which those that conditions leave are counted to the last."""
TRIED_BITS = 12
"""Points, as a power of 2, that are tried before a space is called contradictory."""


def broken_rules(search: SearchSection, values: Mapping[str, Any]) -> list[str]:
    """Return what is wrong between the parts of a search; what depends on a broken part is not looked at.

    Args:
        values: the configuration that trials change.
    """
    for rule in (_choices, _overlapping, _method, _objectives, _constraints, _contradiction, _grid_size, _guesses):
        found = list(rule(search, values))
        if found:
            return found
    return []


def _choices(search: SearchSection, values: Mapping[str, Any]) -> Iterator[str]:  # noqa: ARG001
    for key, range_ in search.space.items():
        if isinstance(range_, Choices):
            written = Counter(canonical_json(own_choice(choice, range_.choices)) for choice in range_.choices)
            if twice := [text for text, count in written.items() if count > 1]:
                yield f"`{key}` has the choice {', '.join(twice)} more than once"


def _overlapping(search: SearchSection, values: Mapping[str, Any]) -> Iterator[str]:  # noqa: ARG001
    for key in search.space:
        inner = [
            other for other in search.space if other.startswith(f"{key}.") and not exclude(key, other, search.space)
        ]
        if inner:
            shown = ", ".join(f"`{other}`" for other in inner)
            yield f"`{key}` is searched as a whole, and so is {shown} within it: a trial could not have both values"


def _method(search: SearchSection, values: Mapping[str, Any]) -> Iterator[str]:  # noqa: ARG001
    method = search.method
    for key, range_ in search.space.items():
        if method != "grid" and not isinstance(range_, Choices) and range_.points is not None:
            yield f"`points` of `{key}` belongs to method grid, and the method is {method}; `step` is for all"
    if method == "gaussian_process" and not has_torch():
        yield f"gaussian_process computes with torch, which the server does not have ({BESIDE}); tpe needs none"
    if method == "cma_es" and all(isinstance(range_, Choices) for range_ in search.space.values()):
        yield "cma_es searches over numbers, and the space has choices alone; tpe takes both"
    if search.warm_start and method not in LEARNING:
        yield f"method {method} learns nothing from results, so it cannot start from earlier ones (warm_start); tpe can"


def objective_notes(search: SearchSection, asked: Mapping[str, Any], goal: str) -> list[str]:
    """Return what a search with several objectives takes for granted, in sentences for the answer.

    Args:
        asked: the search as the call, or the configuration, gives it.
        goal: the goal's metric.
    """
    if not search.objectives:
        return []
    bounds = "; ".join(one.bounds for one in search.objectives if one.bounds)
    among = f"within {bounds}" if bounds else "whatever the other objectives are (no bounds were given)"
    notes = [f"the trial with the best {goal} {among} is confirmed, and the gate goes by {goal} alone"]
    return notes if "pruning" in asked else [*notes, "no trial is pruned: pruning goes by one objective"]


def _objectives(search: SearchSection, values: Mapping[str, Any]) -> Iterator[str]:
    further = [one.metric for one in search.objectives]
    if not further:
        if search.method == "nsga2":
            text = "nsga2 looks for the front of several objectives, and the search has the goal's metric alone"
            yield f"{text} (search.objectives): tpe looks for its best"
        return
    goal = parse_config(dict(values)).selection.metric
    if len({*further, goal}) <= len(further):
        yield f"`objectives` are further ones, each once: {goal!r} is the goal's, and the first already"
    if search.method == "cma_es":
        yield "cma_es looks for the best of one objective, and the search has several; nsga2 looks for their front"
    if search.pruning.name != "none":
        yield f"pruning {search.pruning.name} compares trials by one objective, and the search has several: omit it"
    if search.stop_below_noise:
        yield "stop_below_noise looks at the goal's metric alone, and the front may still grow: omit it"


def _constraints(search: SearchSection, values: Mapping[str, Any]) -> Iterator[str]:
    present = Domain(search.model_copy(update={"constraints": []}), values).present
    for text in search.constraints:
        try:
            constraint = Constraint(text)
        except ValueError as error:
            yield str(error)
            continue
        unknown = [key for key in constraint.keys if key not in search.space and not present.has(key)]
        for key in unknown:
            hint = did_you_mean(key, [*search.space, *present.keys()])
            yield f"constraint {text!r}: `{key}` is neither searched nor a key of the configuration{hint}"
        if not unknown and not set(constraint.keys) & set(search.space):
            yield f"constraint {text!r} names no key that is searched, so it would allow all trials or none"


def _contradiction(search: SearchSection, values: Mapping[str, Any]) -> Iterator[str]:
    for text in search.constraints:
        if said := _empty(search.model_copy(update={"constraints": [text]}), values):
            yield f"constraint {text!r} leaves nothing to try: {said}"
            return
    if search.constraints and (said := _empty(search, values)):
        yield f"the constraints contradict each other: each can be met, and {said} meets all of {search.constraints}"


def _empty(search: SearchSection, values: Mapping[str, Any]) -> str:
    """Return which points were tried, none of which meets the constraints; empty where one does."""
    domain = Domain(search, values)
    sizes = [size_of(range_) for range_ in search.space.values()]
    count = math.prod(size or 0 for size in sizes)
    if 0 < count <= MAX_GRID:
        return "" if next(domain.points(), None) is not None else f"none of its {count:,} points"
    tried = sequence(domain, search.seed, bits=TRIED_BITS)
    return "" if any(map(domain.meets, tried)) else f"none of {2**TRIED_BITS:,} points spread over the space"


def _grid_size(search: SearchSection, values: Mapping[str, Any]) -> Iterator[str]:
    if search.method != "grid":
        return
    count = math.prod(size_of(range_) or 1 for range_ in search.space.values())
    if count <= MAX_GRID:
        return
    free = Domain(search.model_copy(update={"constraints": []}), values)
    if max(size_of(range_) or 1 for range_ in search.space.values()) <= MAX_GRID and free.is_conditional:
        count = sum(1 for _ in islice(free.points(), count if count <= MAX_COUNTED else MAX_GRID + 1))
    if count <= MAX_GRID:
        return
    most = {key: size_of(range_) or 1 for key, range_ in search.space.items()}
    widest = ", ".join(f"`{key}` {most[key]:,}" for key in sorted(most, key=lambda key: -most[key])[:3])
    yield (
        f"the grid has {count:,} points ({widest}); at most {MAX_GRID:,} are tried one by one. Method quasi_random "
        "leaves no part of the space out either, with as many trials as you can afford"
    )


def grid_size(search: SearchSection, values: Mapping[str, Any]) -> int:
    """Return how many points of a grid meet the constraints."""
    return sum(1 for _ in Domain(search, values).points())


def _guesses(search: SearchSection, values: Mapping[str, Any]) -> Iterator[str]:
    domain = Domain(search, values)
    problems = [text for guess in search.guesses if (text := guess_problem(guess, domain))]
    yield from problems
    if problems or not search.guesses:
        return
    first = len(start_points(search.model_copy(update={"trials": MAX_GRID}), domain))
    if first > search.planned_trials:
        text = f"the present configuration and the guesses are {first} trials, and the search has {search.trials}"
        yield f"{text}: {json.dumps(search.guesses[-1])} would not be tried"
