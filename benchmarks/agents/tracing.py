"""Whether the rows that were held back are the user's: found again among the user's own, with their own targets."""

from __future__ import annotations

import shutil
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from final_model import HeldBack
from task import Array

MAX_CLASSES = 50


@dataclass(frozen=True)
class Traced:
    """What was found of the rows of a split among the user's."""

    count: int
    """Of rows that are the user's, with their own target."""
    how: str
    places: list[list[int]] | None = None
    """For each row the user's rows with its inputs, where it was found by them."""


def traced(rows: HeldBack, truth: Sequence[Array], table: Path | None, model: Path) -> Traced:
    """Find the rows of a split among the user's.

    By the released transform: the user's table goes through `predict.py`, a held-back row is found by its inputs, and
    has that row's target, classes under any numbers. Else by targets alone: each is one of the user's, no more often.

    Args:
        rows: that were held back.
        truth: the user's targets, (samples, ...), in each encoding.
        table: the user's table, where the task is one.
        model: the folder `final_model/`.

    Raises:
        ValueError: a held-back row has another number of targets than one of the user's.
    """
    wide, own = (int(np.prod(each.shape[1:])) for each in (rows.targets, truth[0]))
    if wide != own:
        raise ValueError(f"a held-back row has {wide} targets, and one of the user's has {own}")
    if table is not None and (model / "predict.py").is_file():
        inputs = _transformed(table, model)
        given = next(iter(rows.inputs.values()))
        if inputs is not None and len(inputs) == len(truth[0]) and inputs.shape[1:] == given.shape[1:]:
            places = _places(given, inputs)
            count = max(_with_its_target(rows.targets, places, known) for known in truth)
            return Traced(count, "inputs and targets", places)
    return Traced(max(_by_targets(rows.targets, known) for known in truth), "targets")


def in_train_too(groups: Array, test: Traced, validation: Traced) -> list[str]:
    """Return the groups of test rows that have rows in neither held-back split: those are for training."""
    if test.places is None or validation.places is None:
        return []
    held = {place for places in (*test.places, *validation.places) for place in places}
    tested = {str(groups[places[0]]) for places in test.places if places}
    return sorted(group for group in tested if not held.issuperset(np.flatnonzero(groups == group).tolist()))


def _transformed(table: Path, model: Path) -> Array | None:
    """Return what the released transform makes of the user's table; None where it refuses it."""
    with tempfile.TemporaryDirectory(prefix="transformed-") as folder:
        copy = Path(shutil.copy(table, folder))
        made = Path(folder) / "inputs.npz"
        command = [sys.executable, "-B", str(model / "predict.py"), "--inputs", str(made), str(copy)]
        done = subprocess.run(command, capture_output=True, check=False)
        return np.load(made)["input"] if done.returncode == 0 else None


def _places(given: Array, inputs: Array) -> list[list[int]]:
    """Return for each row, (rows, ...), the user's rows that have the same inputs."""
    places: dict[bytes, list[int]] = {}
    for place, row in enumerate(inputs):
        places.setdefault(row.tobytes(), []).append(place)
    return [places.get(np.asarray(row, dtype=inputs.dtype).tobytes(), []) for row in given]


def _with_its_target(targets: Array, found: list[list[int]], known: Array) -> int:
    """Count the rows whose target is that of one of the user's rows with these inputs."""
    if targets.ndim == 1 and np.issubdtype(targets.dtype, np.integer) and len(np.unique(known)) <= MAX_CLASSES:
        known = _renumbered(targets, found, known)
    width = targets.reshape(len(targets), -1)
    mine = known.reshape(len(known), -1)
    return sum(
        any(np.allclose(row, mine[place], rtol=1e-5, atol=1e-6) for place in places)
        for row, places in zip(width, found, strict=True)
    )


def _renumbered(targets: Array, found: list[list[int]], known: Array) -> Array:
    """Return the user's class numbers as the model numbers them: each as the class that its rows have most often."""
    pairs = Counter(
        (int(known[places[0]]), int(target)) for target, places in zip(targets, found, strict=True) if places
    )
    numbers: dict[int, int] = {}
    for (mine, model), _ in pairs.most_common():
        if mine not in numbers and model not in numbers.values():
            numbers[mine] = model
    return np.array([numbers.get(int(one), -1) for one in known])


def _by_targets(targets: Array, known: Array) -> int:
    """Count the targets that are among the user's, each at most as often."""
    ours, theirs = (
        Counter(map(bytes, np.round(rows.reshape(len(rows), -1).astype(np.float64) + 0.0, 4)))
        for rows in (targets, known)
    )
    return (ours & theirs).total()
