"""Forecasts of some windows that a run's evaluation keeps: which they are, and what stands beside them."""

from __future__ import annotations

import io
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from trainwright.trainer.jobs.evaluation.outputs import output_of, validation_loader
from trainwright.trainer.jobs.evaluation.record import evaluation
from trainwright.trainer.run.evaluation import FILE, Evaluation

pytestmark = pytest.mark.requirement("MON-2")

WINDOW, HORIZON, SHOWN = 30, 4, 24
"""Of a longer window than is shown."""
Recorded = Callable[..., tuple[Any, Evaluation, dict[str, np.ndarray[Any, Any]]]]


@pytest.fixture
def recorded(tmp_path: Path, open_session: Any) -> Recorded:
    """`recorded(metric)` evaluates an untrained model of two shops' hours; its session, the record and its arrays."""
    draw = np.random.default_rng(3)
    lines = ["date,shop,wind,load"]
    for shop in ("north", "south"):
        load = 50 + 10 * np.sin(2 * np.pi * np.arange(240) / 12) + draw.normal(0, 2, 240)
        lines += [
            f"2024-01-{1 + hour // 24:02} {hour % 24:02}:00,{shop},{hour},{load[hour]:.4f}" for hour in range(240)
        ]
    (tmp_path / "load.csv").write_text("\n".join(lines) + "\n")

    def evaluated(metric: str = "mae", direction: str = "minimize", **more: Any) -> Any:
        section = {"window": WINDOW, "horizon": HORIZON, "group": "shop", "further_targets": ["wind"]}
        session = open_session(
            {
                "model": {"use": "dlinear"},
                "data": {
                    "use": "csv", "args": {"path": "load.csv", "target": "load", "series": section},
                    "split": {"by": "time", "time": "date"},
                },
                "loss": "mse", "target_scaling": "standardize", "metrics": [metric],
                "selection": {"metric": metric, "direction": direction}, "logging": {"tensorboard": False}, **more,
            }
        )  # fmt: skip
        found = evaluation(session)
        assert found.problem is None
        content = np.load(io.BytesIO((session.run.artifacts / FILE).read_bytes()), allow_pickle=False)
        return session, found, {name: content[name] for name in content.files}

    return evaluated


def test_shown_windows_have_their_past_their_truth_and_both_forecasts(recorded: Recorded) -> None:
    session, found, arrays = recorded()
    series, samples = session.work.splits.series, session.work.splits.samples["validation"]
    told = found.forecasts
    assert told is not None
    assert (told.target, told.targets, told.time, told.is_dated, told.every) == ("load", 2, "date", True, "hour")
    assert told.naive.startswith("the value 24 rows before")
    assert arrays["window_values"].shape == (len(told.windows), SHOWN + HORIZON)
    assert "worst_images" not in arrays
    call = output_of(session)
    for place, one in enumerate(told.windows):
        (batch,) = validation_loader(session, np.array([one.row])).batches(0)
        ours, theirs = (side.numpy(force=True).reshape(HORIZON, 2)[:, 0] for side in call(batch))
        np.testing.assert_allclose(arrays["window_forecast"][place], ours, rtol=1e-5)
        np.testing.assert_allclose(arrays["window_values"][place, SHOWN:], theirs)
        begin = int(samples.rows[one.row]) + WINDOW
        rows = np.arange(begin - SHOWN, begin + HORIZON)
        np.testing.assert_allclose(arrays["window_values"][place], series.targets[rows, 0])
        np.testing.assert_allclose(arrays["window_naive"][place], series.targets[rows[SHOWN:] - 24, 0])
        assert arrays["window_times"][place, SHOWN] == series.times[begin].astype("datetime64[s]").astype(float)
        assert one.source_row == series.order[begin]
        assert one.group == ("north" if begin < 240 else "south")


def test_windows_are_ranked_by_the_metric_that_selects_and_spread_in_time(recorded: Recorded) -> None:
    session, found, arrays = recorded()
    told = found.forecasts
    assert told is not None
    call = output_of(session)
    sides = [[side.numpy(force=True) for side in call(batch)] for batch in validation_loader(session).batches(0)]
    errors = np.concatenate([np.abs(ours - theirs).mean(axis=1) for ours, theirs in sides])
    by_reason = {one.chosen: one for one in told.windows}
    assert (told.score, told.evaluated) == ("mae", len(errors))
    assert (by_reason["best"].row, by_reason["worst"].row) == (errors.argmin(), errors.argmax())
    assert by_reason["median"].score == pytest.approx(np.sort(errors)[(len(errors) - 1) // 2], rel=1e-5)
    assert all(one.score == pytest.approx(errors[one.row], rel=1e-5) for one in told.windows)
    assert [one.rank for one in told.windows] == [1 + int((errors < errors[one.row]).sum()) for one in told.windows]
    begins = arrays["window_times"][[one.chosen == "spread" for one in told.windows], SHOWN]
    assert len(begins) == 6
    assert (np.diff(begins) > 0).all()
    assert np.ptp(np.diff(begins)) <= 3600


def test_of_the_worst_windows_no_two_forecast_the_same_hours(recorded: Recorded) -> None:
    session, found, _ = recorded()
    assert found.forecasts is not None
    worst = [one for one in found.forecasts.windows if "worst" in one.chosen]
    starts = session.work.splits.samples["validation"].rows[[one.row for one in worst]].numpy()
    assert len(worst) > 2
    assert (np.diff(np.sort(starts)) >= HORIZON).all()
    assert [one.score for one in worst] == sorted((one.score for one in worst), reverse=True)


@pytest.mark.parametrize(("metric", "direction"), [("r2", "maximize"), ("coverage_error_90", "minimize")])
def test_a_metric_that_says_nothing_of_one_window_leaves_the_ranking_to_the_squared_error(
    recorded: Recorded, metric: str, direction: str
) -> None:
    _, found, arrays = recorded(metric, direction)
    assert found.forecasts is not None
    assert found.forecasts.score == "squared error"
    (worst,) = [one for one in found.forecasts.windows if one.chosen == "worst"]
    assert worst.score == pytest.approx(arrays["loss"].max())


def test_a_quantile_is_named(recorded: Recorded) -> None:
    _, found, _ = recorded("pinball_90", loss={"use": "quantile", "args": {"quantile": 0.9}})
    assert found.forecasts is not None
    assert (found.forecasts.quantile, found.forecasts.score) == (0.9, "pinball_90")
