#!/usr/bin/env python3
"""Make data/rows.csv and data/prices.csv: what was known after each day, and whether the index then rose.

    pip install arch && python prepare.py

The decision for a day is made after its close and carried out at the next close, so a label compares two later prices:
1 where the close of `HORIZON` days after the trade is above that of the trade. Rows whose label reaches into the next
split are left out (purge), and some more before them (embargo). Every feature is computed again from a history that
ends on its day, and from one that goes on otherwise, and must be the same (`look_ahead`); else nothing is written.
"""

from __future__ import annotations

import csv
import gzip
import json
import sys
from collections.abc import Callable
from datetime import date, datetime
from importlib.util import find_spec
from pathlib import Path
from typing import NamedTuple

import numpy as np

HORIZON = 5
"""Days for which a trade is held."""
DELAY = 1
"""Days from the decision to the trade."""
EMBARGO = 20
"""Further days left out before each split."""
WARM_UP = 130
"""Days before the first row, for the longest window."""
SHARES = (0.6, 0.2, 0.2)
SPLITS = ("train", "validation", "test")
Days = np.ndarray
Features = dict[str, np.ndarray]


class Prices(NamedTuple):
    """Daily prices of one market, each (days,), oldest first."""

    days: list[date]
    high: Days
    low: Days
    close: Days
    volume: Days

    def until(self, day: int) -> Prices:
        """Return what was known after a day (counted from 0)."""
        return Prices(self.days[: day + 1], *(column[: day + 1] for column in self[1:]))

    def otherwise_after(self, day: int) -> Prices:
        """Return another future: all that comes after a day is twice as high."""
        later = np.arange(len(self.days)) > day
        return Prices(self.days, *(np.where(later, 2.0 * column, column) for column in self[1:]))


def index_prices(name: str = "sp500") -> Prices:
    """Return an index as the package `arch` carries it. Raises SystemExit where it is not installed."""
    found = find_spec("arch")
    if found is None or found.origin is None:
        raise SystemExit("The prices lie in the package arch: pip install arch")
    path = Path(found.origin).parent / "data" / name / f"{name}.csv.gz"
    with gzip.open(path, "rt", encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    days = [datetime.strptime(row["Date"], "%m/%d/%Y").date() for row in rows]  # noqa: DTZ007 - a trading day
    columns = (np.array([float(row[column]) for row in rows]) for column in ("High", "Low", "Adj Close", "Volume"))
    return Prices(days, *columns)


def features(prices: Prices) -> Features:
    """Return what is known after each day, (days,) each; NaN where the window is not full yet."""
    close = np.log(prices.close)
    change = np.diff(close, prepend=np.nan)
    made = {f"return_{days}": _change(close, days) for days in (1, 2, 5, 10, 20, 60, 120)}
    made |= {f"volatility_{days}": _windows(change, days).std(axis=1) for days in (5, 20, 60)}
    made |= {f"above_mean_{days}": close - _windows(close, days).mean(axis=1) for days in (20, 60, 120)}
    made["below_high_60"] = close - _windows(close, 60).max(axis=1)
    made["up_days_14"] = _windows((change > 0).astype(float), 14).mean(axis=1)
    made["range"] = np.log(prices.high / prices.low)
    made["volume"] = np.log(prices.volume / _windows(prices.volume, 20).mean(axis=1))
    return made


def _change(values: Days, days: int) -> Days:
    """Return the change over so many days, (days,)."""
    return np.concatenate([np.full(days, np.nan), values[days:] - values[:-days]])


def _windows(values: Days, length: int) -> np.ndarray:
    """Return for each day the values of the days up to it, (days, length); NaN where there are too few."""
    padded = np.concatenate([np.full(length - 1, np.nan), values])
    return np.lib.stride_tricks.sliding_window_view(padded, length)


def look_ahead(make: Callable[[Prices], Features], prices: Prices, checked: int = 40) -> list[str]:
    """Return the features that change when what comes after their day is taken away, or is otherwise.

    Args:
        make: computes the features of all days.
        prices: of at least `WARM_UP` days.
        checked: days, evenly spaced, for which it is tried.
    """
    whole, found = make(prices), set()
    for day in np.linspace(WARM_UP, len(prices.days) - 2, checked).astype(int):
        for known in (make(prices.until(day)), make(prices.otherwise_after(day))):
            same = {name: np.isclose(whole[name][day], known[name][day], rtol=1e-9, atol=1e-12) for name in whole}
            found |= {name for name, is_same in same.items() if not is_same}
    return sorted(found)


def labels(close: Days) -> Days:
    """Return whether the price rises while a trade decided on that day is held, (days,) of 0 and 1; -1: not known."""
    bought, sold = DELAY, DELAY + HORIZON
    rises = np.full(len(close), -1)
    rises[: len(close) - sold] = close[sold:] > close[bought : len(close) - HORIZON]
    return rises


def split_days(days: int, first: int = WARM_UP) -> list[str]:
    """Return the split of each day, (days,), in time; empty: warm-up, purge, embargo, or a label that is not known."""
    reach = DELAY + HORIZON
    edges = [first, *(first + round((days - first) * share) for share in np.cumsum(SHARES))]
    found = [""] * days
    for name, begin, end in zip(SPLITS, edges, edges[1:], strict=False):
        gap = reach + (EMBARGO if end < days else 0)
        found[begin : end - gap] = [name] * (end - gap - begin)
    return found


def write(folder: Path, prices: Prices) -> dict[str, object]:
    """Write rows.csv and prices.csv, and return what was written. Raises SystemExit at a look ahead."""
    ahead = look_ahead(features, prices)
    if ahead:
        raise SystemExit(f"These features know what comes after their day: {', '.join(ahead)}")
    made, rises, splits = features(prices), labels(prices.close), split_days(len(prices.days))
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / "rows.csv").open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(["date", *made, "rises", "split"])
        for day, split in enumerate(splits):
            if split:
                values = [f"{column[day]:.6g}" for column in made.values()]
                writer.writerow([prices.days[day], *values, "yes" if rises[day] else "no", split])
    with (folder / "prices.csv").open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(["date", "close"])
        writer.writerows(zip(prices.days, (f"{close:.6f}" for close in prices.close), strict=True))
    return {"rows": {name: splits.count(name) for name in SPLITS}, "features": len(made), "look_ahead": ahead}


if __name__ == "__main__":
    written = write(Path(sys.argv[1] if len(sys.argv) > 1 else "data"), index_prices())
    sys.stdout.write(json.dumps(written) + "\n")
