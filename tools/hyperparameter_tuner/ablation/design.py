"""Design of an ablation study: its arms (configurations that are trained) and the contrasts that it estimates."""

from __future__ import annotations

import json
from dataclasses import dataclass
from itertools import combinations
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from trainwright.tools.hyperparameter_tuner.ablation.section import AblationSection

ONE, FULL = "one_at_a_time", "factorial"


@dataclass(frozen=True)
class Arm:
    """One configuration of the study: the reference with these changes; the first arm has none."""

    name: str
    changes: dict[str, Any]
    code: str | None = None
    """Digest of the snapshot of the code that it runs from; None: the project's own."""


@dataclass(frozen=True)
class Contrast:
    """An effect: a weighted sum over the arms' values on one seed. The weights add up to nothing."""

    name: str
    weights: tuple[float, ...]
    is_interaction: bool = False


@dataclass(frozen=True)
class Design:
    """The arms, the first of which is the reference, and the contrasts."""

    arms: list[Arm]
    contrasts: list[Contrast]
    letters: dict[str, str]
    """Letter of each factor in a factorial design, by key."""


def design_of(section: AblationSection) -> Design:
    """Return the design of a section whose factors fit it (`checked_ablation`).

    Factors are taken by name: the ledger keeps no other order of them.
    """
    factors = dict(sorted(section.factors.items()))
    return _one_at_a_time(factors, section.combinations) if section.design == ONE else _factorial(factors)


def level_name(key: str, level: Any) -> str:
    """Return a level as it is named in tables: `optimizer.weight_decay = 0`."""
    return f"{key} = {json.dumps(level)}"


def combination_name(changes: dict[str, Any]) -> str:
    """Return a combination of levels as it is named in tables: `optimizer.weight_decay = 0, loader.batch_size = 16`."""
    return ", ".join(level_name(key, level) for key, level in changes.items())


def _one_at_a_time(factors: dict[str, list[Any]], combinations: list[dict[str, Any]]) -> Design:
    changed = [{key: level} for key, own in factors.items() for level in own] + combinations
    arms = [Arm("reference", {}), *(Arm(combination_name(changes), changes) for changes in changed)]
    contrasts = [
        Contrast(arm.name, tuple(1.0 if place == own else 0.0 for place in range(1, len(arms))))
        for own, arm in enumerate(arms) if own
    ]  # fmt: skip
    contrasts = [Contrast(one.name, (-1.0, *one.weights)) for one in contrasts]
    return Design(arms, contrasts, {})


def _factorial(factors: dict[str, list[Any]]) -> Design:
    """Return all combinations; in the run r the factor i has its alternative where bit i of r is set."""
    keys = list(factors)
    letters = [chr(ord("A") + place) for place in range(len(keys))]
    runs = [[run >> place & 1 for place in range(len(keys))] for run in range(1 << len(keys))]
    effects = [chosen for size in (1, 2) for chosen in combinations(range(len(keys)), size)]
    contrasts = []
    for chosen in effects:
        word = ":".join(letters[place] for place in chosen)
        named = f" ({level_name(keys[chosen[0]], factors[keys[chosen[0]]][0])})" if len(chosen) == 1 else ""
        signs = [-1 if sum(1 - bits[place] for place in chosen) % 2 else 1 for bits in runs]
        weights = tuple(2 * sign / len(runs) for sign in signs)
        contrasts.append(Contrast(word + named, weights, is_interaction=len(chosen) > 1))
    return Design([_arm(factors, bits) for bits in runs], contrasts, dict(zip(keys, letters, strict=True)))


def _arm(factors: dict[str, list[Any]], bits: list[int]) -> Arm:
    changes = {key: own[0] for (key, own), bit in zip(factors.items(), bits, strict=True) if bit}
    return Arm(combination_name(changes) or "reference", changes)
