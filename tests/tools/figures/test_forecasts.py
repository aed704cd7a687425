"""Pictures of forecasts: which windows are drawn, what each line is, and what is said of runs that have none."""

from __future__ import annotations

import numpy as np
import pytest

from trainwright.tools.figures.drawing import draw
from trainwright.tools.reports.pictures import draw_pictures
from trainwright.trainer.base.errors import NotFoundError
from trainwright.trainer.run.evaluation import Forecasts, ShownWindow

pytestmark = [pytest.mark.slow, pytest.mark.requirement("MON-2")]

PAST, HORIZON = 8, 4
REASONS = ("spread", "spread", "spread", "best", "median", "worst", "among the worst", "among the worst")
SERIES = {
    "use": "csv", "split": {"by": "time", "time": "date"},
    "args": {"path": "a.csv", "target": "load", "series": {"window": PAST, "horizon": HORIZON}},
}  # fmt: skip
BEGIN = 1_700_000_000.0 // 3600 * 3600


@pytest.fixture
def windows(predicted):
    """`windows(**fields)` makes a run that recorded the forecasts of eight windows."""

    def make(**fields):
        shown = [
            ShownWindow(row=place, chosen=why, score=place + 0.5, rank=place + 1, group=fields.get("group"))
            for place, why in enumerate(REASONS)
        ]
        told = {"score": "mae", "evaluated": 1234, "target": "load", "time": "date", "is_dated": True, "every": "hour",
                "naive": "the value 24 rows before (as configured)", "windows": shown}  # fmt: skip
        fields.pop("group", None)
        steps = np.arange(PAST + HORIZON)
        arrays = {
            "window_times": BEGIN + 3600.0 * (steps + 100 * np.arange(8)[:, None]),
            "window_values": np.tile(steps, (8, 1)).astype(float),
            "window_forecast": np.full((8, HORIZON), 20.0), "window_naive": np.full((8, HORIZON), 30.0),
        }  # fmt: skip
        evaluation = {"kind": "numbers", "forecasts": Forecasts(**{**told, **fields})}
        return predicted(evaluation=evaluation, data=SERIES, loss=np.zeros(9), **arrays)

    return make


def test_every_panel_has_what_was_measured_the_forecast_and_a_naive_one(windows, drawn, texts, tmp_path):
    draw("forecasts", [windows()], tmp_path / "a.png")
    panels = [panel for panel in drawn[0].axes if panel.get_lines()]
    assert len(panels) == 6
    for panel in panels:
        lines = {line.get_label(): line for line in panel.get_lines()}
        assert list(lines) == ["measured: load", "naive: the value 24 rows before", "forecast"]
        seen = lines["measured: load"].get_ydata()
        assert list(seen) == list(range(PAST + HORIZON))
        assert list(lines["forecast"].get_ydata()) == [PAST - 1, *[20.0] * HORIZON], "it goes on from the last row seen"
        assert list(lines["naive: the value 24 rows before"].get_ydata()) == [PAST - 1, *[30.0] * HORIZON]
        assert lines["forecast"].get_xdata()[-1] == lines["measured: load"].get_xdata()[-1]
        assert lines["forecast"].get_linewidth() > lines["measured: load"].get_linewidth()
    shown = texts(drawn[0])
    assert "2023-11-15 06:00: rank 1, 0.5" in shown
    assert sum(": best, " in text or ": median, " in text or ": worst, " in text for text in shown) == 3
    assert "1,234 validation windows ranked by mae, epoch 3" in drawn[0].get_suptitle()


def test_the_worst_samples_of_a_series_are_its_worst_forecasts(windows, drawn, tmp_path):
    draw("worst_samples", [windows()], tmp_path / "a.png")
    titles = [panel.get_title(loc="left") for panel in drawn[0].axes if panel.get_lines()]
    assert [title.partition(": ")[2] for title in titles] == ["worst, 5.5", "rank 7, 6.5", "rank 8, 7.5"]
    assert "worst forecasts of load" in drawn[0].get_suptitle()


def test_numbers_as_times_long_names_groups_and_a_quantile_are_drawn_as_they_are(windows, drawn, texts, tmp_path):
    long = "a very long name of what is sold for $"
    run = windows(is_dated=False, time="tick", target=long, targets=3, quantile=0.9, group="shop $7")
    draw("forecasts", [run], tmp_path / "a.png")
    shown = texts(drawn[0])
    assert "tick" in shown
    assert "forecast (quantile 0.9)" in shown
    assert any(text.startswith(r"shop \$7, ") for text in shown)
    assert "(the first of 3 targets)" in " ".join(drawn[0].get_suptitle().split())
    assert max(len(panel.get_ylabel()) for panel in drawn[0].axes) <= 18


def test_a_run_of_no_series_is_told_what_shows_its_rows(make_run, tmp_path):
    with pytest.raises(NotFoundError, match=r"no data\.args\.series") as caught:
        draw("forecasts", [make_run().run], tmp_path / "a.png")
    assert "kind='worst_samples'" in caught.value.remedy


def test_a_run_of_a_series_that_recorded_none_is_told_why(make_run, tmp_path):
    with pytest.raises(NotFoundError, match="before they were recorded"):
        draw("forecasts", [make_run(data=SERIES).run], tmp_path / "a.png")


def test_a_card_shows_forecasts_where_rows_are_shared(windows, tmp_path):
    run = windows()
    shared = [one.path for one in draw_pictures(run, "run", tmp_path / "shared", shares_rows=True)]
    assert "pictures/forecasts.png" in shared
    assert "pictures/worst_samples.png" in shared
    kept = [one.path for one in draw_pictures(run, "run", tmp_path / "kept", shares_rows=False)]
    assert set(shared) - set(kept) == {"pictures/forecasts.png", "pictures/worst_samples.png"}
