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
