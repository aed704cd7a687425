"""A metric of the user's on outputs and targets that the clean room has left, with intervals over what is drawn."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from trainwright.trainer.jobs.own_metric import answered

pytestmark = pytest.mark.requirement("GATE-6")

METRIC = """\
def apart(outputs, targets):
    return (outputs - targets).abs().mean()


def two(outputs, targets):
    return {"apart": apart(outputs, targets), "square": ((outputs - targets) ** 2).mean()}


def whole(outputs, targets):
    assert len(outputs.unique()) == 8, "of all times alone"
    return apart(outputs, targets)
"""


@pytest.fixture
def order(tmp_path: Path) -> dict[str, Any]:
    """Rows of 8 times, whose error is their time's."""
    (tmp_path / "metric.py").write_text(METRIC)
    times = np.repeat(np.arange(8), 50)
    errors = np.abs(np.random.default_rng(0).normal(size=8))[times]
    np.save(tmp_path / "outputs.npy", errors.astype(np.float32))
    np.save(tmp_path / "targets.npy", np.zeros(400, dtype=np.float32))
    np.save(tmp_path / "groups.npy", times)
    return {
        "name": "apart", "args": {}, "splits": {"test": str(tmp_path)}, "file": str(tmp_path / "metric.py"),
        "root": str(tmp_path), "callable": "apart",
    }  # fmt: skip


def width(found: dict[str, Any], name: str = "apart") -> float:
    low, high = found["intervals"]["test"][name]
    return float(high - low)


def test_its_interval_is_over_the_groups_that_rows_are_of(order: dict[str, Any], tmp_path: Path) -> None:
    of_times = width(answered(order))
    (tmp_path / "groups.npy").unlink()
    assert of_times > 3 * width(answered(order))


def test_each_of_several_numbers_has_an_interval_and_so_has_its_difference_from_a_rivals(
    order: dict[str, Any], tmp_path: Path
) -> None:
    np.save(tmp_path / "rival_0.npy", np.zeros(400, dtype=np.float32))
    found = answered(order | {"callable": "two"})
    assert found["intervals"]["test"].keys() == {"apart", "square"} == found["values"]["test"].keys()
    beside = found["rivals"]["test"]["rival_0.npy"]
    assert beside["values"] == {"apart": 0.0, "square": 0.0}
    assert beside["intervals"]["square"] == found["intervals"]["test"]["square"], "of differences from a perfect one"


def test_a_function_of_all_rows_alone_keeps_its_figures_without_intervals(order: dict[str, Any]) -> None:
    found = answered(order | {"callable": "whole"})  # a resample of groups may have any number of rows
    assert found["values"]["test"].keys() == {"apart"}
    assert found["intervals"] == {"test": {}}


def test_what_rivals_take_too_counts_before_an_interval_is_begun(order: dict[str, Any], tmp_path: Path) -> None:
    slow = "import time\n\n\ndef slow(outputs, targets):\n    time.sleep(0.07)\n    return 1.0\n"  # 14 s an interval
    (tmp_path / "slow.py").write_text(slow)
    for number in range(3):
        np.save(tmp_path / f"rival_{number}.npy", np.zeros(400, dtype=np.float32))
    found = answered(order | {"callable": "slow", "file": str(tmp_path / "slow.py")})
    assert found["intervals"] == {"test": {}}
    assert len(found["rivals"]["test"]) == 3
