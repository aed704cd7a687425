"""Leakage between splits: more almost equal samples than chance explains.

Natural data holds pairs of almost equal samples, and dealing samples out by chance parts some of them. A pair is parted
with a probability that follows from the sizes, so the pairs found within the first split tell how many parted ones to
expect. Copies of held-out samples among the training samples are all parted.
"""

from __future__ import annotations

from trainwright.trainer.data.leaks.finding import is_beyond_chance
from trainwright.trainer.run.evidence import AlikeSamples


def beyond_chance(found: list[AlikeSamples], once_in: float, most: float) -> list[AlikeSamples]:
    """Return the comparisons of splits that chance does not explain, by `is_beyond_chance`."""
    return [
        one for one in found if is_beyond_chance(one.alike, one.near, one.first, one.second, once_in=once_in, most=most)
    ]
