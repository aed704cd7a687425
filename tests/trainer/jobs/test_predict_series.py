"""predict.py on series: which rows are the last ones, what is said of gaps and of times that come twice, and the times.

Of a model whose forecast is the last value, and the sum of the last two.
"""

from __future__ import annotations

import csv
import inspect
import io
import json
import runpy
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.trainer.jobs.test_predict import answers, released, run, sums

from trainwright.trainer.data.series import Step
from trainwright.trainer.data.split_methods.by_time import written_as
from trainwright.trainer.data.table.schema import Column, TableSchema
from trainwright.trainer.prediction.series import times_after

pytestmark = pytest.mark.requirement("CKPT-5", "PIPE-1")

DAY = Step(86400.0, "second")
Predict = Callable[..., list[dict[str, Any]]]
Model = Callable[..., Path]


def every(step: Step) -> dict[str, Any]:
    return {**step._asdict(), "words": str(step)}


@pytest.fixture
def model(tmp_path: Path) -> Model:
    """`model(step, window)` writes the folder of a forecaster of what is sold each day in each shop."""

    def made(step: Step = DAY, window: int = 2, group: str | None = None, **options: Any) -> Path:
        columns = [Column("sold", "number", "as written")]
        schema = TableSchema(columns, [Column("sold", "number", "the target")]).shipped({})
        schema["columns"][0]["range"] = [0.0, 10.0]
        series = {"window": window, "horizon": 2, "time": "day", "group": group, "every": every(step), "dates": None}
        schema |= {"kind": "series", "answer": {"kind": "forecast", "target": "sold"}, "series": series | options}
        weights = np.zeros((window, 2))
        weights[-1], weights[-2, 1] = 1, 1
        return released(tmp_path / "m", schema, sums(weights, shape=["rows", window, 1]))

    return made


@pytest.fixture
def predict(model: Model) -> Callable[..., Predict]:
    """`predict(...)` returns the function of that folder."""

    def imported(*given: Any, **options: Any) -> Predict:
        found: Predict = runpy.run_path(str(model(*given, **options) / "predict.py"))["predict"]
        return found

    return imported


def daily(*days: int, **more: Any) -> list[dict[str, Any]]:
    """Return rows of some days of January, each with its number as what was sold."""
    return [{"day": f"2026-01-{day:02}", "sold": day % 10, **more} for day in days]


def test_the_last_rows_of_each_series_give_its_forecast_with_times(model: Model, tmp_path: Path) -> None:
    folder = model(group="shop")
    lines = ["day,shop,sold", "2026-01-02,a,2", "2026-01-01,a,1", "2026-01-03,a,3", "2026-01-02,b,5", "2026-01-03,b,7"]
    (folder / "rows.csv").write_text("\n".join(lines))
    done = run(folder, "rows.csv")
    assert done.stdout.splitlines() == [
        "shop,step,day,sold,note", "a,1,2026-01-04,3.0,", "a,2,2026-01-05,5.0,", "b,1,2026-01-04,7.0,",
        "b,2,2026-01-05,12.0,",
    ]  # fmt: skip
    (folder / "few.csv").write_text("\n".join(lines[:2]))
    done = run(folder, "few.csv")
    assert (done.returncode, "a has 1 rows; the model sees the last 2" in done.stderr) == (2, True)


@pytest.mark.parametrize(
    ("days", "note"),
    [
        ((1, 2, 3, 4), None),
        ((4, 1, 3, 2), None),
        ((1, 9, 10, 11, 12), None),
        ((1, 2, 5, 7), "day: 3 rows are missing among the last 4, first after 2026-01-02; training had a row every "
         "day: fill them in"),
        ((1, 2, 2, 3), "day: 1 of the last 4 rows have the time of another, first 2026-01-02; training had a row every "
         "day: keep one of each time"),
    ],
)  # fmt: skip
def test_gaps_and_doubled_times_among_the_last_rows_are_noted_and_no_others(
    predict: Callable[..., Predict], days: tuple[int, ...], note: str | None
) -> None:
    (told,) = predict(window=4)(daily(*days))
    assert told["notes"] == ([] if note is None else [note])
    assert told["answer"]["forecast"][0]["day"] == f"2026-01-{max(days) + 1:02}", "a step behind the last row"
    assert told["answer"]["forecast"][0]["sold"] == max(days) % 10


def test_rows_between_the_steps_of_training_are_noted(predict: Callable[..., Predict]) -> None:
    hours = [f"2026-01-01 {hour:02}:{minute:02}" for hour, minute in ((0, 0), (1, 0), (2, 20), (3, 0))]
    (told,) = predict(Step(3600.0, "second"), 4)([{"day": hour, "sold": 1} for hour in hours])
    (note,) = told["notes"]
    assert note.startswith("day: 2 of the last 4 rows are no whole step later, first after 2026-01-01 01:00; ")
    rounded = [{"day": f"2026-01-01 00:00:00.{ms:03}", "sold": 1} for ms in (0, 33, 67, 100)]
    assert predict(Step(1 / 30, "second"), 4)(rounded)[0]["notes"] == [], "33 and 34 ms are even"


def test_what_is_odd_in_several_rows_of_a_window_is_said_once_with_their_number(model: Model) -> None:
    folder = model(window=4)
    rows = [{**row, "sold": sold} for row, sold in zip(daily(1, 2, 3, 4), (1, 99, 98, -5), strict=True)]
    (told,) = answers(run(folder, "--json", json.dumps(rows)))
    assert told["notes"] == ["sold: 99 is beyond the training data (0 to 10) (and 2 more of 4 rows)"]
    lines = list(csv.DictReader(io.StringIO(run(folder, json.dumps(rows)).stdout)))
    assert [line["note"] for line in lines] == [told["notes"][0], ""], "on a forecast's first line alone"


@pytest.mark.parametrize("cell", ["soon", "", None, 7])
def test_a_time_that_is_none_is_refused_with_its_row(predict: Callable[..., Predict], cell: Any) -> None:
    with pytest.raises(Exception, match=r"row 2, column 'day': .* is no date as training read them"):
        predict()([*daily(1), {"day": cell, "sold": 1}])


def test_rows_without_times_are_answered_as_they_stand_and_that_is_said(predict: Callable[..., Predict]) -> None:
    (told,) = predict()([{"sold": 4}, {"sold": 1}])
    assert told["answer"]["forecast"] == [{"step": 1, "sold": 1.0}, {"step": 2, "sold": 5.0}]
    assert told["notes"] == ["day: no row has this column, so rows count as they stand, the oldest first"]


def test_dates_are_read_as_training_read_them_and_offsets_count(predict: Callable[..., Predict]) -> None:
    plan = written_as(np.array(["31.01.2026", "01.02.2026"]), "day")
    rows = [{"day": day, "sold": sold} for day, sold in (("01.02.2026", 2), ("31.01.2026", 1), ("30.01.2026", 0))]
    (told,) = predict(dates=plan)(rows)
    assert told["answer"]["forecast"] == [
        {"step": 1, "day": "2026-02-02", "sold": 2.0}, {"step": 2, "day": "2026-02-03", "sold": 3.0},
    ]  # fmt: skip
    assert written_as(np.array(["2026-01-31", "2026-02-01 00:00"]), "day") is None
    rows = [{"day": day, "sold": 1} for day in ("2026-01-01 02:00+02:00", "2026-01-01 01:00")]
    (told,) = predict(Step(3600.0, "second"))(rows)
    assert told["notes"] == []
    assert told["answer"]["forecast"][0]["day"] == "2026-01-01 02:00:00"


def test_times_go_on_by_the_step_of_training() -> None:
    hour, month, numbers = Step(3600.0, "second"), Step(1.0, "month"), Step(2.0, "number")
    moments = [datetime(2026, 1, 30, 23, tzinfo=UTC) + timedelta(hours=place) for place in (0, 1)]
    assert times_after([1.0, 3.0], every(numbers), 2, "3") == [5.0, 7.0]
    assert times_after(moments, every(hour), 1, "2026-01-31 00:00") == ["2026-01-31 01:00:00"]
    assert times_after(moments, every(hour), 1, "2026-01-31T00") == ["2026-01-31 01:00:00"], "an hour alone"
    assert times_after(moments, every(hour), 1, "2026-01-31 00:00Z") == ["2026-01-31 01:00:00+00:00"]
    first = [datetime(2025, number, 1, tzinfo=UTC) for number in (11, 12)]
    assert times_after(first, every(month), 2, "2025-12-01") == ["2026-01-01", "2026-02-01"]
    ends = [datetime(2026, 1, 31, tzinfo=UTC), datetime(2026, 2, 28, tzinfo=UTC)]
    assert times_after(ends, every(month), 2, "2026-02-28") == ["2026-03-31", "2026-04-30"]
    assert times_after(ends[:1], every(Step(3.0, "month")), 1, "2026-01-31") == ["2026-04-30"]


def test_the_function_says_what_goes_in_and_what_comes_out_and_takes_it(predict: Callable[..., Predict]) -> None:
    function = predict()
    said = inspect.getdoc(function) or ""
    assert "a list of rows" in said
    assert "{'forecast': [{'step', time, target: number}, ...]}" in said
    rows = [{**row, "sold": np.float32(row["sold"]), "day": datetime.fromisoformat(row["day"])} for row in daily(3, 4)]
    plain, typed = function(daily(3, 4)), function(rows)
    assert plain[0]["answer"]["forecast"][1]["sold"] == typed[0]["answer"]["forecast"][1]["sold"] == 7.0
    assert set(plain[0]) == {"input", "answer", "notes"}
    assert len(function(daily(3, 4), daily(5, 6))) == 2
    with pytest.raises(TypeError, match="no option 'steps'"):
        function(daily(3, 4), steps=3)
