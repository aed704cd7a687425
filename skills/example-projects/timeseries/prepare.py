"""Draws data/demand.npz: six years of a town's hourly electricity demand, as windows to forecast the next day from.

    python prepare.py

Nothing is downloaded, and the same seed gives the same numbers. The rule is `demand` below: shapes of working days
and free days, heating when it is cold and cooling when it is hot, and noise that nobody can foresee. Values are
shares of what the town's transformers can carry; temperatures are shares of 40 degrees.

Each window is made at midnight, from what is known then. `x` (rows, 194): the demand of the week before (168
hours), the temperatures that are forecast for the next 24 hours (and miss by a degree or so), whether the day is a
free one, and the day's place in the week. `y` (rows, 24): the demand of the day that follows. The windows are
divided by time, and a week is left out between the parts, so that no hour of a held-back window is in a train
window.
"""

from __future__ import annotations

import io
import zipfile
from pathlib import Path
from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]

DAYS, SEED = 6 * 365, 16
SEEN_DAYS, HOURS = 7, 24
SHARES = {"train": 0.7, "validation": 0.15, "test": 0.15}
NOISE, FORECAST_ERROR = 0.012, 1.0
"""Deviations: of each hour's demand, as a share of capacity; of the forecast, in degrees."""
HOTTEST = 40.0


def temperatures(draw: np.random.Generator, days: int) -> Array:
    """Return degrees, (days, 24): the year, the day, and weather that lasts."""
    day, hour = np.arange(days)[:, None], np.arange(HOURS)[None]
    weather = np.zeros(days)
    for today in range(1, days):
        weather[today] = 0.75 * weather[today - 1] + draw.normal(0, 2.2)
    found: Array = (
        14 - 11 * np.cos(2 * np.pi * (day - 15) / 365.25) + weather[:, None] + 4 * np.sin(np.pi * (hour - 8) / 12)
    )
    return found


def free_days(draw: np.random.Generator, days: int) -> Array:
    """Return which days are weekends or holidays, (days,)."""
    return (np.arange(days) % 7 >= 5) | (draw.random(days) < 0.03)


def demand(draw: np.random.Generator, degrees: Array, is_free: Array) -> Array:
    """Return the demand, (days, 24): the rule behind the series."""
    hour = np.arange(HOURS)[None]
    work = 0.18 * np.exp(-(((hour - 8) / 2.5) ** 2)) + 0.20 * np.exp(-(((hour - 19) / 3.0) ** 2))
    free = 0.12 * np.exp(-(((hour - 11) / 3.5) ** 2)) + 0.16 * np.exp(-(((hour - 20) / 3.5) ** 2))
    heating, cooling = np.maximum(0, 15 - degrees), np.maximum(0, degrees - 21)
    level = 0.25 + np.where(is_free[:, None], free, work + 0.05) + 0.010 * heating + 0.016 * cooling
    found: Array = level + draw.normal(0, NOISE, degrees.shape)
    return found


def windows(days: int = DAYS, seed: int = SEED) -> tuple[Array, Array]:
    """Return what is known at each midnight, (rows, 194), and the demand of the day that follows, (rows, 24)."""
    draw = np.random.default_rng(seed)
    degrees, is_free = temperatures(draw, days), free_days(draw, days)
    series = demand(draw, degrees, is_free)
    forecast = (degrees + draw.normal(0, FORECAST_ERROR, degrees.shape)) / HOTTEST
    rows = np.arange(SEEN_DAYS, days)
    seen = np.stack([series[row - SEEN_DAYS : row].reshape(-1) for row in rows])
    calendar = np.stack([is_free[rows], rows % 7 / 7], axis=1)
    return np.concatenate([seen, forecast[rows], calendar], axis=1).astype(np.float32), series[rows].astype(np.float32)


def parts(rows: int) -> dict[str, slice]:
    """Return each part's rows in order of time; the first week of a later part is left out."""
    found: dict[str, slice] = {}
    start = 0
    for name, share in SHARES.items():
        end = rows if name == "test" else start + round(share * rows)
        found[name] = slice(start + (SEEN_DAYS if start else 0), end)
        start = end
    return found


def main() -> None:
    """Write the archive into the folder `data` beside this file."""
    known, following = windows()
    arrays: dict[str, Array] = {}
    for name, rows in parts(len(known)).items():
        arrays |= {f"{name}_x": known[rows], f"{name}_y": following[rows]}
    folder = Path(__file__).with_name("data")
    folder.mkdir(exist_ok=True)
    with zipfile.ZipFile(folder / "demand.npz", "w") as archive:  # numpy.savez would write the time of day into it
        for name, array in arrays.items():
            buffer = io.BytesIO()
            np.save(buffer, array)
            archive.writestr(zipfile.ZipInfo(f"{name}.npy"), buffer.getvalue())


if __name__ == "__main__":
    main()
