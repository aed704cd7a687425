"""Audio features: sounds of bearings as somebody's feature extractor left them, several clips a machine."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from task import Array, Goal, Task, draws, numbered, read_table, write_table

MACHINES, CLIPS, BANDS = 60, 24, 13
STATES = ("ok", "inner", "outer", "dry")


def lay_out(folder: Path) -> None:
    """Write cepstral features: what a machine sounds like by itself outweighs what its fault adds."""
    draw, rows = draws("bearings"), []
    patterns = draw.normal(0, 1.0, (len(STATES), 2 * BANDS))
    patterns[0] = 0
    for machine in range(MACHINES):
        own, state = draw.normal(0, 0.9, 2 * BANDS), machine % len(STATES)
        for clip in range(CLIPS):
            values = own + (0.7 + 0.5 * draw.random()) * patterns[state] + draw.normal(0, 0.5, 2 * BANDS)
            rows.append((f"m{machine:02d}", clip, *values.round(4), STATES[state]))
    order = draw.permutation(len(rows))
    names = [f"mfcc{band}_{kind}" for kind in ("mean", "std") for band in range(BANDS)]
    write_table(folder / "features.csv", ("machine", "clip", *names, "state"), [rows[place] for place in order])


def truth(folder: Path) -> list[Array]:
    """Return the states' numbers in the order of the alphabet, and in that of their first row."""
    states = read_table(folder / "features.csv")["state"]
    first = list(dict.fromkeys(states))
    return [numbered(states), np.array([first.index(state) for state in states])]


TASK = Task(
    name="bearings",
    field="audio features, grouped by machine",
    sentence="features.csv has sound features of bearings, 24 clips per machine. I want to know the state of a machine "
    "that nobody has listened to before: accuracy of at least 0.75 on machines that are in no part of the training.",
    goal=Goal("accuracy", 0.75),
    lay_out=lay_out,
    truth=truth,
    table="features.csv",
    groups=lambda folder: np.array(read_table(folder / "features.csv")["machine"]),
    data="features.csv",
)
