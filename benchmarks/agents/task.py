"""What an agent task is: a folder of somebody's work, their sentence, a time box, and what a verifier must know of it.

What is laid out knows nothing of Trainwright, but for a project that somebody has begun. What a verifier knows is read
from the user's own files, by the task's own code.
"""

from __future__ import annotations

import json
import wave
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np

Array = np.ndarray[Any, Any]


@dataclass(frozen=True)
class Goal:
    """The figure that the sentence asks for, on held-back samples."""

    metric: str
    """A built-in metric, or a name under which the user's code computes it."""
    target: float
    direction: Literal["maximize", "minimize"] = "maximize"

    def is_met(self, value: float) -> bool:
        """Return whether the value is as good as the target."""
        return value >= self.target if self.direction == "maximize" else value <= self.target


@dataclass(frozen=True)
class Task:
    """One task. Its name is that of its file in `fields/`."""

    name: str
    field: str
    sentence: str
    """All that the player is told."""
    goal: Goal
    lay_out: Callable[[Path], None]
    """Writes the user's folder, the same bytes each time."""
    truth: Callable[[Path], Sequence[Array]]
    """Reads the user's targets, (samples, ...), from the folder: in each encoding that the field has."""
    figure: Callable[[Array, Array], float] | None = None
    """Computes the goal's metric from outputs and targets where it is none of `figures.FIGURES`."""
    table: str = ""
    """The user's table, whose rows the released transform must turn into the rows that were held back."""
    groups: Callable[[Path], Array] | None = None
    """Reads the group of each of the table's rows, (rows,), where none may be in train and in test."""
    minutes: int = 35
    """Time box."""
    data: str = ""
    """The file that is enough for a plan, with the sentence: scripted players play such tasks."""
    prepare: Callable[[Path], None] | None = None
    """What happens to the folder before the player comes, on a real server: other bytes each time."""


def draws(name: str) -> np.random.Generator:
    """Return a generator of the same numbers in every process and on every machine."""
    return np.random.default_rng(list(name.encode()))


def write_text(folder: Path, files: dict[str, str]) -> None:
    """Write files of text, with the folders that they are in."""
    for name, text in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")


def write_table(path: Path, header: Sequence[str], rows: Iterable[Sequence[Any]], mark: str = ",") -> None:
    """Write a table as a CSV file. No cell holds the mark."""
    lines = [mark.join(header), *(mark.join(str(cell) for cell in row) for row in rows)]
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")


def read_table(path: Path, mark: str = ",") -> dict[str, list[str]]:
    """Return the cells of a CSV file by column."""
    header, *rows = (line.split(mark) for line in path.read_text(encoding="utf-8").splitlines())
    return dict(zip(header, ([*cells] for cells in zip(*rows, strict=True)), strict=True))


def write_lines(path: Path, objects: Iterable[dict[str, Any]]) -> None:
    """Write one JSON object a line."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(json.dumps(one) + "\n" for one in objects), encoding="utf-8")


def write_picture(path: Path, pixels: Array) -> None:
    """Write a PNG of (height, width) or (height, width, 3) values from 0 to 255."""
    from PIL import Image

    path.parent.mkdir(parents=True, exist_ok=True)
    Image.fromarray(np.clip(pixels, 0, 255).astype(np.uint8)).save(path)


def write_sound(path: Path, samples: Array, rate: int) -> None:
    """Write a mono WAV of 16 bits from (samples,) values in [-1, 1]."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with wave.open(str(path), "wb") as file:
        file.setnchannels(1)
        file.setsampwidth(2)
        file.setframerate(rate)
        file.writeframes((np.clip(samples, -1, 1) * 32767).astype("<i2").tobytes())


def columns(path: Path, names: Sequence[str], mark: str = ",") -> Array:
    """Return numeric columns of a CSV file as (rows, columns), or (rows,) of a single one."""
    cells = read_table(path, mark)
    found = np.array([[float(cell) for cell in cells[name]] for name in names]).T
    return found[:, 0] if len(names) == 1 else found


def numbered(values: Sequence[str]) -> Array:
    """Return the number of each value among the sorted different ones: as classes are usually numbered."""
    return np.unique(np.array(values), return_inverse=True)[1]
