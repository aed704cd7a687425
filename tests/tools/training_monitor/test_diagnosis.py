"""Each trigger fires past its threshold and stays silent at it."""

from __future__ import annotations

import math

import pytest

from trainwright.tools.training_monitor import diagnose
from trainwright.trainer.run import Failure, RunKind, RunState
from trainwright.trainer.run.evidence import Resolved


def ids(recorder):
    return {alert.id for alert in diagnose(recorder.run)}


def alert_of(recorder, name):
    return next(alert for alert in diagnose(recorder.run) if alert.id == name)


def test_a_healthy_run_has_no_alert(healthy):
    assert diagnose(healthy().run) == []


def test_a_run_that_has_recorded_nothing_has_no_alert(make_run):
    assert diagnose(make_run().ended(RunState.CREATED).run) == []


def test_an_export_is_not_diagnosed(make_run):
    assert diagnose(make_run(kind=RunKind.EXPORT).steps("train/loss", [math.nan]).run) == []


@pytest.mark.requirement("DIAG-1")
@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
@pytest.mark.parametrize("key", ["train/loss", "validation/loss"])
def test_one_loss_that_is_not_finite_is_critical_and_named_by_its_step(make_run, key, value):
    alert = alert_of(make_run().steps(key, [1.0, 0.9, value]), "nan_loss")
    assert (alert.severity, alert.step, alert.measured) == ("critical", 3, 1)
    assert {"lower_learning_rate", "clip_gradients", "check_preprocessing"} <= {fix.id for fix in alert.fixes}


@pytest.mark.requirement("DIAG-1")
def test_divergence_is_seen_even_if_the_loss_itself_was_not_flushed(make_run):
    failure = Failure(category="divergence", message="Loss is NaN.", remedy="…", details={"step": 7})
    recorder = make_run().steps("train/loss", [1.0] * 6).ended(RunState.FAILED, failure=failure, step=6)
    assert alert_of(recorder, "nan_loss").step == 7


@pytest.mark.requirement("DIAG-1")
def test_the_workers_own_alert_counts(make_run):
    recorder = make_run().steps("train/loss", [1.0])
    recorder.run.append_event("alert", id="nan_loss", step=2)
    assert alert_of(recorder, "nan_loss").step == 2


@pytest.mark.requirement("DIAG-2")
@pytest.mark.parametrize(("gap", "fires"), [(0.14, False), (0.15, False), (0.16, True)])
def test_overfitting_by_the_score_starts_above_fifteen_points(make_run, gap, fires):
    recorder = make_run().epochs(train_accuracy=[1.0] * 4, validation_accuracy=[1.0 - gap] * 4)
    assert ("overfitting" in ids(recorder)) is fires


@pytest.mark.requirement("DIAG-2")
@pytest.mark.parametrize(("validation", "fires"), [(0.24, False), (0.26, True)])
def test_overfitting_without_a_score_is_the_missing_share_of_the_learned_loss(make_run, validation, fires):
    # Learned in training: 1.1 - 0.1 = 1.0, so the gap's share is validation - 0.1.
    recorder = make_run(selection={}, metrics=[]).steps("train/loss", [1.1] * 5)
    recorder.epochs(train_loss=[0.1] * 4, validation_loss=[validation] * 4)
    assert ("overfitting" in ids(recorder)) is fires


@pytest.mark.requirement("DIAG-2")
def test_tiny_losses_with_a_large_ratio_are_not_overfitting(make_run):
    recorder = make_run(selection={}, metrics=[]).steps("train/loss", [2.3] * 5)
    recorder.epochs(train_loss=[1e-4] * 5, validation_loss=[0.05] * 5)
    assert "overfitting" not in ids(recorder)


@pytest.mark.requirement("DIAG-2")
@pytest.mark.parametrize(("last", "fires"), [(0.45, False), (0.6, True)])
def test_a_rising_validation_loss_is_overfitting_even_where_the_score_still_holds(make_run, last, fires):
    recorder = make_run().steps("train/loss", [2.0] * 5)
    recorder.epochs(
        train_loss=[0.5, 0.1, 0.05, 0.04, 0.03],
        validation_loss=[0.6, 0.4, last, last, last],
        train_accuracy=[0.99] * 5,
        validation_accuracy=[0.93] * 5,
    )
    assert ("overfitting" in ids(recorder)) is fires


@pytest.mark.requirement("DIAG-2")
def test_one_bad_epoch_is_not_overfitting(make_run):
    recorder = make_run().epochs(train_accuracy=[0.9] * 5, validation_accuracy=[0.9, 0.9, 0.9, 0.6, 0.9])
    assert "overfitting" not in ids(recorder)


@pytest.mark.requirement("DIAG-3")
@pytest.mark.parametrize(
    ("norms", "fires"),
    [([100.0] * 50, False), ([1.0] * 10 + [101.0] * 3, True), ([1.0] * 10 + [1e6] * 2, False)],
    ids=["at the limit", "three above", "two above"],
)
def test_exploding_gradients_are_three_norms_above_a_hundred(make_run, norms, fires):
    assert ("exploding_gradients" in ids(make_run().steps("train/gradient_norm", norms))) is fires


@pytest.mark.requirement("DIAG-3")
def test_norms_that_are_not_finite_count_as_exploding(make_run):
    alert = alert_of(
        make_run().steps("train/gradient_norm", [5.0, math.inf, math.nan, math.inf]), "exploding_gradients"
    )
    assert alert.measured is None
    assert "3 of the last" in alert.message


@pytest.mark.requirement("DIAG-3", "PHASE-10")
@pytest.mark.parametrize(
    ("losses", "severity"),
    [
        ([29000.0] * 5 + [3000.0] * 45, "info"),
        ([29000.0] * 5 + [28000.0, 30500.0] * 22, "warning"),
        ([29000.0] * 5 + [3000.0] * 35 + [20000.0] * 10, "critical"),
        ([29000.0] * 5 + [29000.0] * 35 + [50000.0] * 10, "critical"),
        ([29000.0] * 5 + [3000.0] * 44 + [math.nan], "critical"),
    ],
    ids=["falls", "hardly moves", "lost again", "rises from the start", "not finite"],
)
def test_large_gradients_are_critical_only_where_they_do_harm(make_run, losses, severity):
    sgd = make_run(optimizer={"name": "sgd", "learning_rate": 0.1})
    recorder = sgd.steps("train/loss", losses).steps("train/gradient_norm", [2000.0] * 50)
    alert = alert_of(recorder, "exploding_gradients")
    assert alert.severity == severity, alert
    assert ("does harm" in alert.message) is (severity == "critical")


@pytest.mark.requirement("DIAG-3", "DIAG-8")
def test_what_is_judged_is_the_norm_that_reached_the_optimizer(make_run):
    recorder = make_run().steps("train/gradient_norm", [2000.0] * 50)
    assert "exploding_gradients" not in ids(recorder.steps("train/applied_gradient_norm", [1.0] * 50))


@pytest.mark.requirement("DIAG-3")
def test_a_rough_start_long_ago_is_forgiven(make_run):
    assert "exploding_gradients" not in ids(make_run().steps("train/gradient_norm", [500.0] * 20 + [1.0] * 200))


@pytest.mark.requirement("DIAG-4")
@pytest.mark.parametrize(("norm", "fires"), [(0.001, False), (0.00099, True)])
def test_vanishing_gradients_are_twenty_norms_below_a_thousandth(make_run, norm, fires):
    recorder = make_run().steps("train/loss", [2.3] * 30).steps("train/gradient_norm", [norm] * 30)
    assert ("vanishing_gradients" in ids(recorder)) is fires


@pytest.mark.requirement("DIAG-4")
@pytest.mark.parametrize(("loss", "fires"), [(0.2, False), (0.3, True)])
def test_small_gradients_of_a_model_that_has_learned_are_convergence(make_run, loss, fires):
    recorder = make_run().steps("train/loss", [2.3] * 5 + [loss] * 30).steps("train/gradient_norm", [1e-5] * 35)
    assert ("vanishing_gradients" in ids(recorder)) is fires


@pytest.mark.requirement("DIAG-5")
@pytest.mark.parametrize(("percent", "fires"), [(70.0, False), (69.0, True)])
def test_a_gpu_below_seventy_percent_is_inefficient(make_run, percent, fires):
    recorder = make_run().steps("system/gpu_percent", [percent - 20, percent + 20] * 5)
    assert ("resource_inefficiency" in ids(recorder)) is fires


@pytest.mark.requirement("DIAG-5")
def test_without_a_gpu_there_is_never_an_alert_about_it(make_run):
    assert "resource_inefficiency" not in ids(make_run().steps("system/cpu_percent", [3.0] * 20))


@pytest.mark.requirement("DIAG-5")
def test_a_run_on_the_cpu_is_not_blamed_for_an_idle_gpu(make_run):
    recorder = make_run().steps("system/gpu_percent", [0.0] * 20)
    recorder.run.write_evidence(Resolved(device="cpu"))
    assert "resource_inefficiency" not in ids(recorder)


@pytest.mark.requirement("DIAG-6")
@pytest.mark.parametrize(("flat_epochs", "fires"), [(9, False), (10, True), (25, True)])
def test_a_stall_is_ten_epochs_without_improvement(make_run, flat_epochs, fires):
    recorder = make_run().epochs(validation_accuracy=[0.5, 0.8] + [0.8] * flat_epochs)
    assert ("convergence_stall" in ids(recorder)) is fires


@pytest.mark.requirement("DIAG-6")
def test_an_improvement_smaller_than_min_delta_does_not_end_a_stall(make_run):
    values = [0.5, 0.8] + [0.8 + 0.0005 * e for e in range(1, 11)]
    assert "convergence_stall" not in ids(make_run("a").epochs(validation_accuracy=values))
    strict = make_run("b", early_stopping={"min_delta": 0.01}).epochs(validation_accuracy=values)
    assert alert_of(strict, "convergence_stall").measured == 10


@pytest.mark.requirement("DIAG-6")
def test_a_stall_counts_epochs_and_not_validations(make_run):
    recorder = make_run()
    with recorder.run.metrics(writer=True) as metrics:
        for epoch, value in ((2, 0.8), (7, 0.7), (12, 0.7)):
            metrics.write([("validation/accuracy", epoch, value, 0.0), ("epoch", epoch, float(epoch), 0.0)])
    assert alert_of(recorder, "convergence_stall").measured == 10


@pytest.mark.requirement("DIAG-7")
@pytest.mark.parametrize(("loss", "fires"), [(1.8, False), (1.9, True)])
def test_underfitting_is_a_training_loss_that_hardly_fell(make_run, loss, fires):
    recorder = make_run().steps("train/loss", [2.3] * 5).epochs(train_loss=[2.2, 2.1, loss, loss, loss])
    assert ("underfitting" in ids(recorder)) is fires


@pytest.mark.requirement("DIAG-7")
def test_underfitting_is_not_judged_before_five_epochs(make_run):
    assert "underfitting" not in ids(make_run().steps("train/loss", [2.3] * 5).epochs(train_loss=[2.3] * 4))


@pytest.mark.requirement("DIAG-7")
@pytest.mark.parametrize(("back_to", "fires"), [(0.9, False), (1.5, True)])
def test_a_spike_gives_back_more_than_half_of_what_was_learned(make_run, back_to, fires):
    recorder = make_run().steps("train/loss", [2.0] * 10 + [0.2] * 60 + [back_to] * 20 + [0.2] * 30)
    assert ("loss_spike" in ids(recorder)) is fires


@pytest.mark.requirement("DIAG-7")
def test_one_hard_batch_is_no_spike(make_run):
    assert "loss_spike" not in ids(make_run().steps("train/loss", [2.0] * 10 + [0.2] * 60 + [5.0] + [0.2] * 49))


@pytest.mark.requirement("DIAG-7")
@pytest.mark.parametrize(("share", "fires"), [(0.3, False), (0.31, True)])
def test_waiting_for_data_above_three_tenths_is_slow_loading(make_run, share, fires):
    assert ("slow_data_loading" in ids(make_run().steps("throughput/data_wait_fraction", [share] * 10))) is fires


@pytest.mark.requirement("DIAG-7")
def test_out_of_memory_is_read_from_the_failure(make_run):
    failure = Failure(category="out_of_memory", message="Out of memory.", remedy="…")
    alert = alert_of(make_run().ended(RunState.FAILED, failure=failure, step=3), "out_of_memory")
    assert alert.fixes[0].changes == {"loader.batch_size": 16, "training.accumulation_steps": 2}


@pytest.mark.requirement("DIAG-7")
def test_what_the_failed_run_worked_out_itself_comes_before_the_documents_rule(make_run):
    changes = {"loader.batch_size": 4, "training.accumulation_steps": 8}
    failure = Failure(category="out_of_memory", message="Out of memory.", remedy="…", details={"changes": changes})
    alert = alert_of(make_run().ended(RunState.FAILED, failure=failure, step=3), "out_of_memory")
    assert alert.fixes[0].changes == changes
    assert all(fix.changes.keys() != changes.keys() for fix in alert.fixes[1:])


@pytest.mark.requirement("DIAG-7")
@pytest.mark.parametrize(("last", "fires"), [(0.95, False), (0.9, True)])
def test_a_run_that_ends_while_it_improves_was_too_short(make_run, last, fires):
    recorder = make_run(selection={}).epochs(train_loss=[1.0] * 5, validation_loss=[1.2, 1.0, 0.99, 0.98, last])
    assert ("too_short" in ids(recorder)) is fires


@pytest.mark.requirement("MON-1")
def test_a_running_run_is_diagnosed_while_it_runs(make_run):
    recorder = make_run().ended(RunState.RUNNING, step=30).steps("train/gradient_norm", [1e4] * 30)
    with recorder.run.lock():
        assert "exploding_gradients" in ids(recorder)


def test_the_most_severe_alert_comes_first(make_run):
    recorder = make_run().epochs(validation_accuracy=[0.8] * 12).steps("train/loss", [math.nan])
    assert [alert.severity for alert in diagnose(recorder.run)] == ["critical", "warning"]


def test_the_message_shows_the_measured_value_beside_the_threshold(make_run):
    alert = alert_of(make_run().epochs(train_accuracy=[1.0] * 3, validation_accuracy=[0.75] * 3), "overfitting")
    assert "25.0%" in alert.message
    assert "15%" in alert.message
    assert (alert.measured, alert.threshold, alert.epoch) == (0.25, 0.15, 1)
