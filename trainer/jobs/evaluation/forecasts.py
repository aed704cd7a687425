"""Forecasts of some windows of a validation split's series, beside what was measured and beside a naive forecast.

Some are spread evenly in time; the best, the median and the worst are chosen among all that were evaluated, each
window by the metric that selects the model, where that is an error of numbers: over the steps of its horizon.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from torch import Tensor

from trainwright.trainer.base.arrays import Array
from trainwright.trainer.base.section import Entry
from trainwright.trainer.clean_room import names, numbers
from trainwright.trainer.config.schema import SelectionSection
from trainwright.trainer.data.sections import targets_of
from trainwright.trainer.data.series import Series
from trainwright.trainer.engine.session import Session
from trainwright.trainer.evidence.rivals import naive_forecasts
from trainwright.trainer.jobs.evaluation.forms import LOSSES, NUMBERS
from trainwright.trainer.jobs.evaluation.outputs import Call, Outputs, validation_loader
from trainwright.trainer.run.evaluation import Forecasts, ShownWindow

SPREAD, WORST = 6, 6
PAST = 2
"""Horizons before the forecast that are shown, of the window that the model sees."""
MIN_PAST = 24
ERRORS = frozenset(
    one for one in numbers.NAMES if one not in numbers.OF_VARYING and not one.startswith(("coverage_", names.WORST))
)
"""Metrics that mean something of one window alone, where smaller is better."""


class ScoredWindows:
    """Gives outputs and targets as `call` does, and scores each window on the way.

    Args:
        call: of a batch, (windows, horizon * targets) both.
        selection: names the metric.
    """

    def __init__(self, call: Call, selection: SelectionSection) -> None:
        self.call, self.scores = call, list[float]()
        self.metric = selection.metric if selection.metric in ERRORS else None

    def __call__(self, batch: Any) -> tuple[Tensor, Tensor]:
        """Return output and target."""
        output, target = self.call(batch)
        if (metric := self.metric) is not None and output.numel() == target.numel():
            sides = (one.detach().float().reshape(len(target), -1, 1).numpy(force=True) for one in (output, target))
            self.scores += [numbers.compute(metric, *window) for window in zip(*sides, strict=True)]
        return output, target


def forecasts(
    session: Session, call: Call, found: Outputs, scored: ScoredWindows
) -> tuple[Forecasts, dict[str, Array]]:
    """Return the windows that are shown, and their arrays as run/evaluation.py names them.

    Args:
        call: of a batch, which gives output and target of the evaluated model.
        found: all that was evaluated.
        scored: what gave `found` its outputs.
    """
    series, samples = session.work.splits.series, session.work.splits.samples
    assert series is not None, "of a series"  # noqa: S101
    is_scored = len(scored.scores) == found.rows and bool(np.isfinite(scored.scores).any())
    scores = np.asarray(scored.scores) if is_scored else found.arrays["loss"]
    starts = np.asarray(samples["validation"].rows, dtype=np.int64)[found.arrays["row"]]
    ranked = _Ranked(series, found.arrays["row"], starts, scores)
    chosen = ranked.chosen()
    season = series.season(np.asarray(samples["train"].rows, dtype=np.int64))
    record = _described(session, series).model_copy(
        update={
            "score": str(scored.metric) if is_scored else LOSSES[NUMBERS],
            "evaluated": found.rows,
            "naive": naive_forecasts.told_of(season) if season else naive_forecasts.LAST,
            "windows": [ranked.shown(why, place) for why, place in chosen],
        }
    )
    places, wide = np.array([place for _, place in chosen]), series.targets.shape[1]
    arrays = {
        "window_forecast": _outputs(session, call, ranked.rows[places])[:, ::wide],
        "window_naive": naive_forecasts.forecast(series, starts[places], season.rows if season else 1)[:, ::wide],
    }
    return record, arrays | _measured(series, starts[places])


def _described(session: Session, series: Series) -> Forecasts:
    """Return what the forecasts are of."""
    data, loss = session.config.data, session.config.loss
    assert data is not None, "a series is of a table"  # noqa: S101
    return Forecasts(
        target=next(iter(targets_of(data.args)), "the target"),
        targets=series.targets.shape[1],
        time=str(data.split.time),
        is_dated=series.times.dtype.kind == "M",
        every=str(series.every),
        quantile=loss.args.get("quantile") if isinstance(loss, Entry) and loss.use == "quantile" else None,
    )


class _Ranked:
    """Evaluated windows, the best first.

    Args:
        series: rows in order of time.
        rows: places of the windows in the validation split, (windows,).
        starts: first row of each in the series, (windows,).
        scores: smaller is better, (windows,).
    """

    def __init__(self, series: Series, rows: Array, starts: Array, scores: Array) -> None:
        self.series, self.rows, self.starts, self.scores = series, rows, starts, scores
        self.order = np.argsort(np.nan_to_num(scores, nan=np.inf), kind="stable")
        self.ranks = np.empty(len(self.order), dtype=np.int64)
        self.ranks[self.order] = np.arange(1, len(self.order) + 1)

    def chosen(self) -> list[tuple[str, int]]:
        """Return why, and which windows are shown, by their places."""
        in_time = np.argsort(self.series.times[self.starts + self.series.window], kind="stable")
        spread = np.unique(np.linspace(0, len(in_time) - 1, SPREAD).round().astype(int))
        found = [("spread", int(in_time[place])) for place in spread]
        found += [("best", int(self.order[0])), ("median", int(self.order[(len(self.order) - 1) // 2]))]
        worst: list[int] = []
        for place in self.order[len(self.order) // 2 :][::-1].tolist():
            apart = (abs(int(self.starts[place] - self.starts[other])) for other in worst)
            if all(rows >= self.series.horizon for rows in apart):  # neighbours forecast the same hours: one is enough
                worst.append(place)
            if len(worst) == WORST:
                break
        return [*found, ("worst", worst[0]), *(("among the worst", place) for place in worst[1:])]

    def shown(self, why: str, place: int) -> ShownWindow:
        """Return the record of a chosen window."""
        start = int(self.starts[place])
        return ShownWindow(
            row=int(self.rows[place]),
            source_row=int(self.series.order[start + self.series.window]),
            group=self.series.names.get(int(self.series.groups[start])),
            chosen=why,
            score=float(self.scores[place]),
            rank=int(self.ranks[place]),
        )


def _outputs(session: Session, call: Call, rows: Array) -> Array:
    """Return the model's outputs for validation windows, (windows, horizon * targets), by their places in the split."""
    batches = validation_loader(session, rows).batches(0)
    each = [call(batch)[0].float().numpy(force=True) for batch in batches]
    return np.concatenate([one.reshape(len(one), -1) for one in each])


def _measured(series: Series, starts: Array) -> dict[str, Array]:
    """Return times and measured values of the rows around each origin, (windows, past + horizon)."""
    past = min(series.window, max(PAST * series.horizon, MIN_PAST))
    rows = starts[:, None] + series.window + np.arange(-past, series.horizon)
    times = series.times[rows]
    if times.dtype.kind == "M":
        times = times.astype("datetime64[us]").astype(np.float64) / 1e6
    return {"window_times": times.astype(np.float64), "window_values": series.targets.numpy()[:, 0][rows]}
