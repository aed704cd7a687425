"""The three tasks: real data that installed packages bring along, and the space that is searched on each."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pathlib import Path

EPOCHS = 27
METRIC, DIRECTION = "accuracy", "maximize"
GOAL = {"metric": METRIC, "direction": DIRECTION, "target": 0.9999}
SPACE: dict[str, Any] = {
    "optimizer.learning_rate": {"type": "float", "low": 1e-4, "high": 1e-1, "log": True},
    "optimizer.weight_decay": {"type": "float", "low": 1e-5, "high": 0.1, "log": True},
    "model.args.dropout": {"type": "float", "low": 0.0, "high": 0.5},
    "loader.batch_size": {"type": "categorical", "choices": [64, 128, 256]},
}
PATCH, PATCHES = 8, 900
"""Pixels of a patch's side, and patches of each photograph."""


@dataclass(frozen=True)
class Task:
    """One data set and the network on it."""

    name: str
    data: dict[str, Any]
    hidden: tuple[int, ...]
    held_out: float
    """Share of the samples in the validation split: large, so that one of them is worth little."""

    def configuration(self, seed: int) -> dict[str, Any]:
        """Return the configuration that the search begins with; the seed is of weights, order and split."""
        split = {"validation": self.held_out, "test": 0.1, "seed": seed}
        return {
            "seed": seed,
            "model": {"use": "mlp", "args": {"hidden": list(self.hidden), "dropout": 0.0}},
            "data": {**self.data, "split": split},
            "training": {"epochs": EPOCHS},
            "loader": {"batch_size": 64},
            "optimizer": {"name": "adamw", "learning_rate": 1e-3, "weight_decay": 0.01},
            "schedule": {"name": "cosine", "warmup_fraction": 0.05},
            "early_stopping": {"enabled": False},
            "metrics": [METRIC],
            "selection": {"metric": METRIC, "direction": DIRECTION},
            "logging": {"tensorboard": False},
        }

    def prepare(self, folder: Path) -> None:
        """Write the files that the data are read from into a code root."""
        if self.name == "photos":
            write_patches(folder / "photos.npz")


TASKS = {
    task.name: task
    for task in (
        Task("digits", {"use": "digits"}, (32,), 0.3),
        Task("breast_cancer", {"use": "breast_cancer"}, (16,), 0.4),
        Task("photos", {"use": "npz", "args": {"path": "photos.npz", "standardize": True}}, (32,), 0.3),
    )
}


def write_patches(path: Path) -> None:
    """Write patches of scikit-learn's two photographs, and which of the two each is of.

    x (samples, 3 * PATCH ** 2), y (samples,). Patches do not overlap; they are drawn with a fixed seed.
    """
    import numpy as np
    from sklearn.datasets import load_sample_images

    draw, rows = np.random.default_rng(0), []
    for picture in load_sample_images().images:
        high, wide = (side // PATCH for side in picture.shape[:2])
        cut = picture[: high * PATCH, : wide * PATCH].reshape(high, PATCH, wide, PATCH, 3).swapaxes(1, 2)
        flat = cut.reshape(high * wide, -1).astype(np.float32) / 255
        rows.append(flat[draw.permutation(len(flat))[:PATCHES]])
    targets = np.repeat(np.arange(len(rows)), PATCHES)
    np.savez(path, x=np.concatenate(rows), y=targets)
