"""Regular two-level fractions: the smallest 2^(k-p) design of a resolution, its signs and its aliases.

Source: Box and Hunter, "The 2^(k-p) Fractional Factorial Designs", Technometrics 3(3), 1961; Box, Hunter and Hunter,
"Statistics for Experimenters", 2nd edition 2005, chapter 6. Resolution III: no two main effects are aliased; IV: no
main effect with an interaction of two factors; V: no two such interactions.

A set of factors is a bit mask. In run r the base factor i has its alternative where bit i of r is set, and an added
factor where the bits of its generator hold an odd number of ones. So run 0 is the present configuration.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import combinations
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator


@dataclass(frozen=True)
class Fraction:
    """A regular design: all combinations of the base factors, and the added ones as products of those."""

    factors: int
    base: int
    generators: tuple[int, ...] = ()
    """Mask over the base factors of each added factor, in order; none: the whole factorial."""

    @property
    def runs(self) -> int:
        """Number of its runs."""
        return 1 << self.base

    @property
    def resolution(self) -> int | None:
        """Length of the shortest word of the defining relation; None of a whole factorial."""
        return min(map(int.bit_count, _subgroup(self._words())), default=None)

    def _words(self) -> list[int]:
        return [mask | 1 << (self.base + place) for place, mask in enumerate(self.generators)]

    def bits(self, run: int) -> list[int]:
        """Return for each factor whether the run has its alternative (1) or the present value (0)."""
        own = [run >> place & 1 for place in range(self.base)]
        return own + [(run & mask).bit_count() % 2 for mask in self.generators]

    def signs(self, effect: tuple[int, ...]) -> tuple[int, ...]:
        """Return the product of the factors' signs (+1 the alternative, -1 the present value) in every run."""
        rows = [self.bits(run) for run in range(self.runs)]
        return tuple(-1 if sum(1 - row[factor] for factor in effect) % 2 else 1 for row in rows)

    def effects(self, order: int = 2) -> list[list[tuple[int, tuple[int, ...]]]]:
        """Return the effects of up to so many factors that can be estimated, each with its aliases.

        Each is a list of (sign, factors), the effect of fewest factors first; the sum of the signed effects is what
        its contrast estimates. Effects aliased with the mean are left out.
        """
        classes: dict[tuple[int, ...], list[tuple[int, tuple[int, ...]]]] = {}
        sets = (chosen for size in range(1, order + 1) for chosen in combinations(range(self.factors), size))
        for chosen in sets:
            signs = self.signs(chosen)
            if len(set(signs)) == 1:
                continue
            opposite = tuple(-sign for sign in signs)
            first = opposite if opposite in classes else signs
            classes.setdefault(first, []).append((-1 if first == opposite else 1, chosen))
        return list(classes.values())


def smallest_fraction(factors: int, resolution: int) -> Fraction | None:
    """Return the design of fewest runs with at least this resolution; None where it takes the whole factorial."""
    for base in range(1, factors):
        masks = [mask for mask in range(1, 1 << base) if mask.bit_count() >= resolution - 1]
        masks.sort(key=lambda mask: (-mask.bit_count(), mask))
        found = next(_chosen(masks, base, factors, resolution), None)
        if found is not None:
            return Fraction(factors, base, found)
    return None


def _chosen(
    masks: list[int], place: int, factors: int, resolution: int, words: tuple[int, ...] = ()
) -> Iterator[tuple[int, ...]]:
    """Give the generators of the factors from `place` on that keep every word long enough, by backtracking.

    Args:
        words: the products of the words so far.
    """
    if place == factors:
        yield ()
        return
    for number, mask in enumerate(masks):
        word = mask | 1 << place
        new = (word, *(word ^ other for other in words))
        if all(one.bit_count() >= resolution for one in new):
            for others in _chosen(masks[number + 1 :], place + 1, factors, resolution, (*words, *new)):
                yield (mask, *others)


def _subgroup(words: list[int]) -> list[int]:
    """Return all products of the words but the empty one."""
    found: list[int] = []
    for word in words:
        found += [word, *(word ^ other for other in found)]
    return found
