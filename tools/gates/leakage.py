"""Leakage between splits: more almost equal samples than chance explains.

Natural data holds pairs of almost equal samples, and dealing samples out by chance parts some of them. A pair is parted
with a probability that follows from the sizes, so the pairs found within the first split tell how many parted ones to
expect. Copies of held-out samples among the training samples are all parted.
"""

from __future__ import annotations

from trainwright.trainer.data.leaks.finding import probability
from trainwright.trainer.run.evidence import AlikeSamples


def beyond_chance(found: list[AlikeSamples], once_in: float, most: float) -> list[AlikeSamples]:
    """Return the comparisons of splits that chance does not explain.

    Args:
        once_in: an event that chance produces less than once in so many times is not explained by it.
        most: times the share of near samples within the first split up to which a share is no surprise: splits by time,
            group or class are not dealt out by chance.
    """
    return [
        one
        for one in found
        if one.alike * one.first > most * one.near * one.second
        and probability(one.alike, one.near, one.first, one.second) * once_in < 1
    ]
