"""A group of targets that are ten times too high is asked after; long tails of honest numbers are not."""

from __future__ import annotations

from typing import Any

import numpy as np
import polars as pl
import pytest

from trainwright.trainer.data.validation.check import Context
from trainwright.trainer.data.validation.expectations import Expectations
from trainwright.trainer.data.validation.report import Verdict
from trainwright.trainer.data.validation.validate import validate
from trainwright.trainer.data.validation.values import kind_of

ROWS = 450
WRONG = [11, 50, 123, 200, 299]
"""All of the train rows."""
DRAWN = np.random.default_rng(0).uniform(-1.5, 1.5, size=(ROWS, 2))
MEAN = DRAWN @ [1.0, 0.5]
RNG = np.random.default_rng(1)
TAILS = {
    "log-normal": np.exp(MEAN + RNG.normal(size=ROWS)),
    "Pareto incomes": 1000 * np.exp(MEAN) * (1 + RNG.pareto(1.5, ROWS)),
    "counts from 1": 1.0 + RNG.poisson(np.exp(MEAN)),
    "nothing to learn": 1.0 + RNG.pareto(1.0, ROWS),
}


def verdicts(values: np.ndarray[Any, Any]) -> list[Verdict]:
    frame = pl.DataFrame({"carat": DRAWN[:, 0], "depth": DRAWN[:, 1], "price": values})
    kinds = {name: kind_of(dtype) for name, dtype in frame.schema.items()}
    splits = {"train": np.arange(300), "validation": np.arange(300, ROWS)}
    context = Context(
        frame.lazy(), kinds, targets=["price"], splits=splits, source="csv",
        options={"path": "x.csv", "target": "price"}, expectations=Expectations(without=["leaks"]),
    )  # fmt: skip
    return [one for one in validate(context).checks if one.family == "far_targets"]


@pytest.mark.requirement("PIPE-2")
@pytest.mark.parametrize("factor", [10.0, 0.1])
def test_prices_that_are_ten_times_off_are_named_and_asked_after(factor: float) -> None:
    values = 1000.0 * np.exp(MEAN + RNG.normal(0.0, 0.1, ROWS))
    values[WRONG] *= factor
    (found,) = verdicts(values)
    assert (found.passed, found.severity, found.count, sorted(found.rows)) == (False, "info", 5, WRONG)
    assert found.value == pytest.approx(factor, rel=0.5)
    assert "of 300 train values of price are about" in found.text
    assert "ask where they come from" in found.remedy


@pytest.mark.requirement("PIPE-2")
@pytest.mark.parametrize("tail", TAILS)
def test_long_tails_are_silent(tail: str) -> None:
    assert all(found.passed for found in verdicts(TAILS[tail]))


@pytest.mark.requirement("PIPE-2")
def test_counts_with_zeros_and_sums_that_may_be_negative_are_not_judged_by_factors() -> None:
    assert verdicts(RNG.poisson(np.exp(MEAN)).astype(float)) == []
    assert verdicts(MEAN) == []
