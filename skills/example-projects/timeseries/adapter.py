"""The windows as tensors, already divided by time."""

from pathlib import Path

import numpy as np
import torch


def windows() -> dict[str, tuple[torch.Tensor, torch.Tensor]]:
    """Return (x, y) of each split: (rows, 194) and (rows, 24)."""
    stored = np.load(Path(__file__).with_name("data") / "demand.npz")
    arrays = {name: torch.from_numpy(stored[name]) for name in stored.files}
    return {part: (arrays[f"{part}_x"], arrays[f"{part}_y"]) for part in ("train", "validation", "test")}
