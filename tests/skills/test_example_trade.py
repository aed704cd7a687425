"""The trade example: nothing looks ahead, splits keep their gaps, and the back-test's arithmetic is right."""

from __future__ import annotations

import csv
from datetime import date, timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.skills.example_scripts import script

pytestmark = pytest.mark.requirement("SKILL-4")
DAYS = 700


@pytest.fixture(scope="module")
def prepare() -> Any:
    return script("trade", "prepare")


@pytest.fixture(scope="module")
def backtest() -> Any:
    return script("trade", "backtest")


@pytest.fixture(scope="module")
def prices(prepare: Any) -> Any:
    draw = np.random.default_rng(7)
    close = 100 * np.exp(np.cumsum(draw.normal(0, 0.01, DAYS)))
    days = [date(2001, 1, 1) + timedelta(day) for day in range(DAYS)]
    return prepare.Prices(days, close * 1.01, close * 0.99, close, draw.uniform(1e8, 2e8, DAYS))


def test_no_feature_looks_ahead(prepare: Any, prices: Any) -> None:
    assert prepare.look_ahead(prepare.features, prices) == []


def _tomorrow(prices: Any) -> Any:
    return np.append(np.diff(np.log(prices.close)), 0.0)


def _centred_mean(prices: Any) -> Any:
    return np.convolve(np.log(prices.close), np.ones(5) / 5, mode="same")


def _scaled_over_everything(prices: Any) -> Any:
    return (prices.close - prices.close.mean()) / prices.close.std()


def _below_the_highest_ever(prices: Any) -> Any:
    return prices.close / prices.close.max()


@pytest.mark.parametrize("planted", [_tomorrow, _centred_mean, _scaled_over_everything, _below_the_highest_ever])
def test_a_planted_look_ahead_is_named_and_nothing_is_written(
    planted: Any, prepare: Any, prices: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    honest = prepare.features
    monkeypatch.setattr(prepare, "features", lambda given: honest(given) | {"planted": planted(given)})
    assert prepare.look_ahead(prepare.features, prices) == ["planted"]
    with pytest.raises(SystemExit, match="planted"):
        prepare.write(tmp_path / "data", prices)
    assert not (tmp_path / "data").exists()


@pytest.mark.parametrize("days", [500, DAYS, 5031])
def test_splits_follow_each_other_and_no_label_reaches_the_next(days: int, prepare: Any) -> None:
    found = prepare.split_days(days)
    places = {name: [day for day, split in enumerate(found) if split == name] for name in prepare.SPLITS}
    assert min(places["train"]) >= prepare.WARM_UP
    reach = prepare.DELAY + prepare.HORIZON
    for earlier, later in zip(prepare.SPLITS, prepare.SPLITS[1:], strict=False):
        gap = min(places[later]) - max(places[earlier])
        assert max(places[earlier]) + reach < min(places[later]), "purge"
        assert gap - reach > prepare.EMBARGO, "embargo"
    assert max(places["test"]) + reach < days, "every label is known"
    assert all(len(days_of) >= 20 for days_of in places.values())


def test_a_label_compares_the_two_prices_of_the_trade(prepare: Any) -> None:
    close = np.array([9.0, 1.0, 5.0, 5.0, 5.0, 5.0, 2.0, 4.0, 5.0])
    # day 0 buys at 1 and sells at 2, day 1 buys at 5 and sells at 4, day 2 buys and sells at 5; then the end is unknown
    assert prepare.labels(close).tolist() == [1, 0, 0, -1, -1, -1, -1, -1, -1]


def test_the_data_are_the_same_each_time(prepare: Any, prices: Any, tmp_path: Path) -> None:
    written = [prepare.write(tmp_path / name, prices) for name in ("one", "two")]
    assert written[0] == written[1]
    for name in ("rows.csv", "prices.csv"):
        assert (tmp_path / "one" / name).read_bytes() == (tmp_path / "two" / name).read_bytes()
    with (tmp_path / "one" / "rows.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert not any(cell in {"", "nan"} for row in rows for cell in row.values())


def test_a_day_pays_for_what_is_moved_and_the_last_position_is_sold(backtest: Any) -> None:
    net = backtest.daily_net(np.array([0.0, 1.0, 1.0, 0.0]), np.array([0.1, 0.02, -0.01, 0.05]), cost=0.001)
    assert net.tolist() == pytest.approx([0.0, 0.019, -0.01, -0.001])
    net = backtest.daily_net(np.array([1.0, 1.0]), np.array([0.1, -0.05]), cost=0.01)
    assert net.tolist() == pytest.approx([0.09, -0.06])


def test_the_summary_is_what_one_computes_by_hand(backtest: Any) -> None:
    found = backtest.summary(np.array([0.5, -0.2, 0.25]), np.array([1.0, 1.0, 0.0]))
    assert found["growth"] == 0.5  # 1.5 x 0.8 x 1.25
    assert found["deepest_fall"] == 0.2
    assert (found["in_market"], found["trades"]) == (0.667, 2)
    net = np.array([0.01, 0.03])
    assert backtest.summary(net, np.ones(2))["sharpe"] == round(0.02 / 0.01 * 252**0.5, 3)
    assert backtest.summary(np.array([-0.5]), np.ones(1))["deepest_fall"] == 0.5, "also from the first day on"


def test_chance_tells_foresight_from_always_being_there(backtest: Any) -> None:
    returns = np.random.default_rng(1).normal(0, 0.01, 400)
    assert backtest.chance((returns > 0).astype(float), returns, 0.0005)["p_value"] == 0.0
    assert backtest.chance(np.ones(400), returns, 0.0005)["p_value"] == 1.0


@pytest.mark.long
def test_the_interval_holds_one_half_for_noise_and_not_for_knowledge(backtest: Any) -> None:
    draw = np.random.default_rng(3)
    rises = draw.integers(0, 2, 600)
    low, high = backtest.auc_interval(rises, draw.normal(size=600))
    assert low < 0.5 < high
    assert backtest.auc_interval(rises, rises + draw.normal(size=600))[0] > 0.6


def test_a_position_earns_the_day_after_its_trade(backtest: Any, prepare: Any, prices: Any, tmp_path: Path) -> None:
    prepare.write(tmp_path, prices)
    rows, returns = backtest.read_rows(tmp_path)
    first = prepare.WARM_UP
    assert rows["split"][0] == "train"
    assert returns[0] == pytest.approx(prices.close[first + 2] / prices.close[first + 1] - 1.0, abs=1e-6)
