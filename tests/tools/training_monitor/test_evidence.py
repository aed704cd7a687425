"""Evidence beyond noise: an alert needs what chance, few samples or a single epoch do not show by themselves."""

from __future__ import annotations

import math

import pytest

from trainwright.tools.training_monitor import diagnose
from trainwright.trainer.run.evidence import Data, Resolved, Split


def found(recorder):
    return {one.id: one for one in diagnose(recorder.run)}


def validated_on(recorder, size, classes=None):
    recorder.run.write_evidence(Data(splits={"validation": Split(size=size, classes=classes)}))
    return recorder


@pytest.mark.requirement("DIAG-2")
@pytest.mark.parametrize(("gap", "size", "fires"), [(0.16, 100, True), (0.16, 80, False), (0.26, 36, True)])
def test_a_gap_of_scores_counts_beyond_three_standard_errors(make_run, gap, size, fires):
    recorder = make_run().epochs(train_accuracy=[1.0] * 4, validation_accuracy=[1.0 - gap] * 4)
    assert ("overfitting" in found(validated_on(recorder, size))) is fires


@pytest.mark.requirement("DIAG-2")
@pytest.mark.parametrize(("loss", "fires"), [(1.0, False), (1.1, True)])
def test_a_rising_validation_loss_makes_two_standard_errors_enough(make_run, loss, fires):
    recorder = make_run().epochs(train_accuracy=[1.0] * 5, validation_accuracy=[0.79] * 5)
    recorder.epochs(validation_loss=[1.0, 1.0, loss, loss, loss])
    assert ("overfitting" in found(validated_on(recorder, 24))) is fires


@pytest.mark.requirement("DIAG-2")
@pytest.mark.parametrize(("rare", "fires"), [(2, False), (50, True)])
def test_where_classes_count_alike_the_rarest_says_how_sure_a_score_is(make_run, rare, fires):
    chosen = {"metrics": ["balanced_accuracy"], "selection": {"metric": "balanced_accuracy", "direction": "maximize"}}
    recorder = make_run(**chosen).epochs(train_balanced_accuracy=[0.99] * 4, validation_balanced_accuracy=[0.7] * 4)
    recorder = validated_on(recorder, 100, {"usual": 100 - rare, "rare": rare})
    assert ("overfitting" in found(recorder)) is fires


@pytest.mark.requirement("DIAG-2")
@pytest.mark.parametrize(("size", "fires"), [(90, False), (2000, True)])
def test_a_gap_of_losses_counts_beyond_what_single_losses_scatter(make_run, size, fires):
    recorder = make_run(selection={}, metrics=[]).steps("train/loss", [5.8] * 5)
    recorder.epochs(train_loss=[5.3] * 4, validation_loss=[5.8] * 4)
    assert ("overfitting" in found(validated_on(recorder, size))) is fires


@pytest.mark.requirement("DIAG-2")
@pytest.mark.parametrize(("losses", "fires"), [([2.0, 1.5, 1.2, 1.0, 1.01], False), ([2.0, 1.0, 0.99, 1.0, 1.0], True)])
def test_one_worse_epoch_does_not_end_an_improvement(make_run, losses, fires):
    recorder = make_run().steps("train/loss", [2.3] * 5)
    recorder.epochs(validation_loss=losses, train_accuracy=[1.0] * 5, validation_accuracy=[0.5, 0.6, 0.7, 0.72, 0.71])
    assert ("overfitting" in found(recorder)) is fires


@pytest.mark.requirement("DIAG-2", "DIAG-10")
def test_the_first_fix_of_overfitting_stops_at_the_best_epoch(make_run):
    recorder = make_run(early_stopping={"enabled": False}, checkpoints={"save_best": False})
    recorder.epochs(train_accuracy=[1.0] * 4, validation_accuracy=[0.7] * 4)
    fix = found(recorder)["overfitting"].fixes[0]
    assert fix.changes == {
        "early_stopping.enabled": True, "early_stopping.patience_epochs": 3, "checkpoints.save_best": True,
    }  # fmt: skip


def stepped(recorder, ratio, norms, losses, batch=32):
    recorder.run.write_evidence(Resolved(batch_size=batch))
    recorder.steps("train/loss", losses).steps("train/learning_rate", [0.1] * len(losses))
    return recorder.steps("watch/update_ratio_median", [ratio] * 3).steps("train/gradient_norm", norms)


@pytest.mark.requirement("DIAG-7")
@pytest.mark.parametrize(
    ("jump", "ratio", "batch", "fires"),
    [(40.0, 0.01, 32, False), (60.0, 0.01, 32, True), (60.0, 0.1, 32, False), (60.0, 0.01, 1, False)],
)
def test_a_gradient_that_is_wild_at_once_is_a_bad_sample(make_run, jump, ratio, batch, fires):
    norms, losses = [1.0] * 10 + [jump] + [1.0] * 10, [2.3] * 10 + [5.0] + [2.3] * 10
    assert ("bad_samples" in found(stepped(make_run(), ratio, norms, losses, batch))) is fires


@pytest.mark.requirement("DIAG-7")
def test_a_wild_gradient_that_is_clipped_does_no_harm(make_run):
    recorder = stepped(make_run(), 0.01, [1.0] * 10 + [60.0] + [1.0] * 10, [2.3] * 21)
    assert "bad_samples" not in found(recorder.steps("train/applied_gradient_norm", [1.0] * 21))


@pytest.mark.requirement("DIAG-7")
@pytest.mark.parametrize(("ratio", "norm", "fires"), [(0.003, 0.3, True), (0.3, 0.3, False), (0.003, 500.0, False)])
def test_a_second_step_that_is_not_finite_is_a_bad_sample_where_the_first_was_usual(make_run, ratio, norm, fires):
    recorder = make_run().steps("train/loss", [0.7, math.nan]).steps("train/learning_rate", [0.1, 0.1])
    recorder.steps("watch/update_ratio_median", [ratio]).steps("train/gradient_norm", [norm, math.nan])
    assert ("bad_samples" in found(recorder)) is fires


@pytest.mark.requirement("DIAG-7", "DIAG-10")
def test_a_rate_is_worked_out_from_updates_before_the_loss_ran_away(make_run):
    losses = [2.0] * 9 + [1e3] * 11
    recorder = make_run(optimizer={"learning_rate": 0.1}).steps("train/loss", losses)
    recorder.steps("train/learning_rate", [0.1] * 20).steps("train/gradient_norm", [1.0] * 20)
    recorder.steps("watch/update_ratio_median", [0.1, 0.2, 0.4]).steps("watch/update_ratio_median", [1e6], first=15)
    alert = found(recorder)["learning_rate_too_high"]
    assert (alert.step, alert.measured) == (3, pytest.approx(0.4))
    assert alert.fixes[0].changes == {"optimizer.learning_rate": pytest.approx(0.005)}


@pytest.mark.requirement("DIAG-7", "DIAG-10")
def test_no_rate_is_worked_out_from_how_far_the_loss_rose(make_run):
    recorder = make_run(optimizer={"learning_rate": 0.1}).steps("train/loss", [2.0] * 10 + [1e3] * 20)
    recorder.steps("train/gradient_norm", [1.0] * 30)
    alert = found(recorder)["learning_rate_too_high"]
    assert alert.signal == "overshoot"
    assert alert.fixes[0].changes == {"optimizer.learning_rate": pytest.approx(0.01)}
