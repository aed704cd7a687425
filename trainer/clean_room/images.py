"""Metrics of pictures against pictures, values of 0 to 1: of each picture, then their mean.

SSIM as Wang et al. 2004 (10.1109/TIP.2003.819861) have it: a Gaussian window of 11 pixels and deviation 1.5, where it
lies within the picture.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from .counts import Array

EQUAL_DECIBELS = 100.0
"""PSNR of equal pictures, and of those that are nearer to each other than it says."""
WINDOW, DEVIATION = 11, 1.5
LUMINANCE, CONTRAST = 0.01**2, 0.03**2
"""Of which SSIM keeps the divisors away from 0."""
MIN_DIMENSIONS = 3
ROUNDING = 1e-5
"""By which values may lie outside of 0 to 1."""


def psnr(outputs: Array, targets: Array) -> Array:
    """Return the peak signal-to-noise ratio of each picture in decibels, (samples,); NaN of one with a NaN.

    Raises ValueError where targets are no pictures of 0 to 1.
    """
    ours, theirs = _pictures(outputs, targets)
    square = np.square(ours - theirs).mean(tuple(range(1, ours.ndim)))
    return np.asarray(-10.0 * np.log10(np.maximum(square, 10.0 ** (-EQUAL_DECIBELS / 10))))


def ssim(outputs: Array, targets: Array) -> Array:
    """Return the structural similarity of each picture, (samples,); NaN of one with a NaN.

    Raises ValueError where targets are no pictures of 0 to 1, or smaller than WINDOW.
    """
    ours, theirs = _pictures(outputs, targets)
    if min(ours.shape[-2:]) < WINDOW:
        raise ValueError(f"pictures of {ours.shape[-2]} x {ours.shape[-1]} are smaller than a window of {WINDOW}")
    mean, other = _blurred(ours), _blurred(theirs)
    variances = _blurred(ours**2) - mean**2 + _blurred(theirs**2) - other**2
    joint = _blurred(ours * theirs) - mean * other
    found = (2 * mean * other + LUMINANCE) * (2 * joint + CONTRAST)
    found /= (mean**2 + other**2 + LUMINANCE) * (variances + CONTRAST)
    return np.asarray(found.mean(tuple(range(1, found.ndim))))


OF_IMAGES: dict[str, Callable[[Array, Array], Array]] = {"psnr": psnr, "ssim": ssim}


def _pictures(outputs: Array, targets: Array) -> tuple[Array, Array]:
    if targets.ndim < MIN_DIMENSIONS:
        raise ValueError("it is of pictures: targets (samples, height, width) or (samples, channels, height, width)")
    low, high = (float(targets.min()), float(targets.max())) if targets.size else (0.0, 1.0)
    if not -ROUNDING <= low <= high <= 1.0 + ROUNDING:
        raise ValueError(f"it is of values from 0 to 1, and the targets' run from {low:g} to {high:g}")
    return outputs.reshape(targets.shape).astype(float), targets.astype(float)


def _blurred(images: Array) -> Array:
    """Return the Gaussian mean around each pixel whose window lies within the picture."""
    places = np.arange(WINDOW) - WINDOW // 2
    weights = np.exp(-(places**2) / (2 * DEVIATION**2))
    for axis in (-2, -1):
        images = np.lib.stride_tricks.sliding_window_view(images, WINDOW, axis=axis) @ (weights / weights.sum())
    return images
