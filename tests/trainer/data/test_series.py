"""Windows over a table with a column of times: what a sample is, where it may lie, and which rows are refused."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from trainwright.tools.gates.beside_rivals import validation_text
from trainwright.trainer.assembly.build import build_data
from trainwright.trainer.base.errors import ConfigurationError, DataError
from trainwright.trainer.clean_room import metrics
from trainwright.trainer.config import TrainingConfig, parse_config
from trainwright.trainer.data.assemble import withhold_test
from trainwright.trainer.data.series import Series
from trainwright.trainer.data.splits import Splits
from trainwright.trainer.evidence import split_rows as recording
from trainwright.trainer.evidence.data import data_evidence
from trainwright.trainer.evidence.looked_at import looked_at_evidence
from trainwright.trainer.evidence.rivals import rivals_evidence
from trainwright.trainer.evidence.split_rows import rows_of
from trainwright.trainer.run.artifacts import Program
from trainwright.trainer.run.evidence import Data
from trainwright.trainer.run.rivals import Rival, Rivals

ROWS, WINDOW, HORIZON = 300, 12, 4
BEGIN = datetime(2024, 1, 1, tzinfo=UTC)
Hours = list[int]
WriteTable = Callable[..., None]


@pytest.fixture
def write(tmp_path: Path) -> WriteTable:
    """`write(rows)` writes load.csv of (hour, values ...) below a header."""

    def written(rows: Any, header: str = "date,wind,load") -> None:
        lines = [
            ",".join([f"{BEGIN + timedelta(hours=hour):%Y-%m-%d %H:%M}", *map(str, values)]) for hour, *values in rows
        ]
        (tmp_path / "load.csv").write_text("\n".join([header, *lines]) + "\n")

    return written


def values_of(series: dict[str, Any] | None = None, split: dict[str, Any] | None = None, **args: Any) -> dict[str, Any]:
    section = {"window": WINDOW, "horizon": HORIZON, **(series or {})}
    return {
        "model": {"use": "dlinear"},
        "data": {
            "use": "csv",
            "args": {"path": "load.csv", "target": "load", "series": section, **args},
            "split": {"by": "time", "time": "date", **(split or {})},
        },
        "loss": "mse", "target_scaling": "standardize", "metrics": ["mae"], "loader": {"batch_size": 16},
        "selection": {"metric": "mae", "direction": "minimize"}, "training": {"epochs": 2},
        "logging": {"tensorboard": False},
    }  # fmt: skip


def config_of(series: dict[str, Any] | None = None, split: dict[str, Any] | None = None, **args: Any) -> TrainingConfig:
    return parse_config(values_of(series, split, **args))


def hourly(rows: int = ROWS) -> list[tuple[float, ...]]:
    """Return rows whose wind is their hour and whose load is 1000 more, so that a number says whose it is."""
    return [(hour, hour, 1000 + hour) for hour in range(rows)]


def series_in(splits: Splits) -> Series:
    assert splits.series is not None
    return splits.series


def hours_of(splits: Splits, name: str) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]:
    """Return the hours that each window of a split sees, and those that it forecasts, (windows, ...)."""
    inputs, targets = splits.samples[name].raw.tensors
    return inputs[:, :, 0].numpy().astype(int), targets.numpy().astype(int) - 1000


def test_a_sample_is_what_was_before_and_the_horizon_behind_it_in_the_memory_of_the_rows(
    write: WriteTable, tmp_path: Path
) -> None:
    write(hourly())
    splits = build_data(config_of(), tmp_path)
    seen, forecast = hours_of(splits, "train")
    assert (np.concatenate([seen, forecast], axis=1) == np.arange(WINDOW + HORIZON) + seen[:, :1]).all()
    base = splits.samples["train"].base
    assert {tensor.untyped_storage().nbytes() for tensor in base} == {ROWS * 4 * 2, ROWS * 4}


def test_rows_are_in_order_of_time_however_the_file_has_them(write: WriteTable, tmp_path: Path) -> None:
    write(hourly())
    inputs, targets = build_data(config_of(), tmp_path).samples["test"].raw.tensors
    rows = hourly()
    write([rows[place] for place in np.random.default_rng(1).permutation(ROWS)])
    again = build_data(config_of(), tmp_path)
    assert all(
        (one == other).all() for one, other in zip(again.samples["test"].raw.tensors, (inputs, targets), strict=True)
    )
    assert sorted(series_in(again).order) == list(range(ROWS))


BORDERS: list[dict[str, Any]] = [{"borders": ["2024-01-08", "2024-01-11 12:00", *end]} for end in ([], ["2024-01-13"])]


@pytest.mark.parametrize("split", [{}, *BORDERS, {"validation": 0.3, "test": 0.3}])
def test_no_hour_that_is_forecast_in_one_split_is_forecast_or_seen_in_an_earlier_one(
    write: WriteTable, tmp_path: Path, split: dict[str, Any]
) -> None:
    write(hourly())
    splits = build_data(config_of(split=split), tmp_path)
    ends = {name: hours_of(splits, name) for name in ("train", "validation", "test")}
    assert ends["train"][1].max() < ends["validation"][1].min()
    assert ends["validation"][1].max() < ends["test"][1].min()
    assert ends["validation"][0].min() <= ends["train"][1].max()  # what is known by then may be seen
    if "borders" in split:
        assert ends["train"][1].max() == 7 * 24 - 1
        assert (ends["validation"][1].min(), ends["validation"][1].max()) == (7 * 24, 10 * 24 + 11)
    evidence = data_evidence(splits, tmp_path)
    assert evidence.disjoint
    assert evidence.split is not None
    is_ended = splits.understood["series"].endswith("; 12 rows from 2024-01-13 on are left out")
    assert is_ended is (len(split.get("borders", [])) == 3)
    assert evidence.split["times"]["test"][1] == ("2024-01-12 23:00" if is_ended else "2024-01-13 11:00")


def test_borders_that_leave_no_window_between_them_are_refused(write: WriteTable, tmp_path: Path) -> None:
    write(hourly())
    with pytest.raises(DataError, match="test has 3 of 300 rows and no window"):
        build_data(config_of(split={"borders": ["2024-01-08", "2024-01-13 09:00"]}), tmp_path)


def test_windows_of_groups_do_not_mix_and_share_the_borders(write: WriteTable, tmp_path: Path) -> None:
    rows = [(hour, f"shop {shop}", 1000 * shop + hour, hour) for hour in range(ROWS) for shop in range(3)]
    write(rows, "date,shop,wind,load")
    splits = build_data(config_of({"group": "shop"}), tmp_path)
    for name in ("train", "validation", "test"):
        inputs = splits.samples[name].raw.tensors[0]
        assert inputs.shape[2] == 2
        shops = (inputs[:, :, 0] // 1000).numpy()
        assert (shops == shops[:, :1]).all()
        assert set(shops[:, 0]) == {0, 1, 2}
    counts = {name: len(part) for name, part in splits.samples.items()}
    write([(hour, 0, hour) for hour in range(ROWS)])
    alone = build_data(config_of(), tmp_path)
    assert counts == {name: 3 * len(part) for name, part in alone.samples.items()}


def test_a_step_leaves_windows_out_and_further_targets_are_outputs_beside_the_target(
    write: WriteTable, tmp_path: Path
) -> None:
    write(hourly())
    splits = build_data(config_of({"step": HORIZON, "further_targets": ["wind"]}), tmp_path)
    inputs, targets = splits.samples["train"].raw.tensors
    assert set(np.diff(inputs[:, 0, 0].numpy())) == {HORIZON}
    ahead = inputs[:, -1:, 0].numpy() + np.arange(1, HORIZON + 1)
    outputs = targets.reshape(-1, HORIZON, 2).numpy()
    assert (outputs == np.stack([ahead + 1000, ahead], axis=2)).all()


def test_scaling_is_measured_on_the_rows_of_the_train_split_alone(write: WriteTable, tmp_path: Path) -> None:
    write(hourly())
    splits = build_data(config_of(), tmp_path)
    last = int(hours_of(splits, "train")[1].max())
    assert splits.preprocessing is not None
    assert splits.preprocessing.record()["mean"] == [last / 2, 1000 + last / 2]
    prepared = splits.samples["validation"].gather([0])[0]
    seen = hours_of(splits, "validation")[0][0]
    assert np.allclose(prepared[0, :, 0], (seen - last / 2) / np.arange(last + 1).std(), atol=1e-6)


def test_holes_categories_and_the_calendar_of_windows_are_prepared_as_those_of_rows(
    write: WriteTable, tmp_path: Path
) -> None:
    rows = [(hour, "" if hour % 5 == 0 else hour, ("low", "high")[hour % 2], hour) for hour in range(ROWS)]
    write(rows, "date,wind,tide,load")
    splits = build_data(config_of(features=["date", "wind", "tide", "load"]), tmp_path)
    assert splits.preprocessing is not None
    windows, _ = splits.samples["validation"].gather([0, 1, 2])
    raw = splits.samples["validation"].raw.gather([0, 1, 2])[0]
    assert windows.shape == (3, WINDOW, 7 + 2 + 2 + 1)  # of the date: day, and month, weekday and hour on circles
    assert (windows == splits.preprocessing(raw)).all()  # as the exported program prepares them
    assert (windows.reshape(-1, 12) == splits.preprocessing(raw.reshape(-1, raw.shape[2]))).all()


@pytest.mark.parametrize("grown", ["a new group", "a filled gap"])
def test_rows_are_known_again_whatever_series_there_are_beside_them(
    write: WriteTable, tmp_path: Path, grown: str
) -> None:
    rows = [(hour, shop, hour, hour) for hour in range(ROWS) for shop in ("b", "c") if (hour, shop) != (60, "b")]
    held = []
    for more in (
        [],
        [(hour, "a", hour, hour) for hour in range(ROWS)] if grown == "a new group" else [(60, "b", 1, 1)],
    ):
        write([*rows, *more], "date,shop,wind,load")
        found = rows_of(build_data(config_of({"group": "shop", "gaps": "part"}), tmp_path))[0]
        assert found is not None
        held.append(set().union(*found.values()))
    assert held[0] < held[1]


def test_rows_that_are_forecast_decide_how_many_of_them_are_recorded(
    write: WriteTable, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(recording, "MAX_ROWS", 60)
    write(hourly())
    assert rows_of(build_data(config_of({"horizon": 20, "step": 20}), tmp_path))[1] > 0


@pytest.mark.parametrize(
    ("hours", "message", "remedy"),
    [
        ([*range(50), 51, *range(53, 99)], r"2 rows are missing .* one every hour: first between '2024-01-03 01:00' "
         r"\(load.csv line 51\) and '2024-01-03 03:00' \(load.csv line 52\) \(2 gaps\)", 'gaps": "part"'),
        ([*range(50), 49, *range(50, 99)], r"1 rows have the time of another, first '2024-01-03 01:00' "
         r"\(load.csv line 51\) and '2024-01-03 01:00' \(load.csv line 52\)", "data.args.series.group"),
        ([*range(50), 50.5, *range(52, 99)], "Most rows are one hour apart .* no whole number of these", "resample"),
        (range(14), "the longest series has 14 rows, and a window with its horizon takes 12 \\+ 4", "Give more rows"),
    ],
)  # fmt: skip
def test_uneven_steps_are_refused_with_their_rows_and_a_way_on(
    write: WriteTable, tmp_path: Path, hours: Hours, message: str, remedy: str
) -> None:
    write([(hour, hour, hour) for hour in hours])
    with pytest.raises(DataError, match=message) as caught:
        build_data(config_of(), tmp_path)
    assert remedy in caught.value.remedy


def test_no_window_has_a_gap_in_it_where_gaps_part_the_series(write: WriteTable, tmp_path: Path) -> None:
    write([row for row in hourly() if row[0] not in {60, 61, 200}])
    splits = build_data(config_of({"gaps": "part"}), tmp_path)
    for name in splits.samples:
        hours = np.concatenate(hours_of(splits, name), axis=1)
        assert (np.diff(hours, axis=1) == 1).all()


MONTHS = [f"{2000 + month // 12}-{month % 12 + 1:02}-01" for month in range(120)]
JITTERED = [
    f"{BEGIN + timedelta(seconds=60 * place + late):%Y-%m-%d %H:%M:%S.%f}"
    for place, late in enumerate(np.random.default_rng(0).uniform(0, 20, ROWS))
]
FRAMES = [f"{BEGIN + timedelta(milliseconds=round(place / 0.03)):%Y-%m-%d %H:%M:%S.%f}"[:-3] for place in range(ROWS)]


def every_of(times: list[Any], folder: Path, split: dict[str, Any] | None = None) -> str:
    """Return how far apart rows of these times are taken to be."""
    lines = [f"{time},{place},{place % 12}" for place, time in enumerate(times)]
    (folder / "load.csv").write_text("\n".join(["date,wind,load", *lines]) + "\n")
    return str(series_in(build_data(config_of(split=split), folder)).every)


@pytest.mark.parametrize(
    ("times", "every"),
    [
        (MONTHS, "month"),
        (FRAMES, "0.03333 seconds"),
        ([place * 100 // 3 for place in range(ROWS)], "33.33"),
        ([place / 1e8 for place in range(ROWS)], "1e-08"),
        ([f"{BEGIN + timedelta(milliseconds=place):%Y-%m-%d %H:%M:%S.%f}" for place in range(ROWS)], "0.001 seconds"),
        (range(ROWS), "1"),
    ],
)
def test_steps_are_even_whatever_calendar_and_rounding_do_to_them(tmp_path: Path, times: list[Any], every: str) -> None:
    assert every_of(times, tmp_path) == every


@pytest.mark.parametrize(
    ("times", "message"),
    [
        (MONTHS[:40] + MONTHS[41:], "1 rows are missing in 'date', which has one every month"),
        ([*MONTHS, "2004-05-01 12:00"], "Most rows are one month apart .* first '2004-05-01' .* '2004-05-01 12:00'"),
        (FRAMES[:90] + FRAMES[190:], "100 rows are missing in 'date', which has one every 0.0333. seconds"),
        ([*range(0, 3000, 10), 2993], "Most rows are one 10 apart in 'date', and 1 are no whole number of these"),
        ([5 * place + (place % 3 == 0) for place in range(ROWS)], "Few rows are one . apart"),
        (JITTERED, "Few rows are one .* apart"),
        (JITTERED[:90] + [f"2025{time[4:]}" for time in JITTERED[90:]], "Few rows are one .* apart"),
        (np.random.default_rng(0).exponential(size=ROWS).cumsum().tolist(), "Few rows are one .* apart"),
    ],
)
def test_what_is_not_even_for_all_that_is_refused(tmp_path: Path, times: list[Any], message: str) -> None:
    with pytest.raises(DataError, match=message):
        every_of(times, tmp_path)


@pytest.mark.parametrize(
    ("times", "borders", "remedy"),
    [
        (MONTHS, ["2007", "2009"], "2026-11-23"),
        (MONTHS, ["03/04/2007", "03/04/2009"], "2026-11-23"),
        ([f"{BEGIN + timedelta(days=place):%d/%m/%Y}" for place in range(ROWS)], ["03/04/2024", 9], "2026-11-23"),
        (range(ROWS), ["2024-01-08", "2024-01-11"], "Write them as numbers"),
    ],
)
def test_borders_of_another_kind_than_the_column_are_refused_with_what_would_fit(
    tmp_path: Path, times: list[Any], borders: list[Any], remedy: str
) -> None:
    with pytest.raises(DataError, match="data.split.borders are .* has (dates|numbers), such as") as caught:
        every_of(times, tmp_path, {"borders": borders})
    assert remedy in caught.value.remedy


def test_windows_without_a_split_by_time_are_refused_with_the_change() -> None:
    with pytest.raises(ConfigurationError, match="needs the column of its times") as caught:
        config_of(split={"by": "random", "time": None})
    assert caught.value.details["changes"] == {"data.split": {"by": "time", "time": "COLUMN"}}


def test_an_argument_of_the_users_own_source_may_be_named_series() -> None:
    values = values_of()
    values["data"] = {"use": "own.py:load", "args": {"series": ["AAPL"]}}
    assert parse_config(values).data is not None


def test_overlapping_or_equal_windows_are_no_copies(write: WriteTable, tmp_path: Path) -> None:
    write([(hour, 0, max(hour % 24 - 12, 0)) for hour in range(ROWS)])  # flat each morning, as the sun's power is
    splits = build_data(config_of(), tmp_path)
    evidence = data_evidence(splits, tmp_path)
    assert evidence.disjoint
    assert not evidence.shared_samples
    assert not evidence.alike_samples
    found = looked_at_evidence(splits, 1)
    assert not found.near_rows
    assert "overlap by nature" in str(found.not_compared)
    assert found.splits["validation"].constant["mae"] > 0
    held = rows_of(splits)[0]
    assert held is not None
    assert not set(held["train"]) & set(held["test"])


def test_withheld_rows_are_overwritten_and_no_others(write: WriteTable, tmp_path: Path) -> None:
    write(hourly())
    splits = build_data(config_of(), tmp_path)
    before = [tensor.clone() for tensor in splits.samples["validation"].gather(slice(None))]
    begin = int(hours_of(splits, "test")[1].min())
    withhold_test(splits, is_built_in=True)
    series = series_in(splits)
    assert not series.inputs[begin:].any()
    assert not series.targets[begin:].any()
    assert series.targets[:begin].all()
    after = splits.samples["validation"].gather(slice(None))
    assert all((one == other).all() for one, other in zip(before, after, strict=True))


def test_naive_forecasts_score_what_numpy_says_of_seasons_and_last_values(write: WriteTable, tmp_path: Path) -> None:
    draw = np.random.default_rng(0)
    load = 100 + 10 * np.sin(2 * np.pi * np.arange(1000) / 24) + draw.normal(0, 1, 1000)
    write([(hour, 0, f"{load[hour]:.6f}") for hour in range(1000)])
    config = config_of({"horizon": 30})
    splits = build_data(config, tmp_path)
    seasonal, last = naive_of(splits, config)
    assert seasonal.told == "the value 24 rows before (a day)"
    load = load.round(6).astype(np.float32)
    ends = np.asarray(splits.samples["validation"].rows) + WINDOW
    truth = np.stack([load[end : end + 30] for end in ends])
    season = np.stack([np.concatenate([load[end - 24 : end], load[end - 24 : end - 18]]) for end in ends])
    assert seasonal.metrics["mae"] == pytest.approx(np.abs(season - truth).mean(), rel=1e-6)
    shares = np.abs(load[ends - 1][:, None] - truth) / np.abs(truth)
    assert last.metrics["mape"] == pytest.approx(shares.mean(), rel=1e-6)
    assert seasonal.metrics["rmse"] == pytest.approx(metrics.compute("rmse", season, truth), rel=1e-6)
    sparse = config_of({"horizon": 30, "step": 101})
    few, _ = naive_of(build_data(sparse, tmp_path), sparse)
    assert "24 rows before" in few.told, "found on the rows between the windows too"
    given = config_of({"horizon": 30, "period": 12})
    again, _ = naive_of(build_data(given, tmp_path), given)
    assert again.told == "the value 12 rows before (as configured)"
    assert again.metrics["mae"] > seasonal.metrics["mae"]


def naive_of(splits: Splits, config: TrainingConfig) -> list[Rival]:
    return (rivals_evidence(splits, config) or Rivals()).rivals


def test_a_halted_run_over_windows_is_resumed_bit_by_bit(
    write: WriteTable, assert_halted_ends_the_same: Callable[..., Any]
) -> None:
    write(hourly())
    assert_halted_ends_the_same(values_of({"gaps": "part"}), 17)


@pytest.mark.slow
def test_a_baseline_exports_windows_and_says_what_naive_forecasts_score(
    write: WriteTable, tmp_path: Path, make_run: Any, work: Any
) -> None:
    write([(hour, 0, (hour % 12) ** 2) for hour in range(ROWS)])
    run = make_run(tmp_path / "run", values_of(), kind="baseline", code_root=str(tmp_path))
    assert work(run) == 0, run.log.read_text()
    naive = run.part(Rivals)
    assert naive.rivals[0].metrics["mae"] == 0.0
    assert validation_text(run, "mae", 5.0) == (
        f"mae on the same {naive.validation_rows} validation rows: the model 5, whose epoch was chosen by them; "
        "the value 24 rows before (a day) 0."
    )
    assert run.part(Program).problem is None
    assert run.part(Data).understood["series"].startswith("300 rows, every hour; windows of 12 rows of 2 inputs -> 4")
