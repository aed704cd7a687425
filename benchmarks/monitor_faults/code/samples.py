"""Data of the suite: what a user would write, sound or with one of the faults that the suite injects."""

from __future__ import annotations

import time

import numpy as np
import torch
from sklearn import datasets
from torch import Tensor
from torch.utils.data import Dataset, TensorDataset


def digits(
    seed: int = 0,
    rows: int = 1000,
    *,
    scale: float = 1.0,
    noise: float = 0.0,
    shuffled: bool = False,
    bad_rows: int = 0,
    bad_value: float = 1e3,
    rare: float = 1.0,
) -> TensorDataset:
    """Return pictures of digits in [0, 1]: `noise` and `shuffled` spoil labels, `bad_rows` get wild values.

    `rare` below 1 keeps two classes, the second with that share of its samples.
    """
    drawn = np.random.default_rng(seed)
    loaded = datasets.load_digits()
    x, y = loaded.images[:, None] / 16.0, loaded.target
    if rare < 1.0:
        keep = (y == 0) | (y == 1) | ((y == 8) & (drawn.random(len(y)) < rare))
        x, y = x[keep], (y[keep] == 8).astype(int)
    chosen = drawn.permutation(len(y))[:rows]
    x, y = x[chosen] * scale, y[chosen]
    wrong = drawn.random(len(y)) < noise
    y = np.where(wrong, drawn.integers(0, 10, len(y)), y)
    y = drawn.permutation(y) if shuffled else y
    x[drawn.permutation(len(y))[:bad_rows]] *= bad_value
    return TensorDataset(torch.tensor(x, dtype=torch.float32), torch.tensor(y))


class Slow(Dataset[tuple[Tensor, Tensor]]):
    """Samples that take their time to be read."""

    def __init__(self, seconds: float = 0.0003, seed: int = 0, rows: int = 600) -> None:
        self.samples, self.seconds = digits(seed, rows), seconds

    def __len__(self) -> int:
        return len(self.samples)

    def __getitem__(self, place: int) -> tuple[Tensor, Tensor]:
        time.sleep(self.seconds)
        x, y = self.samples[place]
        return x, y


def amounts(seed: int = 0, rows: int = 600, nothing: int = 0) -> TensorDataset:
    """Return amounts of money and a class; `nothing` of the samples hold an amount of 0."""
    drawn = np.random.default_rng(seed)
    logarithms = drawn.normal(size=(rows, 8))
    y = (logarithms[:, 0] + logarithms[:, 1] > 0).astype(int)
    x = np.exp(logarithms)
    x[drawn.permutation(rows)[:nothing], 2] = 0.0
    return TensorDataset(torch.tensor(x, dtype=torch.float32), torch.tensor(y))


def blobs(seed: int = 0, rows: int = 600, classes: int = 3, inputs: int = 8, noise: float = 0.0) -> TensorDataset:
    """Return clouds of points, one a class; a share of `noise` has labels that are drawn."""
    drawn = torch.Generator().manual_seed(seed)
    centres = 2.0 * torch.randn(classes, inputs, generator=torch.Generator().manual_seed(5))
    y = torch.randint(classes, (rows,), generator=drawn)
    x = centres[y] + torch.randn(rows, inputs, generator=drawn)
    y = torch.where(torch.rand(rows, generator=drawn) < noise, torch.randint(classes, (rows,), generator=drawn), y)
    return TensorDataset(x, y)


def measurements(
    seed: int = 0,
    rows: int = 600,
    *,
    scale: float = 1.0,
    offset: float = 0.0,
    leak: bool = False,
    standardize: bool = True,
) -> TensorDataset:
    """Return ten measured columns in their own units, and a class that depends on four of them; scale 1: alike.

    `leak`: one column was measured after the outcome.
    """
    drawn = np.random.default_rng(seed)
    x = drawn.normal(size=(rows, 10))
    y = (x[:, 0] + x[:, 1] * x[:, 2] + 0.5 * x[:, 3] > 0.0).astype(int)
    if leak:
        x[:, 7] = y + 0.05 * drawn.normal(size=rows)
    units = scale ** np.linspace(0.0, 1.0, 10)
    x = x * units + offset * units
    x = (x - x.mean(0)) / x.std(0) if standardize else x
    return TensorDataset(torch.tensor(x, dtype=torch.float32), torch.tensor(y))


def prices(
    seed: int = 0, rows: int = 600, *, scale: float = 1.0, offset: float = 0.0, noise: float = 0.1
) -> TensorDataset:
    """Return a number for each sample, in units of `scale` about `offset`."""
    drawn = torch.Generator().manual_seed(seed)
    x = torch.randn(rows, 8, generator=drawn)
    y = x[:, 0] - 0.5 * x[:, 1] + torch.sin(2 * x[:, 2]) + noise * torch.randn(rows, generator=drawn)
    return TensorDataset(x, offset + scale * y)


def sums(seed: int = 0, rows: int = 400, length: int = 24) -> TensorDataset:
    """Return sequences of numbers, and whether their sum is above zero."""
    x = torch.randn(rows, length, generator=torch.Generator().manual_seed(seed))
    return TensorDataset(x, (x.sum(1) > 0).long())


def sentences(seed: int = 0, rows: int = 600, words: int = 200, length: int = 12) -> TensorDataset:
    """Return sentences of word numbers; in those of the second class the upper half of the words is likelier."""
    drawn = torch.Generator().manual_seed(seed)
    y = torch.randint(2, (rows,), generator=drawn)
    high = torch.rand(rows, length, generator=drawn) < (0.3 + 0.4 * y[:, None])
    x = torch.randint(words // 2, (rows, length), generator=drawn) + (words // 2) * high
    return TensorDataset(x, y)


def language(seed: int = 0, rows: int = 480, words: int = 64, length: int = 24, table: int = 5) -> TensorDataset:
    """Return sequences in which each word is drawn from four that may follow the one before, by the table of a seed."""
    follow = torch.randint(words, (words, 4), generator=torch.Generator().manual_seed(table))
    drawn = torch.Generator().manual_seed(seed)
    x = torch.randint(words, (rows, 1), generator=drawn)
    for _ in range(length):
        follows = torch.randint(4, (rows,), generator=drawn)
        x = torch.cat([x, follow[x[:, -1], follows][:, None]], dim=1)
    return TensorDataset(x[:, :-1].contiguous(), x[:, 1:].contiguous())
