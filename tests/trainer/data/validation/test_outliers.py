"""Gross outliers: one cell that holds nearly all of a column's variance is named; honest heavy tails are not."""

from __future__ import annotations

from typing import Any

import numpy as np
import polars as pl
import pytest

from trainwright.trainer.data.validation.check import Context
from trainwright.trainer.data.validation.expectations import parse_expectations
from trainwright.trainer.data.validation.families.outliers import asks_of, outlier_of
from trainwright.trainer.data.validation.report import Verdict
from trainwright.trainer.data.validation.suggest import suggested
from trainwright.trainer.data.validation.validate import validate
from trainwright.trainer.data.validation.values import kind_of

pytestmark = pytest.mark.requirement("PIPE-2")
PLACE = 123
HONEST = {
    "lognormal": lambda random, rows: random.lognormal(0.0, 2.0, rows),
    "pareto": lambda random, rows: random.pareto(1.5, rows) + 1.0,
    "rare counts": lambda random, rows: random.poisson(0.02, rows),
    "counts of clusters": lambda random, rows: random.negative_binomial(0.05, 0.05, rows),
    "prices": lambda random, rows: random.lognormal(0.0, 0.5, rows),
    "returns": lambda random, rows: random.standard_t(3, rows),
    "waits": lambda random, rows: random.exponential(1.0, rows),
    "one indicator": lambda _, rows: (np.arange(rows) == rows // 2).astype(int),
    "one of two": lambda _, rows: np.where(np.arange(rows) < 1, 3, np.arange(rows) == 1),
}


def houses(price: float | None, rows: int = 400) -> dict[str, Any]:
    random = np.random.default_rng(0)
    prices = random.normal(3e5, 8e4, rows)
    if price is not None:
        prices[PLACE] = price
    return {"area": random.normal(100.0, 20.0, rows), "price": prices}


def context_of(values: dict[str, Any], expectations: str = "{}") -> Context:
    frame = pl.LazyFrame(values)
    kinds = {name: kind_of(dtype) for name, dtype in frame.collect_schema().items()}
    return Context(frame, kinds, parse_expectations(expectations, "given"), targets=["price"], task="regression")


def outliers(values: dict[str, Any], expectations: str = "{}") -> list[Verdict]:
    others = "schema, volume, nulls, mixed_types, uniqueness, constants, classes, leaks, label_errors, personal"
    found = validate(context_of(values, expectations.replace("{", f"{{without: [{others}], ", 1)))
    return [check for check in found.worst_first() if check.family == "outliers"]


@pytest.mark.parametrize("price", [1e12, -1e9, 3e8, 1e200, 1e307])
def test_a_gross_outlier_is_a_warning_that_names_its_row_and_two_ways_on(price):
    (found,) = outliers(houses(price))
    assert (found.place, found.severity, found.rows) == ("price.outlier", "warning", [PLACE])
    key = "max" if price > 0 else "min"
    assert f"columns.price.{key}: {found.bound!r} stops" in found.remedy
    stops = f"{{columns: {{price: {{{key}: {found.bound}}}}}}}"
    assert validate(context_of(houses(price), stops)).stopping[0].rows == [PLACE]
    assert outliers(houses(price), f"{{columns: {{price: {{{key}: {found.value}}}}}}}") == []


def test_empty_and_infinite_cells_hide_no_outlier():
    values = houses(1e12)
    values["price"][[3, 4]] = [np.nan, np.inf]
    assert [found.rows for found in outliers(values)] == [[PLACE]]


def test_integers_have_outliers_and_constants_and_few_rows_have_none():
    cells = [*range(100), 10**12]
    assert [found.rows for found in outliers({"age": cells})] == [[100]]
    assert outliers({"age": [*range(40), 10**12], "same": [1.0] * 41, "none": [None] * 41}) == []


@pytest.mark.parametrize("kind", HONEST)
def test_honest_heavy_tails_and_rare_values_have_no_outlier(kind):
    for rows in (50, 200, 1000, 20_000):
        for seed in range(20):
            values = HONEST[kind](np.random.default_rng(seed), rows)
            context = context_of({"x": values})
            asked = context.frame.select(**asks_of("x")).collect().row(0, named=True)
            assert outlier_of(context, "x", asked) is None, (rows, seed)


def stones(rows: int = 5000) -> dict[str, Any]:
    """Lengths, widths and heights in millimetres; cells that were not measured are 0, and two points slipped."""
    random = np.random.default_rng(0)
    sizes = {name: np.clip(random.lognormal(np.log(5.7), 0.2, rows), 3.7, 10.5) for name in ("x", "y", "z")}
    for place, name in enumerate(sizes):
        sizes[name][10 * place : 10 * place + place + 1] = 0.0
    sizes["y"][[4000, 4001]], sizes["z"][4002] = [58.9, 31.8], 31.8
    return sizes | {"table": random.poisson(3.0, rows), "price": random.lognormal(8.0, 1.0, rows)}


def test_zeros_are_told_of_all_columns_at_once_and_a_slipped_point_beside_them_hides_none():
    found = {check.name: check for check in outliers(stones()) if check.name == "zeros"}["zeros"]
    assert (found.place, found.count, found.rows) == ("x+y+z.zeros", 6, [0, 10, 11, 20, 21, 22])
    assert "2 of y (all others 3.7 to 58.9)" in found.text
    settled = outliers(stones(), "{columns: {y: {min: 0}}}")
    assert [one.place for one in settled if one.name == "zeros"] == ["x+z.zeros"]


def test_a_few_cells_that_the_tail_of_all_others_does_not_reach_are_outliers_together():
    found = {check.column: check for check in outliers(stones()) if check.name == "outlier"}
    assert {column: check.rows for column, check in found.items()} == {"y": [4000, 4001], "z": [4002]}
    assert found["y"].text.startswith("2 cells of y are far off, the farthest 58.9, all others 0 to 10.")


def test_suggested_bounds_do_not_take_an_outlier_for_right():
    bad = houses(None)
    bad["area"][PLACE] = 1e12
    text = suggested(context_of(bad))
    assert "1100000000000" not in text
    assert "1.1e+12" not in text
    assert outliers(bad, "{columns: {area: {kind: number}}}")
    assert "max" in suggested(context_of(houses(None)))
