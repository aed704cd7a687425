"""Where validation turns: a best epoch within the warm-up, a run that learns on without it, a jagged curve."""

from __future__ import annotations

import pytest

from trainwright.tools.training_monitor import diagnose
from trainwright.trainer.run.evidence import Data, Split

BY_MSE = {"selection": {"metric": "mse", "direction": "minimize"}, "metrics": ["mse"]}
"""Of a forecast, whose selected value is to fall."""
WARMED = [0.1, 0.4, 0.7, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0]
"""Rates by epoch: the peak is reached in the fourth."""
TURNED = [1.3, 1.0, 1.1, 1.2, 1.2, 1.3, 1.2, 1.25, 1.3, 1.25]
FLAT, FALLING = [0.5, 0.2] + [0.2] * 8, [0.5, 0.2] + [0.15] * 8


def begun(make_run, name, *, validation, trained=FLAT, rates=WARMED, **sections):
    run = make_run(name, **BY_MSE, **sections).steps("train/loss", [1.0] * 5)
    run.steps("train/learning_rate", [rate / 1000 for rate in rates for _ in range(run.steps_per_epoch)])
    return run.epochs(train_loss=trained, validation_loss=validation, validation_mse=validation).run


def alert_of(run, name):
    return next((alert for alert in diagnose(run) if alert.id == name), None)


@pytest.mark.requirement("DIAG-7")
@pytest.mark.parametrize(
    ("validation", "rates", "fires"),
    [
        (TURNED, WARMED, True),
        (TURNED[:7], WARMED[:7], False),  # too few epochs after the peak
        ([1.3, 1.0, 1.1, 1.2, 1.2, 1.3, 1.04, 1.2, 1.3, 1.2], WARMED, False),  # one of them is nearly as good
        ([1.3, 1.2, 1.1, 1.1, 1.0, 1.2, 1.2, 1.2, 1.2, 1.2], WARMED, False),  # the best comes after it
        (TURNED, [1.0] * 10, False),  # no warm-up
        (TURNED, [place / 10 for place in range(1, 11)], False),  # it is not over
    ],
)
def test_a_best_epoch_within_the_warm_up_is_a_finding_where_all_that_follows_is_worse(
    make_run, validation, rates, fires
):
    found = alert_of(
        begun(make_run, "run", validation=validation, rates=rates, trained=FLAT[: len(rates)]), "best_in_warmup"
    )
    assert (found is not None) is fires
    if found is not None:
        assert (found.severity, found.epoch, round(found.measured, 6)) == ("warning", 2, 0.2)
        assert "The best epoch is 2, within the warm-up" in found.message


@pytest.mark.requirement("DIAG-7", "DIAG-8")
def test_the_training_loss_tells_a_rate_that_is_too_high_from_overfitting(make_run):
    flat = begun(make_run, "rate", validation=TURNED)
    rate = alert_of(flat, "best_in_warmup")
    assert rate.consequence_of is None, "and overfitting follows from it"
    assert alert_of(flat, "overfitting").consequence_of == "best_in_warmup"
    assert rate.fixes[0].changes == {"optimizer.learning_rate": pytest.approx(0.0003)}
    falls = begun(
        make_run, "falls", validation=[1.3, 0.16, 0.17, 0.18, 0.18, 0.18, 0.17, 0.17, 0.18, 0.18], trained=FALLING
    )
    assert alert_of(falls, "best_in_warmup") is None
    overfits = alert_of(falls, "overfitting")
    assert "The best epoch is 2, within the warm-up; training learned on" in overfits.message
    assert not any("optimizer.learning_rate" in fix.changes for fix in overfits.fixes)


@pytest.mark.requirement("DIAG-6", "DIAG-8")
@pytest.mark.parametrize(
    ("trained", "start", "first"),
    [
        ([0.5] + [0.5 - 0.03 * place for place in range(12)], 1.0, "weight_decay"),  # it learns on
        ([0.95] * 13, 1.0, "raise_learning_rate"),
        ([0.2] * 13, 1.0, "learning_rate_finder"),  # much was learned, at this rate
    ],
)
def test_a_run_that_learns_on_without_validation_is_not_told_to_raise_its_rate(make_run, trained, start, first):
    run = make_run("run", **BY_MSE).steps("train/loss", [start] * 5)
    run.epochs(train_loss=trained, validation_loss=[0.6] * 13, validation_mse=[0.6] * 13)
    assert alert_of(run.run, "convergence_stall").fixes[0].id == first


@pytest.mark.requirement("DIAG-7")
@pytest.mark.parametrize(
    ("jump", "rows", "fires"), [(0.2, 2000, True), (0.08, 2000, False), (0.2, 100, False), (0.0, 2000, False)]
)
def test_a_jagged_validation_is_information_where_it_is_past_a_tenth_and_past_chance(make_run, jump, rows, fires):
    validation = [1.0 - 0.01 * epoch + jump * (epoch % 2) / 2 for epoch in range(12)]
    recorder = make_run("run", **BY_MSE).steps("train/loss", [2.0] * 5)
    recorder.run.write_evidence(Data(splits={"validation": Split(size=rows)}))
    found = alert_of(recorder.epochs(validation_loss=validation).run, "jagged_validation")
    assert (found is not None) is fires
    assert found is None or found.severity == "info"
