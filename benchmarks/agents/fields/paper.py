"""A paper's small experiment: gates let a deep network learn. Both arms are wanted, on scikit-learn's digits."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from task import Array, Goal, Task, write_text

PAPER = """\
# Carry gates for deep multilayer perceptrons (draft, section 4)

Table 1. 8 x 8 digits, fully connected, 24 layers of 48 units, ReLU, He initialisation, SGD with momentum 0.9,
learning rate 0.03, batch 64, 40 epochs, cross entropy; no normalisation layers, no skip connections but the gate's.

| network | layer | test accuracy |
| --- | --- | --- |
| plain | h' = relu(W h + b) | 11-60 % (does not train reliably) |
| gated | h' = t * relu(W h + b) + (1 - t) * h, t = sigmoid(V h + c), c = -3 at the start | >= 95 % |

Inputs are divided by 16. One split: 1,200 train, 297 validation, 300 test, stratified. We report the mean of 3 seeds.
"""


def lay_out(folder: Path) -> None:
    """Write the paper's section and the digits that come with scikit-learn."""
    from sklearn.datasets import load_digits

    digits = load_digits()
    folder.mkdir(parents=True, exist_ok=True)
    rows = np.column_stack([digits.data.astype(int), digits.target])
    np.savetxt(folder / "digits.txt", rows, fmt="%d")
    write_text(folder, {"section4.md": PAPER})


def truth(folder: Path) -> list[Array]:
    """Return the digits: the last column."""
    return [np.loadtxt(folder / "digits.txt", dtype=int)[:, -1]]


TASK = Task(
    name="paper",
    field="a paper's small experiment",
    sentence="Reproduce table 1 of section4.md with digits.txt (64 pixels and the digit a line): plain against gated, "
    "trained alike, and release the gated network with an accuracy of at least 0.92 on the test rows. Does it hold?",
    goal=Goal("accuracy", 0.92),
    lay_out=lay_out,
    truth=truth,
)
