"""Checks of rows that are split by time: levels that train has not seen, and sensors that stood still."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import numpy as np
import polars as pl
import pytest

from trainwright.trainer.data.validation.check import Context
from trainwright.trainer.data.validation.families.in_time import Shifts, Stuck
from trainwright.trainer.data.validation.report import Verdict
from trainwright.trainer.data.validation.values import kind_of

ROWS = 1000
HOURS = np.arange(ROWS)
BEGIN = datetime(2024, 1, 1, tzinfo=UTC)
DATES = [f"{BEGIN + timedelta(hours=hour):%Y-%m-%d %H:%M:%S}" for hour in range(ROWS)]
BY_TIME = {"data.split.by": "time", "data.split.time": "date", "data.split.borders": [DATES[600], DATES[800]]}
SERIES = {"series": {"window": 24, "horizon": 6}}


def noise(seed: int = 0) -> np.ndarray[Any, Any]:
    return np.random.default_rng(seed).normal(0, 1, ROWS).round(3)


def found(family: Any, columns: dict[str, Any], settled: dict[str, Any] | None = None, **options: Any) -> list[Verdict]:
    frame = pl.LazyFrame({"date": DATES, **columns})
    kinds = {name: kind_of(dtype) for name, dtype in frame.collect_schema().items()}
    target = next(iter(columns))
    context = Context(
        frame, kinds, targets=[target], source="csv", split_by="date", options=options, settled=settled or BY_TIME
    )
    return list(family.found(context))


@pytest.mark.requirement("PIPE-2")
def test_levels_that_train_has_not_seen_are_drift_and_named_once_with_their_splits() -> None:
    load = noise() + 5.0 * (HOURS >= 800)
    (one,) = found(Shifts(), {"load": load, "wind": noise(1) - 3.0 * (HOURS >= 600), "rain": noise(2)}, **SERIES)
    assert (one.passed, one.severity, one.column, one.split) == (False, "warning", None, None)
    shifts = [(shift["column"], shift["split"], round(shift["deviations"])) for shift in one.details["shifts"]]
    assert shifts == [("load", "test", 5), ("wind", "validation", -3), ("wind", "test", -3)]
    assert "away: load +" in one.text
    assert one.text.count("standard deviations") == 1
    assert "reversible instance normalisation" in one.remedy
    (row,) = found(Shifts(), {"load": load})
    assert row.column == "load"
    assert "reversible" not in row.remedy, "rows that are no windows have no level of their own"


@pytest.mark.parametrize(
    "values",
    [
        noise(),
        10 * np.sin(2 * np.pi * HOURS / 600) + noise(),  # train has the whole season
        HOURS.astype(float),  # it counts the rows
        np.full(ROWS, 3.0),
        np.where(HOURS < 600, np.nan, noise()),
    ],
)
def test_a_season_a_count_and_a_constant_are_no_drift(values: Any) -> None:
    (one,) = found(Shifts(), {"load": values}, **SERIES)
    assert one.passed


def test_a_stretch_of_one_number_is_named_with_its_rows_whatever_order_the_file_has() -> None:
    load = noise()
    load[300:360] = load[300]
    (one,) = found(Stuck(), {"load": load, "wind": noise(1)}, **SERIES)
    assert (one.passed, one.column, one.value, one.rows, one.count) == (False, "load", 60, [300], 60)
    assert f"load is {load[300]:g} for 60 rows from {DATES[300]} on" in one.text
    mixed = np.random.default_rng(3).permutation(ROWS)
    frame = pl.LazyFrame({"date": np.array(DATES)[mixed], "load": load[mixed]})
    kinds = {"date": "text", "load": "number"}
    context = Context(frame, kinds, targets=["load"], source="csv", split_by="date", settled=BY_TIME)
    (again,) = Stuck().found(context)
    assert again.rows == [int(np.flatnonzero(mixed == 300)[0])]


@pytest.mark.parametrize(
    "values",
    [
        np.maximum(np.sin(2 * np.pi * HOURS / 100), 0).round(3),  # nights without sun, 50 rows each
        np.repeat(noise()[:20], 50),  # a price that changes now and then
        (noise() > 1.0).astype(float),  # a flag
        np.random.default_rng(4).poisson(0.3, ROWS).astype(float),
        np.where(noise() > -3, np.nan, 1.0),
    ],
)
def test_nights_prices_flags_and_empty_cells_are_not_stuck(values: Any) -> None:
    (one,) = found(Stuck(), {"load": values}, **SERIES)
    assert one.passed, one.text


def test_each_series_of_a_group_is_looked_at_by_itself() -> None:
    shop = HOURS % 2
    sold = np.where(shop == 0, noise(), 7.0 + noise(1))
    sold[shop == 0] = np.where(np.arange(500) // 40 == 3, 1.5, sold[shop == 0])
    dates = np.array(DATES)[HOURS // 2]
    frame = pl.LazyFrame({"date": dates, "shop": shop, "sold": sold})
    kinds = {"date": "text", "shop": "integer", "sold": "number"}
    options = {"series": {"window": 5, "horizon": 1, "group": "shop"}}
    settled = {"data.split.by": "time", "data.split.time": "date"}
    context = Context(
        frame, kinds, targets=["sold"], source="csv", split_by="date", options=options, settled=settled
    )  # fmt: skip
    (one,) = Stuck().found(context)
    assert (one.value, one.rows) == (40, [240])


@pytest.mark.parametrize("settled", [{"data.split.by": "random"}, BY_TIME | {"data.split.borders": ["x", "y"]}])
def test_rows_that_are_in_no_order_of_time_are_not_looked_at(settled: dict[str, Any]) -> None:
    assert found(Shifts(), {"load": noise()}, settled) == found(Stuck(), {"load": noise()}, settled) == []
