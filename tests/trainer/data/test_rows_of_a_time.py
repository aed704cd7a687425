"""Rows of one time are alike: intervals draw whole times where a split by time has several rows at each."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from trainwright.trainer.assembly.raw_splits import raw_splits_of
from trainwright.trainer.clean_room.intervals import FEWEST_UNITS
from trainwright.trainer.config import TrainingConfig

pytestmark = pytest.mark.requirement("GATE-5", "GATE-6")


@pytest.mark.parametrize(
    ("series", "plants", "times"),
    [({"group": "plant"}, 3, True), (None, 3, True), ({"group": "plant"}, 1, False), (None, 1, False)],
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
        assert sorted(set(raw.groups["test"])) == list(range(48, 60)), "of the year that a window forecasts"
        assert np.bincount(raw.groups["test"])[raw.groups["test"].min() :].tolist() == [3] * 12


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
    assert max(len(np.unique(times)) for times in raw.groups.values()) < FEWEST_UNITS
