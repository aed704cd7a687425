"""Rows of one time are alike: intervals draw whole times where a split by time has several rows at each."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from trainwright.trainer.assembly.raw_splits import raw_splits_of
from trainwright.trainer.clean_room.counts import Array
from trainwright.trainer.clean_room.intervals import MIN_UNITS, Resampling, bootstrap
from trainwright.trainer.config import TrainingConfig

pytestmark = pytest.mark.requirement("GATE-5", "GATE-6")


@pytest.mark.parametrize(
    ("series", "plants", "times"),
    [({"group": "plant"}, 3, True), (None, 3, True), ({"group": "plant"}, 1, True), (None, 1, False)],
)
def test_rows_of_one_time_are_drawn_together_for_intervals(
    tmp_path: Path, series: dict[str, Any] | None, plants: int, *, times: bool
) -> None:
    rows = "".join(
        f"p{plant},{2000 + year},{1.5 * year + plant + year % 7}\n" for plant in range(plants) for year in range(60)
    )
    (tmp_path / "load.csv").write_text("plant,year,load\n" + rows)
    args: dict[str, Any] = {"path": "load.csv", "target": "load", "task": "regression"}
    args |= {"series": {"window": 4, "horizon": 1, **series}} if series else {}
    split = {"by": "time", "time": "year", "validation": 0.2, "test": 0.2}
    values = {"model": {"use": "dlinear" if series else "mlp"}, "data": {"use": "csv", "args": args, "split": split}}
    raw = raw_splits_of(TrainingConfig.model_validate({**values, "loss": "mse", "metrics": ["mae"]}), tmp_path)
    assert raw.grouped_by == "times"
    assert sorted(raw.groups) == (["test", "train", "validation"] if times else [])
    if times:
        last = np.unique(raw.groups["test"], return_counts=True)
        assert last[1].tolist() == [plants] * 12, "of the year that a window forecasts"


def test_rows_of_few_times_stay_together_in_every_split(tmp_path: Path) -> None:
    rows = "".join(f"{shop},{year},{shop + year % 3}\n" for shop in range(40) for year in range(2000, 2010))
    (tmp_path / "sales.csv").write_text("shop,year,sold\n" + rows)
    data = {
        "use": "csv",
        "args": {"path": "sales.csv", "target": "sold", "task": "regression"},
        "split": {"by": "time", "time": "year", "validation": 0.2, "test": 0.2},
    }
    values = {"model": {"use": "mlp"}, "data": data, "loss": "mse", "metrics": ["mae"]}
    raw = raw_splits_of(TrainingConfig.model_validate(values), tmp_path)
    assert sorted(raw.groups) == ["test", "train", "validation"]
    assert max(len(np.unique(times)) for times in raw.groups.values()) < MIN_UNITS


@pytest.mark.parametrize(("rows", "horizon", "length"), [(2000, 6, 18), (700, 6, 13), (400, 12, 12)])
def test_windows_that_overlap_are_drawn_in_blocks_of_times(
    tmp_path: Path, rows: int, horizon: int, length: int
) -> None:
    hours = np.datetime64("2024-01-01T00:00") + np.arange(rows) * np.timedelta64(1, "h")
    lines = "".join(f"{hour},{place % 24 + 0.25 * place}\n" for place, hour in enumerate(hours))
    (tmp_path / "load.csv").write_text("hour,load\n" + lines)
    series = {"window": 24, "horizon": horizon}
    data = {
        "use": "csv",
        "args": {"path": "load.csv", "target": "load", "task": "regression", "series": series},
        "split": {"by": "time", "time": "hour", "validation": 0.2, "test": 0.2},
    }
    values = {"model": {"use": "dlinear"}, "data": data, "loss": "mse", "metrics": ["mae"]}
    raw = raw_splits_of(TrainingConfig.model_validate(values), tmp_path)
    assert raw.grouped_by == f"blocks of {length} times"
    for of in raw.groups.values():
        assert np.all(np.diff(of) >= 0), "neighbours in time"
        assert np.bincount(of)[:-1].tolist() == [length] * of.max()


def mean_of(errors: Array, rows: Array) -> float:
    return float(errors[rows].mean())


def test_an_interval_of_windows_holds_the_mean_as_often_as_it_says() -> None:
    """Errors of overlapping horizons, drawn from noise that is alike for a day: by rows 95 % would hold 40 %."""
    draws = np.random.default_rng(0)
    horizon, windows, hits = 24, 2400, {"rows": 0, "blocks": 0}
    for _ in range(60):
        noise = draws.normal(size=windows + horizon - 1) ** 2
        errors = np.convolve(noise, np.full(horizon, 1 / horizon), "valid")
        for name, groups in (("rows", None), ("blocks", np.arange(windows) // (3 * horizon))):
            ends = bootstrap(partial(mean_of, errors), 1, Resampling(windows, groups=groups))
            assert ends is not None
            hits[name] += ends[0] <= 1.0 <= ends[1]
    assert hits["rows"] < 30
    assert hits["blocks"] >= 50
