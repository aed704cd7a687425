"""Accuracy under attack by a program's answers alone: the loss's slope is measured where no gradient can be had.

The attack is projected steps along the slope's sign from a random start (PGD; Madry et al. 2018, arXiv:1706.06083),
with central differences in place of the gradient: two calls for each value of an input. What it finds is a lower bound
of what an attacker finds who has the weights, as any attack is.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from . import counts, losses
from .intervals import wilson
from .programs import Program
from .rows import Array, RefusalError, Split

NAME = "robust_accuracy"
MAX_CALLS = 20_000_000
"""Rows that the program is called with: of a few hundred values an input, a minute or two."""
AT_ONCE, TOGETHER = 16, 4096
"""Rows that are attacked, and rows of one call."""
APART = 0.05
"""Distance to either side over which a slope is measured, as a share of epsilon."""


def report_attack(order: Mapping[str, Any], program: Program, split: Split, answer: dict[str, Any], seed: int) -> None:
    """Put the accuracy under the order's attack into the answer, with its interval; or why there is none."""
    try:
        hits = attacked(program, order["loss"], order["attack"], split, seed)
    except (RefusalError, losses.NotComputableError, ValueError) as error:
        answer["not_computed"][NAME] = str(error)
        return
    answer["metrics"][NAME] = share = float(hits.mean())
    answer["attacked"] = [NAME]
    if split.resampling.groups is None:
        answer["intervals"][NAME] = list(wilson(share, len(hits)))


def attacked(program: Program, loss: Mapping[str, Any], attack: Mapping[str, Any], split: Split, seed: int) -> Array:
    """Return whether each row's class is still found, (rows,).

    Args:
        program: of the model.
        loss: whose value the attack raises.
        attack: `epsilon`, `steps`, `step_size`, `clip_range`, and the `input` that is moved; None: the one of floats.
            They are in units of the model's inputs, (raw - `mean`) / `scale` where it has these.
        split: the rows.
        seed: of the starts.

    Raises:
        ValueError: the rows have several inputs of floats, or too many values.
        NotComputableError: the loss has no form here.
    """
    draw, found, start = np.random.default_rng(seed), list[Array](), 0
    while start < split.rows:
        stop, inputs, targets = split.batch(start, AT_ONCE)
        floats = [name for name, value in inputs.items() if value.dtype.kind == "f"]
        name = attack.get("input") or next(iter(floats), "")
        if targets is None or program.batch is not None or (len(floats) != 1 and not attack.get("input")):
            raise ValueError("an attack moves one input of floats, of a program that takes any number of rows")
        if 2 * inputs[name][0].size * int(attack["steps"]) * split.rows > MAX_CALLS:
            raise ValueError(f"{split.rows} rows of {inputs[name][0].size} values are too many to attack here")
        given = _Given(program, loss, inputs, name, targets)
        moved = _moved(given, attack, draw)
        outputs = given.outputs(moved, np.arange(len(moved)))
        found.append(counts.classes(outputs, targets).reshape(-1) == targets.reshape(-1))
        start = stop
    return np.concatenate(found)


class _Given:
    """A batch whose one input is moved."""

    def __init__(
        self, program: Program, loss: Mapping[str, Any], inputs: dict[str, Array], name: str, targets: Array
    ) -> None:
        self.program, self.loss, self.inputs, self.name, self.targets = program, loss, inputs, name, targets
        self.clean = inputs[name]

    def outputs(self, moved: Array, rows: Array) -> Array:
        """Return the outputs of moved inputs, (calls, ...), each of the row of that number."""
        parts = [
            next(iter(self.program({
                name: moved[at : at + TOGETHER] if name == self.name else value[rows[at : at + TOGETHER]]
                for name, value in self.inputs.items()
            }).values()))
            for at in range(0, len(moved), TOGETHER)
        ]  # fmt: skip
        return np.concatenate(parts)

    def losses(self, moved: Array, rows: Array) -> Array:
        """Return the loss of each moved input, (calls,)."""
        return losses.terms(self.loss, self.outputs(moved, rows), self.targets[rows])[0]


def _moved(given: _Given, attack: Mapping[str, Any], draw: np.random.Generator) -> Array:
    """Return the rows' input, (rows, ...), after all steps."""
    clean, shape = given.clean, given.clean.shape[1:]
    mean, scale = (np.asarray(attack.get(name, one), dtype=float) for name, one in (("mean", 0.0), ("scale", 1.0)))
    low, high = (mean + scale * one for one in attack.get("clip_range") or (-np.inf, np.inf))
    epsilon, size = float(attack["epsilon"]) * scale, float(attack["step_size"]) * scale

    def inside(x: Array) -> Array:
        near = np.clip(np.clip(x, clean - epsilon, clean + epsilon), low, high)
        return np.asarray(near, dtype=clean.dtype)

    moved = inside(clean + epsilon * draw.uniform(-1, 1, clean.shape))
    for _ in range(int(attack["steps"])):
        slope = _slope(given, moved, np.broadcast_to(APART * epsilon, shape))
        moved = inside(moved + size * np.sign(slope))
    return moved


def _slope(given: _Given, moved: Array, apart: Array) -> Array:
    """Return what the loss rises by between the two sides of each value of each row, (rows, ...)."""
    rows, size = len(moved), moved[0].size
    found = np.empty((rows, size))
    steps = np.diag(apart.reshape(size).astype(moved.dtype))
    for row in range(rows):
        flat = moved[row].reshape(1, size)
        both = np.concatenate([flat + steps, flat - steps]).reshape(2 * size, *moved.shape[1:])
        above, below = given.losses(both, np.full(2 * size, row)).reshape(2, size)
        found[row] = above - below
    return found.reshape(moved.shape)
