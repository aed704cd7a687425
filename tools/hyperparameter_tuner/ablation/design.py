"""Design of an ablation study: its arms (configurations that are trained) and the contrasts that it estimates."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from trainwright.tools.hyperparameter_tuner.ablation.fractional import Fraction, smallest_fraction

if TYPE_CHECKING:
    from trainwright.tools.hyperparameter_tuner.ablation.section import AblationSection

ONE, FULL, FRACTIONAL = "one_at_a_time", "factorial", "fractional"


@dataclass(frozen=True)
class Arm:
    """One configuration of the study: the reference with these changes; the first arm has none."""

    name: str
    changes: dict[str, Any]


@dataclass(frozen=True)
class Contrast:
    """An effect: a weighted sum over the arms' values on one seed. The weights add up to nothing."""

    name: str
    weights: tuple[float, ...]
    aliases: tuple[str, ...] = ()
    """Other effects that the same contrast holds, with their sign."""
    is_interaction: bool = False


@dataclass(frozen=True)
class Design:
    """The arms, the first of which is the reference, and the contrasts."""

    arms: list[Arm]
    contrasts: list[Contrast]
    letters: dict[str, str]
    """Letter of each factor in a factorial design, by key."""
    generators: list[str]
    resolution: int | None = None


def design_of(section: AblationSection) -> Design:
    """Return the design of a section whose factors fit it (`checked_ablation`).

    Factors are taken by name: the ledger keeps no other order of them.
    """
    factors = dict(sorted(section.factors.items()))
    if section.design == ONE:
        return _one_at_a_time(factors)
    count = len(factors)
    fraction = smallest_fraction(count, section.resolution) if section.design == FRACTIONAL else None
    return _factorial(factors, fraction or Fraction(count, count))


def level_name(key: str, level: Any) -> str:
    """Return a level as it is named in tables: `optimizer.weight_decay = 0`."""
    return f"{key} = {json.dumps(level)}"


def _one_at_a_time(factors: dict[str, list[Any]]) -> Design:
    levels = [(key, level) for key, own in factors.items() for level in own]
    arms = [Arm("reference", {}), *(Arm(level_name(key, level), {key: level}) for key, level in levels)]
    contrasts = [
        Contrast(arm.name, tuple(1.0 if place == own else 0.0 for place in range(1, len(arms))))
        for own, arm in enumerate(arms) if own
    ]  # fmt: skip
    contrasts = [Contrast(one.name, (-1.0, *one.weights)) for one in contrasts]
    return Design(arms, contrasts, {}, [])


def _factorial(factors: dict[str, list[Any]], fraction: Fraction) -> Design:
    keys = list(factors)
    letters = [chr(ord("A") + place) for place in range(len(keys))]
    arms = [_arm(factors, fraction.bits(run)) for run in range(fraction.runs)]
    contrasts = []
    for (_, first), *others in fraction.effects():
        signs = fraction.signs(first)
        named = level_name(keys[first[0]], factors[keys[first[0]]][0])
        contrasts.append(
            Contrast(
                name=f"{_word(letters, first)} ({named})" if len(first) == 1 else _word(letters, first),
                weights=tuple(2 * sign / fraction.runs for sign in signs),
                aliases=tuple(f"{'-' if sign < 0 else ''}{_word(letters, chosen)}" for sign, chosen in others),
                is_interaction=len(first) > 1,
            )
        )
    return Design(
        arms, contrasts, dict(zip(keys, letters, strict=True)), _generators(letters, fraction), fraction.resolution
    )


def _arm(factors: dict[str, list[Any]], bits: list[int]) -> Arm:
    changes = {key: own[0] for (key, own), bit in zip(factors.items(), bits, strict=True) if bit}
    return Arm(", ".join(level_name(key, level) for key, level in changes.items()) or "reference", changes)


def _word(letters: list[str], chosen: tuple[int, ...]) -> str:
    return ":".join(letters[place] for place in chosen)


def _generators(letters: list[str], fraction: Fraction) -> list[str]:
    """Return the added factors as signed products of the base ones: `D = A:B:C`."""
    found = []
    for place, mask in enumerate(fraction.generators):
        base = tuple(factor for factor in range(fraction.base) if mask >> factor & 1)
        sign = "" if fraction.signs(base) == fraction.signs((fraction.base + place,)) else "-"
        found.append(f"{letters[fraction.base + place]} = {sign}{_word(letters, base)}")
    return found
