"""A table of lifetimes: pumps are to be ranked by the days that they have left."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from task import Array, Goal, Task, columns, draws, write_table, write_text

PUMPS = 2400
SITES = ("North", "Quarry", "Harbour", "Mill")
NOTE = """\
pumps.csv, one line per inspection
days_left   days until the pump failed (counted afterwards, all of them did fail)
vib_mm_s    vibration. Our sensor saturates at 12.
temp_c      bearing temperature, empty when the sensor was off
hours       operating hours so far
serial      number plate
"""


def lay_out(folder: Path) -> None:
    """Write lifetimes after Weibull's law, whose scale follows what the inspection measured."""
    draw = draws("pumps")
    hours = draw.gamma(3.0, 2500.0, PUMPS).round()
    wear = hours / 9000 + draw.normal(0, 0.25, PUMPS)
    vibration = np.clip(1.5 + 2.2 * np.clip(wear, 0, None) + draw.gamma(1.5, 0.6, PUMPS), 0.2, 12).round(2)
    temperature = (42 + 9 * wear + draw.normal(0, 3, PUMPS)).round(1)
    site, seals = draw.integers(0, len(SITES), PUMPS), draw.integers(0, 4, PUMPS)
    scale = np.exp(6.2 - 0.30 * vibration - 0.05 * (temperature - 45) - 0.15 * seals + 0.2 * (site == 2))
    days = np.ceil(scale * draw.weibull(4.0, PUMPS)).astype(int)
    heat = ["" if draw.random() < 0.06 else value for value in temperature]
    rows = [
        (f"KX{number:05d}", SITES[site[number]], int(hours[number]), vibration[number], heat[number], seals[number],
         days[number])
        for number in range(PUMPS)
    ]  # fmt: skip
    write_table(
        folder / "pumps.csv", ("serial", "site", "hours", "vib_mm_s", "temp_c", "seals_changed", "days_left"), rows
    )
    write_text(folder, {"readme.txt": NOTE})


def truth(folder: Path) -> list[Array]:
    """Return the days that were left."""
    return [columns(folder / "pumps.csv", ("days_left",))]


TASK = Task(
    name="pumps",
    field="survival table, ranked by a regression",
    sentence="Rank our pumps by how soon they will fail: predict days_left in pumps.csv from the rest, r2 of at least "
    "0.7 on pumps it has not seen. Fifteen minutes in all.",
    goal=Goal("r2", 0.7),
    lay_out=lay_out,
    truth=truth,
    table="pumps.csv",
    minutes=15,
    data="pumps.csv",
)
