"""A table with several numbers to predict at once: concrete mixtures, with decimal commas."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from task import Array, Goal, Task, draws, read_table, write_table

MIXTURES = 1500
TARGETS = ("druckfestigkeit_mpa", "ausbreitmass_mm", "erstarrung_h")


def lay_out(folder: Path) -> None:
    """Write mischungen.csv: three properties of each mixture, of quite different sizes."""
    draw = draws("mixtures")
    cement, water = draw.uniform(220, 480, MIXTURES), draw.uniform(130, 230, MIXTURES)
    ash, age = draw.uniform(0, 120, MIXTURES), draw.choice([3, 7, 14, 28, 56, 90], MIXTURES)
    liquid, warmth = draw.gamma(2.0, 2.0, MIXTURES), draw.normal(20, 4, MIXTURES)
    ratio = water / (cement + 0.4 * ash)
    noise = draw.normal(0, 1, (3, MIXTURES))
    strength = 95 * np.exp(-1.9 * ratio) * (age / (age + 6.0)) + 0.02 * ash * (age > 20) + 1.5 * noise[0]
    spread = 260 + 1.3 * (water - 150) + 16 * liquid - 0.25 * ash + 12 * noise[1]
    setting = 9.5 - 0.22 * (warmth - 20) + 0.35 * liquid + 5 * (ratio - 0.5) + 0.4 * noise[2]
    columns = (cement, water, ash, liquid, warmth, age, strength, spread, setting)
    rows = [[f"{cell:.2f}".replace(".", ",") for cell in row] for row in zip(*columns, strict=True)]
    names = ("zement_kg", "wasser_kg", "flugasche_kg", "fliessmittel_kg", "temperatur_c", "alter_tage", *TARGETS)
    write_table(folder / "mischungen.csv", names, rows, ";")


def truth(folder: Path) -> list[Array]:
    """Return the three properties, (mixtures, 3), in the sentence's order."""
    cells = read_table(folder / "mischungen.csv", ";")
    return [np.array([[float(cell.replace(",", ".")) for cell in cells[name]] for name in TARGETS]).T]


TASK = Task(
    name="mixtures",
    field="table with several targets",
    sentence="Aus mischungen.csv: sage druckfestigkeit_mpa, ausbreitmass_mm und erstarrung_h einer neuen Mischung "
    "gemeinsam voraus, ein Modell für alle drei. R2 von mindestens 0.85 (im Mittel der drei) auf Mischungen, die es "
    "nicht kennt.",
    goal=Goal("r2", 0.85),
    lay_out=lay_out,
    truth=truth,
    table="mischungen.csv",
    data="mischungen.csv",
)
