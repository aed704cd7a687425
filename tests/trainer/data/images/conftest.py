"""Pictures that tests read: noise of a seed, a class a folder."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image


def noise(number: int, size: tuple[int, int] = (8, 8), channels: int = 3) -> Any:
    """Return a picture of noise, (height, width, channels), brighter with the class `number % 2`."""
    shape = size if channels == 1 else (*size, channels)
    return (np.random.default_rng(number).integers(0, 155, shape) + 100 * (number % 2)).astype(np.uint8)


@pytest.fixture
def photos(tmp_path: Path) -> Callable[..., Path]:
    """Writes so many pictures into `photos/a` and `photos/b`, and returns the folder above."""

    def write(count: int = 40, size: tuple[int, int] = (8, 8), ending: str = "png") -> Path:
        for number in range(count):
            path = tmp_path / "photos" / "ab"[number % 2] / f"{number:03d}.{ending}"
            path.parent.mkdir(parents=True, exist_ok=True)
            Image.fromarray(noise(number, size)).save(path)
        return tmp_path

    return write
