"""What naive forecasts reach on a table's validation rows: the figures that give a goal its scale before a plan."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import numpy as np
import polars as pl
import pytest

from trainwright.trainer.assembly.build import build_data
from trainwright.trainer.config import parse_config
from trainwright.trainer.evidence.rivals import rivals_evidence
from trainwright.trainer.jobs.table_times import times_of

ROWS = 2000
BEGIN = datetime(2024, 1, 1, tzinfo=UTC)
SERIES = {"window": 48, "horizon": 24}


@pytest.fixture
def load() -> pl.DataFrame:
    """Hours with a day and a walk, whose test has another level."""
    draw, hours = np.random.default_rng(1), np.arange(ROWS)
    values = 50 + 3 * np.sin(2 * np.pi * hours / 24) + np.cumsum(draw.normal(0, 0.3, ROWS)) + 40 * (hours >= 1700)
    return pl.DataFrame({
        "date": [f"{BEGIN + timedelta(hours=hour):%Y-%m-%d %H:%M}" for hour in hours.tolist()], "load": values,
    })  # fmt: skip


def naive_of(frame: pl.DataFrame, **named: Any) -> dict[str, Any]:
    columns = [{"name": "date", "kind": "category"}, {"name": "load", "kind": "number", "is_fraction": True}]
    found: dict[str, Any] = times_of(frame.lazy(), ROWS, columns, named)["date"]["naive"]["load"]
    return found


@pytest.mark.requirement("PRED-3")
@pytest.mark.parametrize("split", [{}, {"borders": ["2024-01-29", "2024-02-26", "2024-03-11"]}, {"validation": 0.4}])
def test_they_are_the_figures_of_the_rivals_that_a_baseline_is_held_against(
    load: pl.DataFrame, tmp_path: Any, split: dict[str, Any]
) -> None:
    load.write_csv(tmp_path / "load.csv")
    values = {
        "model": {"use": "dlinear"}, "loss": "mse", "metrics": ["mae", "rmse", "r2"],
        "data": {"use": "csv", "args": {"path": "load.csv", "target": "load", "series": SERIES},
                 "split": {"by": "time", "time": "date", **split}},
        "selection": {"metric": "mae", "direction": "minimize"}, "target_scaling": "standardize",
    }  # fmt: skip
    config = parse_config(values)
    rivals = rivals_evidence(build_data(config, tmp_path), config)
    assert rivals is not None
    scores = {one.name: one.metrics for one in rivals.rivals}
    found = naive_of(load, split=split)
    assert found["season"]["rows"] == 24
    for name, errors in (("last_value", found["last_value"]), ("seasonal", found["season"]["errors"])):
        for metric in ("mae", "rmse", "mase"):
            assert errors[metric][23] == pytest.approx(scores[name][metric], rel=0.02), (
                "but for the last horizon's edge"
            )
        assert errors["r2"][23] == pytest.approx(scores[name]["r2"], abs=0.1)
        assert errors["mse"][0] == pytest.approx(errors["rmse"][0] ** 2, rel=1e-4)


def test_the_spans_of_a_sentence_choose_the_rows_as_their_borders_do(load: pl.DataFrame) -> None:
    spans = {"counts": [4, 4, 2], "unit": "week"}
    assert naive_of(load, spans=spans) == naive_of(load, split={"borders": ["2024-01-29", "2024-02-26", "2024-03-11"]})
    assert naive_of(load, spans=spans) != naive_of(load)


def test_a_split_that_cannot_be_falls_back_on_the_usual_shares(load: pl.DataFrame) -> None:
    assert naive_of(load, split={"borders": ["<first>", "<second>"]}) == naive_of(load)
