"""Errors of forecasts by those of the value one season before on the train rows: worker and clean room, by hand."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from trainwright.trainer.assembly.build import build_data
from trainwright.trainer.assembly.raw_splits import build_raw_splits
from trainwright.trainer.base.errors import ConfigurationError
from trainwright.trainer.clean_room.comparison import Comparison
from trainwright.trainer.clean_room.evaluation import comparisons
from trainwright.trainer.clean_room.intervals import Resampling
from trainwright.trainer.config import parse_config
from trainwright.trainer.evidence.fixed_rows import write_fixed_rows
from trainwright.trainer.evidence.rivals import rivals_evidence
from trainwright.trainer.metrics import built_in_metric, evaluate
from trainwright.trainer.metrics.evaluate import evaluate_sums, fold
from trainwright.trainer.run import RunKind

pytestmark = pytest.mark.requirement("GATE-6")
ROWS, WINDOW, HORIZON, PERIOD = 300, 6, 3, 5
BORDERS = ["2024-01-08", "2024-01-11"]
TRAINED = 7 * 24
"""Hours before the first border."""
DRAWS = np.random.default_rng(0)
LOADS = {shop: DRAWS.normal(size=(ROWS, 2)).cumsum(axis=0).round(4) for shop in ("north", "south")}
"""Two targets of each shop, (hours, 2): of two scales, and the second has rows in another order of the file."""
LOADS["south"] *= 8.0


TASK = {"loss": "mse", "outputs": 3}


def panel(folder: Path) -> None:
    """Write load.csv: each hour of each shop."""
    begin = datetime(2024, 1, 1, tzinfo=UTC)
    lines = [
        f"{begin + timedelta(hours=hour):%Y-%m-%d %H:%M},{shop},{hour % 24},{load:.4f},{price:.4f}"
        for hour in range(ROWS)
        for shop in sorted(LOADS, reverse=hour % 2 == 0)
        for load, price in [LOADS[shop][hour]]
    ]
    folder.mkdir(exist_ok=True)
    (folder / "load.csv").write_text("\n".join(["date,shop,hour,load,price", *lines]) + "\n")


def values_of(**series: Any) -> dict[str, Any]:
    window = {"window": WINDOW, "horizon": HORIZON, "group": "shop", "further_targets": ["price"], "period": PERIOD}
    return {
        "model": {"use": "dlinear", "args": {"moving_average": 3}},
        "data": {
            "use": "csv",
            "args": {"path": "load.csv", "target": "load", "series": {**window, **series}},
            "split": {"by": "time", "time": "date", "borders": BORDERS},
        },
        "loss": "mse", "metrics": ["mase", "mae"], "selection": {"metric": "mase", "direction": "minimize"},
        "training": {"epochs": 1}, "logging": {"tensorboard": False},
    }  # fmt: skip


def naive_by_hand(period: int = PERIOD) -> list[float]:
    """Hyndman and Koehler's denominator of each target, in plain numbers: over the train hours of both shops."""
    found = []
    for target in range(2):
        apart = [
            abs(float(load[hour][target]) - float(load[hour - period][target]))
            for load in LOADS.values()
            for hour in range(period, TRAINED)
        ]
        found.append(sum(apart) / len(apart))
    return found


def mase_by_hand(outputs: Any, targets: Any, scales: list[float]) -> float:
    """Return the mean over targets of the mean absolute error by its scale; both are (windows, horizon * targets)."""
    of_targets = []
    for target, scale in enumerate(scales):
        pairs = [(one[place], two[place]) for one, two in zip(outputs.tolist(), targets.tolist(), strict=True)
                 for place in range(target, len(one), len(scales))]  # fmt: skip
        of_targets.append(sum(abs(guess - true) for guess, true in pairs) / len(pairs) / scale)
    return sum(of_targets) / len(of_targets)


def test_worker_and_rival_and_clean_room_give_the_formula_by_the_scale_that_planning_fixed(
    prepared: Any, open_session: Any, tmp_path: Path
) -> None:
    panel(tmp_path / "project")
    run = prepared("", values_of(), kind=RunKind.SMOKE)
    record = write_fixed_rows(run, run.specification(), build_raw_splits(run.specification()), 0)
    assert record.naive_errors == pytest.approx(naive_by_hand(), rel=1e-6)
    panel(tmp_path)
    session = open_session(values_of())
    targets = session.work.splits.samples["validation"].raw.tensors[1]
    outputs = targets + torch.randn(targets.shape, generator=torch.Generator().manual_seed(0))
    wanted = mase_by_hand(outputs.double(), targets.double(), naive_by_hand())
    assert evaluate(session.work.metrics, outputs, targets)["mase"] == pytest.approx(wanted, rel=1e-6)
    order = {"metrics": ["mase"], "loss": None, "task": "regression"}
    (compared,) = comparisons(order, record.as_dict())
    compared.add({"output": outputs.numpy()}, targets.numpy())
    assert reported(compared)["metrics"]["mase"] == pytest.approx(wanted, rel=1e-6)
    naive = rivals_evidence(session.work.splits, session.config)
    assert naive is not None
    seasonal = naive.rivals[0].metrics
    assert seasonal["mase"] == pytest.approx(mase_by_hand(*season_before(targets), naive_by_hand()), rel=1e-5)


def season_before(targets: Any) -> tuple[Any, Any]:
    """Return what lies one season before each validation window's horizon, and the horizon, by hand."""
    begins = range(TRAINED, TRAINED + 72 - HORIZON + 1)
    guesses = [LOADS[shop][hour - PERIOD : hour - PERIOD + HORIZON].reshape(-1) for shop in LOADS for hour in begins]
    truths = [LOADS[shop][hour : hour + HORIZON].reshape(-1) for shop in LOADS for hour in begins]
    assert len(truths) == len(targets)
    return np.array(guesses), np.array(truths)


def reported(compared: Comparison) -> dict[str, Any]:
    answer: dict[str, Any] = {"metrics": {}, "intervals": {}, "not_computed": {}, "readings": {}}
    compared.report(answer, Resampling(sum(map(len, compared.targets))))
    return answer


def test_without_a_scale_from_planning_nothing_is_certified() -> None:
    compared = Comparison("", ["mase", "mae"], None)
    compared.add({"output": np.ones((4, 2))}, np.zeros((4, 2)))
    answer = reported(compared)
    assert answer["metrics"] == {"mae": 1.0}
    assert "planning fixed no error of the value one season before" in answer["not_computed"]["mase"]


def test_it_is_the_same_however_a_split_is_cut_and_of_no_other_count_of_numbers() -> None:
    metrics = [built_in_metric("mase").scaled((0.5, 4.0))]
    outputs, targets = torch.randn(2, 50, 6).double()
    sums = None
    for part in (slice(0, 7), slice(7, 50)):
        sums = fold(metrics, outputs[part], targets[part], task="regression", before=sums)
    assert sums is not None
    assert evaluate_sums(metrics, sums) == pytest.approx(evaluate(metrics, outputs, targets), rel=1e-12)
    with pytest.raises(ConfigurationError, match="5 numbers a row are no horizon of 2 targets"):
        evaluate(metrics, outputs[:, :5], targets[:, :5])


def test_of_a_series_without_a_season_it_is_of_the_last_value(tmp_path: Path) -> None:
    panel(tmp_path)
    for longer in (1, 5000):
        splits = build_data(parse_config(values_of(period=longer)), tmp_path)
        assert splits.naive_errors == pytest.approx(naive_by_hand(1), rel=1e-6), longer


@pytest.mark.parametrize(
    ("data", "objective"),
    [
        ({"use": "diabetes"}, None),
        ({"use": "own.py:load", "args": {"series": {"window": 3}}}, None),
        (values_of()["data"], {"name": "multi_task", "tasks": {"a": TASK | {"metrics": ["mase", "r2"]}, "b": TASK}}),
    ],
)
def test_what_is_no_series_is_refused_at_once_with_mae_in_its_place(data: Any, objective: Any) -> None:
    key = "metrics" if objective is None else "objective.tasks.a.metrics"
    values = {**values_of(), "data": data, "metrics": ["mase", "r2"] if objective is None else []}
    with pytest.raises(ConfigurationError, match=f"metric mase divides by .* `{key}` is of no windows") as caught:
        parse_config(values | ({} if objective is None else {"objective": objective, "selection": {}}))
    assert caught.value.details["changes"] == {key: ["mae", "r2"]}


def test_a_target_that_repeats_itself_exactly_is_refused_with_its_reason(open_session: Any, tmp_path: Path) -> None:
    panel(tmp_path)
    table = (tmp_path / "load.csv").read_text().splitlines()
    exact = [f"{line.rpartition(',')[0]},{place // 2 % PERIOD}" for place, line in enumerate(table[1:])]
    (tmp_path / "load.csv").write_text("\n".join([table[0], *exact]) + "\n")
    with pytest.raises(ConfigurationError, match=r"and that is 0 for target 2\.") as caught:
        open_session(values_of())
    assert caught.value.remedy == "Use mae."
