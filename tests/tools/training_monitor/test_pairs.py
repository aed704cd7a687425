"""A pair of short runs says whether a fix cured its alert, with the figures beside each other."""

from __future__ import annotations

import math

import pytest

from trainwright.tools.training_monitor.pairs import Pair
from trainwright.trainer.run import Failure, Goal, RunState

FIX = {"id": "lower_learning_rate", "text": "Divide it.", "changes": {"optimizer.learning_rate": 0.001}}
SCALE = {"id": "scale_targets", "text": "Scale them.", "changes": {"target_scaling": "standardize"}}
FALLING = [1.0 - 0.01 * step for step in range(60)]


@pytest.fixture
def exploding(make_run):
    """A run whose gradients explode and do harm."""
    recorder = make_run("control").steps("train/gradient_norm", [1e4] * 60)
    return recorder.steps("train/loss", [1.0] * 10 + [0.2] * 20 + [50.0] * 30).ended(step=60)


def calm(make_run, losses=FALLING, name="changed"):
    """A run of small gradients."""
    recorder = make_run(name).steps("train/gradient_norm", [1.0] * len(losses))
    return recorder.steps("train/loss", losses).ended(step=len(losses))


@pytest.mark.requirement("DIAG-10")
def test_a_fix_that_clears_the_alert_and_trains_cured_it(exploding, make_run):
    found = Pair(exploding.run, "exploding_gradients").outcome(calm(make_run).run, FIX)
    assert found.cured is True, found
    assert (found.before, found.after, found.curve) == (1e4, None, "train/loss")
    assert found.value_before == pytest.approx(50.0)
    assert found.value_after == pytest.approx(0.435, abs=0.02)
    assert found.new_alerts == []


@pytest.mark.requirement("DIAG-10")
def test_a_fix_with_which_the_alert_is_still_there_did_not_cure(exploding, make_run):
    still = make_run("changed").steps("train/gradient_norm", [5e3] * 60)
    still.steps("train/loss", [1.0] * 10 + [0.2] * 20 + [30.0] * 30).ended(step=60)
    found = Pair(exploding.run, "exploding_gradients").outcome(still.run, FIX)
    assert (found.cured, found.after, found.why) == (False, 5e3, "exploding_gradients is still raised")


@pytest.mark.requirement("DIAG-10")
def test_a_fix_that_raises_another_alert_as_grave_did_not_cure(exploding, make_run):
    failure = Failure(category="divergence", message="Loss is NaN.", remedy="…", details={"step": 9})
    other = make_run("changed").steps("train/loss", [1.0] * 8 + [math.nan]).ended(RunState.FAILED, failure=failure)
    found = Pair(exploding.run, "exploding_gradients").outcome(other.run, FIX)
    assert (found.cured, found.new_alerts) == (False, ["nan_loss"])


@pytest.mark.requirement("DIAG-10")
@pytest.mark.parametrize(("end", "cured"), [(0.52, True), (2.0, False)])
def test_a_loss_that_is_worse_beyond_the_noise_is_no_cure(make_run, end, cured):
    """Of a vanishing gradient: the loss with the fix must not be above the one without it."""
    control = make_run("control").steps("train/gradient_norm", [1e-6] * 40)
    control.steps("train/loss", [1.0, 0.5] * 20).ended(step=40)
    changed = calm(make_run, [1.0] * 5 + [end] * 35)
    found = Pair(control.run, "vanishing_gradients").outcome(changed.run, FIX)
    assert found.cured is cured, found
    assert cured or "train/loss is worse beyond its noise" in found.why


@pytest.mark.requirement("DIAG-10")
def test_losses_of_two_scales_are_not_compared(exploding, make_run):
    found = Pair(exploding.run, "exploding_gradients").outcome(calm(make_run).run, SCALE)
    assert (found.curve, found.value_before, found.cured) == (None, None, True)


@pytest.mark.requirement("DIAG-10")
def test_a_fix_after_which_the_loss_is_above_its_start_is_no_cure_of_a_loss_that_is_not_finite(make_run):
    failure = Failure(category="divergence", message="Loss is NaN.", remedy="…", details={"step": 9})
    control = make_run("control").steps("train/loss", [2.3] * 8 + [math.nan])
    control.ended(RunState.FAILED, failure=failure)
    changed = calm(make_run, [2.3, 300.0, *[1502.0] * 30])
    found = Pair(control.run, "nan_loss").outcome(changed.run, FIX)
    assert (found.cured, found.value_before) == (False, None)
    assert "above the 2.3 of its start" in found.why


def test_without_the_alert_in_the_short_run_nothing_can_be_said(make_run):
    pair = Pair(calm(make_run, name="control").run, "exploding_gradients")
    assert pair.shown is None
    assert pair.outcome(calm(make_run).run, FIX).cured is None


def test_a_run_that_failed_for_another_cause_says_nothing(exploding, make_run):
    failure = Failure(category="user_code", message="No such column.", remedy="…")
    broken = make_run("changed").ended(RunState.FAILED, failure=failure)
    found = Pair(exploding.run, "exploding_gradients").outcome(broken.run, FIX)
    assert (found.cured, found.why) == (None, "its run failed: No such column.")


@pytest.mark.requirement("DIAG-10")
@pytest.mark.parametrize(("end", "cured"), [(0.6, True), (0.36, False)])
def test_a_gain_far_beyond_the_noise_goes_on_though_the_alert_is_still_raised(make_run, end, cured):
    """A rate that is fifty times too small is still too small after it was tripled."""

    def slow(name, reached):
        recorder = make_run(name).steps("train/loss", [2.3] * 80).steps("train/gradient_norm", [1.0] * 80)
        noise = [0.01, -0.01] * 4
        scores = [0.1 + (reached - 0.1) * epoch / 8 + noise[epoch - 1] for epoch in range(1, 9)]
        return recorder.epochs(train_loss=[2.2] * 8, validation_loss=[2.2] * 8, validation_accuracy=scores).ended(
            step=80
        )

    goal = Goal(metric="accuracy", direction="maximize", target=0.9)
    found = Pair(slow("control", 0.35).run, "underfitting", goal).outcome(slow("changed", end).run, FIX)
    assert (found.cured, found.after is not None) == (cured, True), found
    assert ("go on in this direction" in found.why) is cured
