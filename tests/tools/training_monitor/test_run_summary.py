"""A run at a glance: verdict, curves in numbers, and what could not be judged and why."""

from __future__ import annotations

import math

import numpy as np
import pytest

from trainwright.tools.training_monitor import Goal
from trainwright.tools.training_monitor.curve_summary import curve_summaries, fitted_line, spikes
from trainwright.tools.training_monitor.record import RunRecord
from trainwright.tools.training_monitor.report import glance
from trainwright.trainer.run import Failure, RunState

GOAL = Goal(metric="accuracy", direction="maximize", target=0.95)


def summary(recorder, curve):
    return next(one for one in curve_summaries(RunRecord(recorder.run), GOAL) if one.curve == curve)


@pytest.mark.requirement("PHASE-4")
def test_slope_its_error_and_the_noise_are_those_of_least_squares():
    generator = np.random.default_rng(0)
    places, noise = np.arange(20.0), generator.normal(size=20)
    values = 3.0 - 0.25 * places + 0.1 * noise
    line = fitted_line(list(places), list(values))
    (slope, intercept), covariance = np.polyfit(places, values, 1, cov=True)
    residuals = values - slope * places - intercept
    assert line.slope == pytest.approx(slope)
    assert line.error == pytest.approx(math.sqrt(covariance[0, 0]))
    assert line.noise == pytest.approx(math.sqrt(float(residuals @ residuals) / 18))


@pytest.mark.requirement("PHASE-4")
@pytest.mark.parametrize(
    ("values", "trend"),
    [
        ([1.0 - 0.05 * e for e in range(10)], "better"),
        ([0.5 + 0.05 * e for e in range(10)], "worse"),
        ([0.5 + 0.001 * (e % 2) for e in range(10)], "flat"),
        ([0.5 + 0.3 * (e % 2) for e in range(10)], "noisy"),
        ([0.5, 0.4], None),
    ],
)
def test_a_curve_has_the_trend_that_its_last_points_show_above_their_noise(make_run, values, trend):
    assert summary(make_run().epochs(validation_loss=values), "validation/loss").trend == trend


@pytest.mark.requirement("PHASE-4")
@pytest.mark.parametrize("end", [23.1, math.nan])
def test_a_loss_far_above_its_start_or_not_finite_diverges_however_noisy(make_run, end):
    recorder = make_run().steps("train/loss", [2.3, 900.0, 3.0, 1e6, 5.0, 2e3] * 10 + [end])
    assert summary(recorder, "train/loss").trend == "diverging"


def test_of_a_score_more_is_better_and_the_best_epoch_is_its_highest(make_run):
    recorder = make_run().epochs(validation_accuracy=[0.5, 0.6, 0.9, 0.8, 0.7, 0.6]).ended(step=60)
    found = summary(recorder, "validation/accuracy")
    assert (found.best, found.best_epoch, found.steps_since_best, found.last) == (0.9, 3, 30, 0.6)


def test_before_an_epoch_has_ended_the_curve_of_steps_counts(make_run):
    recorder = make_run().steps("train/loss", [1.0 - 0.01 * step for step in range(40)]).ended(RunState.RUNNING)
    assert summary(recorder, "train/loss").slope == pytest.approx(-0.01)


def test_a_spike_is_a_point_far_above_both_sides_and_neither_a_fall_nor_a_step():
    falling = [1.0 / (1 + place) for place in range(40)]
    assert spikes(falling, -1) == 0
    assert spikes([0.1] * 20 + [1.0] * 20, -1) == 0
    assert spikes([*falling[:20], 5.0, *falling[20:]], -1) == 1
    assert spikes([0.9] * 20 + [0.1] + [0.9] * 20, 1) == 1


@pytest.mark.requirement("DIAG-8", "PHASE-4")
def test_the_verdict_follows_the_gravest_alert_and_the_run_s_end(healthy, make_run):
    assert glance(healthy().run, GOAL).verdict == "healthy"
    stalled = make_run().epochs(validation_accuracy=[0.9] + [0.8] * 12)
    assert glance(stalled.run, GOAL).verdict == "attention"
    failure = Failure(category="divergence", message="Loss is NaN.", remedy="…", details={"step": 2})
    diverged = make_run("two").steps("train/loss", [1.0, math.nan]).ended(RunState.FAILED, failure=failure)
    assert glance(diverged.run, GOAL).verdict == "stop"
    assert glance(diverged.run, GOAL, accepted={"nan_loss"}).verdict == "stop", "it failed all the same"


@pytest.mark.requirement("DIAG-8", "PHASE-4")
def test_what_could_not_be_judged_is_named_with_its_reason(make_run):
    text = " ".join(glance(make_run().steps("train/loss", [1.0] * 3).run, GOAL).unjudged)
    assert "overfitting, too_short: no epoch was validated." in text
    assert "resource_inefficiency: no GPU was used." in text
    assert "no gradient norm was recorded" in text
    assert "underfitting, unscaled_targets: needs 5 epochs, 0 so far." in text
    early = make_run("early").epochs(train_loss=[1.0, 0.9], validation_loss=[1.0, 0.9]).ended(RunState.RUNNING)
    assert "overfitting: needs 3 epochs, 2 so far." in glance(early.run, GOAL).unjudged
    assert any(line.startswith("accuracy: not recorded;") for line in glance(early.run, GOAL).unjudged)


def test_without_any_record_each_document_that_needs_one_is_named(make_run):
    text = " ".join(glance(make_run().run, GOAL).unjudged)
    needs_one = {
        "overfitting", "exploding_gradients", "vanishing_gradients", "resource_inefficiency", "convergence_stall",
        "underfitting", "too_short", "loss_spike", "slow_data_loading", "data_leak", "label_noise",
    }  # fmt: skip
    assert {name for name in needs_one if name not in text} == set()
