"""The rate that is configured, beside the curve that a probe swept: named where it lies far off, silent elsewhere."""

from __future__ import annotations

from typing import Any

import pytest

from trainwright.tools.training_monitor import diagnose
from trainwright.trainer.run import RunKind
from trainwright.trainer.run.results import Probe, RateTest


def found(make_run: Any, rate: float, **curve: Any) -> dict[str, Any]:
    recorder = make_run(kind=RunKind.PROBE, optimizer={"name": "adamw", "learning_rate": rate})
    recorder.run.write_evidence(Probe(learning_rate=RateTest(steps=100, **curve)))
    return {alert.id: alert for alert in diagnose(recorder.run)}


@pytest.mark.requirement("DIAG-7")
@pytest.mark.parametrize("rate", [1e-5, 0.5], ids=["too low", "too high"])
def test_a_rate_far_from_the_curve_is_named_with_the_rate_that_the_curve_suggests(make_run: Any, rate: float) -> None:
    alert = found(make_run, rate, suggested=0.01, at_minimum=0.1)["learning_rate_off_curve"]
    assert alert.fixes[0].changes == {"optimizer.learning_rate": pytest.approx(0.01)}


@pytest.mark.requirement("DIAG-7")
@pytest.mark.parametrize("rate", [3e-4, 0.05])
def test_a_rate_within_the_range_is_left_alone(make_run: Any, rate: float) -> None:
    assert "learning_rate_off_curve" not in found(make_run, rate, suggested=0.01, at_minimum=0.1)


@pytest.mark.requirement("DIAG-7")
def test_a_sweep_that_found_nothing_says_nothing_of_the_rate(make_run: Any) -> None:
    assert "learning_rate_off_curve" not in found(make_run, 5.0, suggested=None, at_minimum=None)
