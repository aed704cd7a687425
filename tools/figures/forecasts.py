"""Pictures of forecasts: windows of a run's validation series, what was measured, forecast, and naively forecast.

Times of dates are drawn as they are, in the series' own clock.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from matplotlib import dates
from matplotlib.axes import Axes
from matplotlib.ticker import MaxNLocator

from trainwright.tools.figures.recorded import Predicted, predicted
from trainwright.tools.figures.style import BLACK, BLUE, ORANGE, SMALL, cut, label, new_figure, plain, save
from trainwright.tools.training_monitor.record import RunRecord
from trainwright.trainer.base.errors import NotFoundError
from trainwright.trainer.run.evaluation import Forecasts

ARRAYS = ("window_times", "window_values", "window_forecast", "window_naive")
COLUMNS = 3
NAMED = 16
"""Letters of a name beside or above a panel."""


def forecasts(records: list[RunRecord], path: Path) -> Path:
    """Draw windows spread evenly over the validation split's time, and below them the best, the median and the worst.

    Raises NotFoundError where the run recorded none: its data are no windows of a series.
    """
    (record,) = records
    _require_series(record)
    found = predicted(record, "forecasts", "forecasts", *ARRAYS)
    told = _of(found)
    shown = [place for place, one in enumerate(told.windows) if one.chosen != "among the worst"]
    return _draw(found, told, shown, "", path)


def worst_windows(found: Predicted, path: Path) -> Path:
    """Draw the windows of a series with the largest errors, of neighbours that overlap one."""
    told = _of(found)
    places = [place for place, one in enumerate(told.windows) if "worst" in one.chosen]
    return _draw(found, told, places, "worst forecasts of ", path)


def _of(found: Predicted) -> Forecasts:
    told = found.evaluation.forecasts
    assert told is not None, "the caller has looked"  # noqa: S101
    return told


def _require_series(record: RunRecord) -> None:
    """Raise NotFoundError for a run whose data are no windows of a series."""
    run, data = record.run.run_id, record.config.data
    if data is None or data.args.get("series") is None:
        raise NotFoundError(
            f"Run {run} has no forecasts, which forecasts draws: its data are no windows of a series, for their "
            "configuration has no data.args.series.",
            remedy=f"plot_metrics(run_ids=[{run!r}], kind='calibration') draws predicted numbers over their targets, "
            "kind='worst_samples' the worst rows.",
        )


def _draw(found: Predicted, told: Forecasts, places: Sequence[int], what: str, path: Path) -> Path:
    down = -(-len(places) // COLUMNS)
    figure, axes = new_figure(down, COLUMNS, 1.25 + 1.72 * down)
    for panel in axes.flat[len(places) :]:
        panel.axis("off")
    for number, (panel, place) in enumerate(zip(axes.flat, places, strict=False)):
        _window(panel, found, told, place)
        is_last = number >= len(places) - COLUMNS and not told.is_dated  # beside dates their year and month stand there
        label(panel, "", told.time if is_last else "", cut(told.target, NAMED) if number % COLUMNS == 0 else "")
        is_ranked = told.windows[place].chosen in {"best", "median", "worst"}
        panel.set_title(_title(found, told, place), loc="left", fontsize=SMALL,
                        fontweight="bold" if is_ranked else "normal")  # fmt: skip
        _in_time(panel, told)
    more = f" (the first of {told.targets} targets)" if told.targets > 1 else ""
    title = f"{found.record.name}: {what}{told.target}{more}, {told.evaluated:,} validation windows ranked by "
    return save(figure, f"{title}{told.score}, epoch {found.evaluation.epoch}", path)


def _window(panel: Axes, found: Predicted, told: Forecasts, place: int) -> None:
    """Draw one window: the past and the truth as one line, and both forecasts from the last row that is seen on."""
    times, values, ours, naive = (found.arrays[name][place] for name in ARRAYS)
    if told.is_dated:
        times = times.astype("datetime64[s]")
    past = len(times) - len(ours)
    ahead = times[past - 1 :]
    of = f" (quantile {told.quantile:g})" if told.quantile is not None else ""
    panel.axvspan(times[past - 1], times[-1], color="#eeeeee", linewidth=0, zorder=0)
    panel.plot(times, values, color=BLACK, linewidth=0.9, label=f"measured: {cut(told.target, 2 * NAMED)}")
    panel.plot(ahead, [values[past - 1], *naive], color=ORANGE, linewidth=1.0, linestyle="--",
               label=f"naive: {told.naive.partition(' (')[0]}")  # fmt: skip
    panel.plot(ahead, [values[past - 1], *ours], color=BLUE, linewidth=1.7, label=f"forecast{of}")


def _title(found: Predicted, told: Forecasts, place: int) -> str:
    """Return when the forecast begins, how far off it is, and its rank."""
    one, times = told.windows[place], found.arrays["window_times"][place]
    begin = times[-found.arrays["window_forecast"].shape[1]]
    when = datetime.fromtimestamp(float(begin), UTC).isoformat(" ", "minutes") if told.is_dated else f"{begin:g}"
    why = f"rank {one.rank:,}" if one.chosen in {"spread", "among the worst"} else one.chosen
    whose = "" if one.group is None else f"{cut(one.group, NAMED)}, "
    return plain(f"{whose}{when.removesuffix('+00:00').removesuffix(' 00:00')}: {why}, {one.score:.3g}")


def _in_time(panel: Axes, told: Forecasts) -> None:
    """Write a few times below a panel, the shortest way that tells them."""
    if told.is_dated:
        untyped: Any = dates
        locator = untyped.AutoDateLocator(minticks=2, maxticks=4)
        panel.xaxis.set_major_locator(locator)
        panel.xaxis.set_major_formatter(untyped.ConciseDateFormatter(locator))
        panel.xaxis.get_offset_text().set_fontsize(SMALL)
    else:
        panel.xaxis.set_major_locator(MaxNLocator(4))
    panel.margins(x=0.0)
