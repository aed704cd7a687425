"""Intervals over rows that are drawn anew: none where the rows say nothing of others."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from trainwright.trainer.clean_room import metrics
from trainwright.trainer.clean_room.comparison import report_interval
from trainwright.trainer.clean_room.intervals import MIN_ALIKE, MIN_UNITS, QUICK_VALUES, Resampling, bootstrap

pytestmark = pytest.mark.requirement("GATE-6")


def interval(name: str, outputs: Any, targets: Any) -> tuple[float, float] | None:
    return bootstrap(lambda at: metrics.compute(name, outputs[at], targets[at]), len(targets), Resampling(len(targets)))


def test_two_rows_on_which_a_model_is_better_do_not_tell_it_from_a_rival() -> None:
    nearer = np.array([0.1, 0.2, 0.1, 0.3, 0.2])
    for rows in (2, MIN_UNITS - 1):  # of two rows that chance orders, half are on one side
        assert bootstrap(lambda at: float(-nearer[at].mean()), rows, Resampling(rows)) is None
    assert bootstrap(lambda at: float(-nearer[at].mean()), MIN_UNITS, Resampling(MIN_UNITS)) is not None


@pytest.mark.parametrize("name", ["auc", "f1", "balanced_accuracy"])
def test_all_right_on_few_rows_is_no_certainty(name: str) -> None:
    targets = np.arange(60) % 2
    outputs = np.stack([1.0 - targets, 1.0 * targets], 1)
    assert interval(name, outputs[: MIN_ALIKE - 1], targets[: MIN_ALIKE - 1]) is None
    assert interval(name, outputs, targets) == (1.0, 1.0)


def test_an_area_over_one_row_of_a_class_has_no_interval() -> None:
    scores = np.random.default_rng(0).normal(size=200)
    one, three = (np.arange(200) < count for count in (1, 3))
    assert interval("auc", scores, one.astype(int)) is None
    assert interval("auc", scores, three.astype(int)) is not None


def test_a_number_of_which_the_rows_say_nothing_is_named_and_one_that_is_much_work_is_not() -> None:
    answer: dict[str, Any] = {"intervals": {}}
    report_interval("f1", None, 8, Resampling(8), answer)
    report_interval("iou", None, QUICK_VALUES, Resampling(8), answer)
    report_interval("mae", (0.1, 0.2), 8, Resampling(8), answer)
    assert answer == {"intervals": {"mae": [0.1, 0.2]}, "open": ["f1"]}
