"""Distances between two samples of values: PSI, chi-squared, Kolmogorov-Smirnov, Wasserstein, and MMD."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

BINS = 10
FLOOR = 1e-4
"""Share that an empty bin counts as, so that the index stays finite."""
MAX_MMD = 1000
"""Rows of each sample for the maximum mean discrepancy, which takes their square."""
SEED = 12

Values = np.ndarray[Any, np.dtype[np.float64]]


def psi(reference: Values, found: Values) -> float:
    """Return the population stability index of found (n,) against reference (m,), over the reference's deciles."""
    edges = np.unique(np.quantile(reference, np.linspace(0, 1, BINS + 1)[1:-1]))
    return shares_psi(_shares(reference, edges), _shares(found, edges))


def _shares(values: Values, edges: Values) -> Values:
    counts = np.bincount(np.searchsorted(edges, values, side="left"), minlength=len(edges) + 1)
    return np.asarray(counts / max(len(values), 1))


def shares_psi(reference: Values, found: Values) -> float:
    """Return the index of two lists of shares, (bins,) each."""
    one, other = np.maximum(reference, FLOOR), np.maximum(found, FLOOR)
    return float(np.sum((other - one) * np.log(other / one)))


def counted(reference: Mapping[str, int], found: Mapping[str, int]) -> tuple[Values, Values]:
    """Return two counts of categories over the categories of both, (categories,) each."""
    names = sorted({*reference, *found})
    return np.array([reference.get(name, 0) for name in names], dtype=float), np.array(
        [found.get(name, 0) for name in names], dtype=float
    )


def categories_psi(reference: Mapping[str, int], found: Mapping[str, int]) -> float:
    """Return the population stability index of two counts of categories."""
    one, other = counted(reference, found)
    return shares_psi(one / max(one.sum(), 1), other / max(other.sum(), 1))


def chi2(reference: Mapping[str, int], found: Mapping[str, int]) -> float:
    """Return the chi-squared statistic of two counts over its degrees of freedom: near 1 if nothing shifted."""
    from scipy.stats import chi2_contingency

    table = np.stack(counted(reference, found))
    if table.shape[1] < 2 or not table.sum(axis=1).all():
        return 0.0
    result = chi2_contingency(table)
    return float(result.statistic / max(result.dof, 1))


def ks(reference: Values, found: Values) -> float:
    """Return the largest distance of the two distribution functions."""
    from scipy.stats import ks_2samp

    return float(ks_2samp(reference, found, method="asymp").statistic)


def wasserstein(reference: Values, found: Values) -> float:
    """Return how far values have to move on average, in standard deviations of the reference."""
    from scipy.stats import wasserstein_distance

    scale = float(np.std(reference)) or 1.0
    return float(wasserstein_distance(reference / scale, found / scale))


def mmd(reference: Values, found: Values) -> float:
    """Return the unbiased squared maximum mean discrepancy of rows, (n, features) and (m, features).

    The kernel is Gaussian, as wide as the median distance within the reference (Gretton et al. 2012, JMLR 13).
    """
    generator = np.random.default_rng(SEED)
    center, scale = reference.mean(axis=0), reference.std(axis=0)
    scale[scale == 0] = 1.0
    one, other = ((_some(rows, generator) - center) / scale for rows in (reference, found))
    within, across, beside = _squared(one, one), _squared(one, other), _squared(other, other)
    width = float(np.median(within[np.triu_indices(len(one), 1)])) or 1.0
    return (
        _mean_apart(np.exp(-within / width))
        + _mean_apart(np.exp(-beside / width))
        - 2 * float(np.exp(-across / width).mean())
    )


def _some(rows: Values, generator: np.random.Generator) -> Values:
    if len(rows) <= MAX_MMD:
        return rows
    return np.asarray(rows[np.sort(generator.choice(len(rows), MAX_MMD, replace=False))])


def _squared(one: Values, other: Values) -> Values:
    found = (one**2).sum(axis=1)[:, None] + (other**2).sum(axis=1)[None, :] - 2 * one @ other.T
    return np.asarray(np.maximum(found, 0.0))


def _mean_apart(kernel: Values) -> float:
    """Return the mean of a square matrix without its diagonal."""
    size = len(kernel)
    return float((kernel.sum() - np.trace(kernel)) / max(size * (size - 1), 1))
