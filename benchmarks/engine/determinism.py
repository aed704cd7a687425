"""What deterministic operations alone cost, by the type of model."""

from __future__ import annotations

import statistics
import tempfile
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import ours
from workload import LEARNING_RATE

ROUNDS = 5
WARMUP_STEPS = 5


def show() -> None:
    """Print a table: the same training with and without, taking turns."""
    print(f"\ndeterministic operations, {ROUNDS} rounds interleaved")
    print(f"{'':24}{'ms per step':>14}{'without':>14}{'cost':>10}")
    with tempfile.TemporaryDirectory() as scratch:
        for name, values in models(Path(scratch)).items():
            costs: dict[bool, list[float]] = {True: [], False: []}
            for number in range(ROUNDS + 1):
                for deterministic in (True, False):
                    folder = Path(scratch) / f"{name}-{number}-{deterministic}"
                    folder.mkdir()
                    wanted = {**values, "reproducibility": {"deterministic": deterministic}}
                    ends = ours.run(folder, wanted, code_root=Path(scratch))
                    steps = [later[1] - earlier[1] for earlier, later in pairwise(ends)][WARMUP_STEPS:]
                    if number:
                        costs[deterministic].append(1e3 * statistics.median(steps))
            with_it, without = (statistics.median(costs[key]) for key in (True, False))
            print(f"{name:24}{with_it:14.3f}{without:14.3f}{100 * (with_it / without - 1):+9.1f}%")


def models(folder: Path) -> dict[str, dict[str, Any]]:
    """Return the configurations: an MLP and a CNN on digits, a GPT on text."""
    from sklearn.datasets import load_digits

    data = load_digits()
    images = (data.images[:, None] / 16.0).astype(np.float32)
    np.savez(folder / "digits.npz", x=images, y=data.target.astype(np.int64))
    (folder / "text.txt").write_text(str(load_digits.__doc__) * 30)
    common = {
        "optimizer": {"learning_rate": LEARNING_RATE},
        "training": {"epochs": 1, "max_steps": 60},
        "logging": {"tensorboard": False},
    }
    digits = {"use": "npz", "args": {"path": str(folder / "digits.npz"), "standardize": False}}
    text = {"use": "text", "args": {"path": str(folder / "text.txt"), "block_size": 64}}
    gpt = {"use": "gpt", "args": {"layers": 2, "heads": 4, "width": 64}}
    return {
        "mlp": {**common, "model": {"use": "mlp"}, "data": digits, "loader": {"batch_size": 16}},
        "cnn": {**common, "model": {"use": "cnn"}, "data": digits, "loader": {"batch_size": 16}},
        "gpt": {**common, "model": gpt, "data": text, "loss": "next_token", "loader": {"batch_size": 4}},
    }
