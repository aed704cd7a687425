"""Learning curves become numbers, a fit, and one recommendation with its reasons."""

from __future__ import annotations

import math

import pytest

from trainwright.tools.training_monitor import Goal, assess
from trainwright.tools.training_monitor.assessment import fit_in_words
from trainwright.tools.training_monitor.outdone import ALIKE, BETTER, WORSE, BesideRival, Shown
from trainwright.tools.training_monitor.report import glance
from trainwright.trainer.run import Failure, RunState

GOAL = Goal(metric="accuracy", direction="maximize", target=0.95)


@pytest.mark.requirement("PHASE-4")
def test_a_healthy_run_that_meets_its_goal_is_deployed(healthy):
    found = assess(healthy().run, GOAL)
    assert (found.recommendation, found.fit, found.goal_met) == ("deploy", "good", True)
    assert (found.epochs, found.best_epoch, found.best_value) == (10, 10, pytest.approx(0.96))
    assert found.gap == pytest.approx(0.01)
    assert "0.96" in found.reasons[0]


@pytest.mark.requirement("PHASE-4")
@pytest.mark.parametrize(("target", "advice"), [(0.96, "deploy"), (0.9601, "optimize")])
def test_the_goal_decides_at_its_very_value(make_run, target, advice):
    recorder = make_run().epochs(validation_accuracy=[0.9, 0.96, 0.95])
    assert assess(recorder.run, Goal(metric="accuracy", direction="maximize", target=target)).recommendation == advice


@pytest.mark.requirement("PHASE-4")
@pytest.mark.parametrize(
    ("values", "is_alone"),
    [
        ([0.7, 0.84, 0.86, 0.95, 0.85, 0.87], True),
        ([0.7, 0.84, 0.91, 0.95, 0.85, 0.87], False),
        ([0.5, 0.7, 0.85, 0.95], False),
    ],
)
def test_a_goal_that_the_kept_epoch_meets_alone_is_said_to_be_met_by_part_luck(make_run, values, is_alone):
    found = assess(
        make_run().epochs(validation_accuracy=values).run, Goal(metric="accuracy", direction="maximize", target=0.9)
    )
    assert found.goal_met
    words = fit_in_words(found.fit, found.reasons, found.beside_rivals)
    assert (", but one epoch alone meets the goal" in words) is is_alone
    assert any("the 4 around it have 0.84 to 0.87" in one for one in found.reasons) is is_alone


def test_a_goal_to_minimize_is_met_from_below(make_run):
    run = make_run(selection={}).epochs(validation_loss=[0.5, 0.3, 0.31]).run
    assert assess(run, Goal(metric="loss", direction="minimize", target=0.3)).goal_met
    assert not assess(run, Goal(metric="loss", direction="minimize", target=0.29)).goal_met


def beside(word, theirs=0.99, metric="accuracy"):
    shown = Shown(interval=(-0.05, -0.01), side=word)
    return BesideRival(name="boosted_trees", told="boosted trees", metric=metric, ours=0.96, theirs=theirs, shown=shown)


@pytest.mark.requirement("PHASE-4", "PHASE-3")
@pytest.mark.parametrize(
    ("word", "target", "fit", "says"),
    [
        (WORSE, 0.97, "outdone", "no good fit, and the goal is missed: validation accuracy 0.96 at the best epoch, goal"
         " ≥ 0.97; boosted trees is better (accuracy 0.99 against 0.96 of the model; difference -0.03, 95 % interval"),
        (WORSE, 0.95, "outdone", "no good fit; the goal is met, and boosted trees meets it better (accuracy 0.99"),
        (ALIKE, 0.95, "good", "good fit; no better than boosted trees, as far as these rows tell (accuracy 0.99"),
        (BETTER, 0.97, "good", "good fit, but the goal is missed: validation accuracy 0.96 at the best epoch, goal"
         " ≥ 0.97; better than boosted trees (accuracy 0.99)"),
    ],
)  # fmt: skip
def test_a_run_that_a_rival_outdoes_is_no_good_fit_and_says_by_what(healthy, word, target, fit, says):
    goal = Goal(metric="accuracy", direction="maximize", target=target)
    seen = glance(healthy().run, goal, rivals=[beside(word)])
    found = seen.assessment
    assert found.fit == fit
    assert fit_in_words(found.fit, found.reasons, found.beside_rivals).startswith(says)
    assert any("the rival may simply be the better model" in reason for reason in found.reasons) is (word == WORSE)
    assert seen.verdict == ("attention" if word == WORSE or target == 0.97 else "healthy")
    assert found.recommendation == ("deploy" if target == 0.95 else "optimize"), "the goal decides, and not a rival"
    assert found.advice == ("decide" if (word, target) == (WORSE, 0.95) else found.recommendation), "told as one word"
    assert "beside_rivals" not in found.as_recorded()["assessment"], "the ledger has their evaluation"


@pytest.mark.requirement("PHASE-4")
def test_another_metric_than_the_goals_outdoes_nobody(healthy):
    assert assess(healthy().run, GOAL, rivals=[beside(WORSE, metric="loss")]).fit == "good"


@pytest.mark.requirement("PHASE-4")
def test_a_critical_alert_means_debug_even_if_the_goal_is_met(healthy):
    recorder = healthy().steps("train/gradient_norm", [1e4] * 20, first=101)
    recorder.steps("train/loss", [40.0] * 20, first=101)
    found = assess(recorder.run, GOAL)
    assert (found.recommendation, found.goal_met) == ("debug", True)
    assert "Exploding gradients" in found.reasons[0]


@pytest.mark.requirement("PHASE-4")
def test_a_diverged_run_is_debugged(make_run):
    failure = Failure(category="divergence", message="Loss is NaN at step 12.", remedy="…", details={"step": 12})
    recorder = make_run().steps("train/loss", [1.0, math.nan]).ended(RunState.FAILED, failure=failure)
    found = assess(recorder.run, GOAL)
    assert (found.recommendation, found.fit) == ("debug", "diverged")


@pytest.mark.parametrize("state", [RunState.FAILED, RunState.RUNNING])
def test_a_run_that_failed_or_was_interrupted_is_debugged(healthy, state):
    # A last record of "running" with a free lock is an interrupted run.
    found = assess(healthy().ended(state).run, GOAL)
    assert found.recommendation == "debug"


def test_a_run_without_any_validation_is_debugged(make_run):
    found = assess(make_run().steps("train/loss", [1.0] * 3).run, GOAL)
    assert (found.recommendation, found.best_value, found.fit) == ("debug", None, "too_short")


@pytest.mark.requirement("DIAG-2", "PHASE-4")
def test_overfitting_of_the_kept_epoch_forbids_deployment(make_run):
    recorder = make_run().epochs(train_accuracy=[1.0] * 4, validation_accuracy=[0.8] * 4)
    found = assess(recorder.run, Goal(metric="accuracy", direction="maximize", target=0.7))
    assert (found.recommendation, found.fit, found.goal_met) == ("optimize", "overfitting", True)


@pytest.mark.requirement("DIAG-2", "PHASE-4")
def test_overfitting_after_the_best_epoch_does_not_for_that_checkpoint_is_kept(make_run):
    recorder = make_run().epochs(
        train_accuracy=[0.96, 0.99, 1.0, 1.0, 1.0], validation_accuracy=[0.9, 0.97, 0.8, 0.8, 0.8]
    )
    found = assess(recorder.run, GOAL)
    assert (found.recommendation, found.fit, found.best_epoch) == ("deploy", "overfitting", 2)
    assert found.gap == pytest.approx(0.2)
    assert found.gap_at_best == pytest.approx(0.02)
    assert "only after the best epoch" in found.reasons[1]


def test_without_a_goal_nothing_shows_that_the_model_is_good_enough(healthy):
    assert assess(healthy().run).recommendation == "optimize"


def test_a_goal_that_was_never_measured_is_not_met_by_another_metric(healthy):
    found = assess(healthy().run, Goal(metric="f1", direction="maximize", target=0.1))
    assert (found.recommendation, found.goal_met, found.metric) == ("optimize", None, "accuracy")


def test_the_goal_is_judged_at_the_selected_epoch_and_not_at_the_luckiest(make_run):
    recorder = make_run(selection={"metric": "loss", "direction": "minimize"}).epochs(
        validation_loss=[0.5, 0.3, 0.4], validation_accuracy=[0.8, 0.9, 0.99]
    )
    assert assess(recorder.run, GOAL).best_value == 0.9


def test_slopes_are_changes_per_epoch(make_run):
    recorder = make_run().epochs(train_loss=[1.0 - 0.1 * e for e in range(8)], validation_loss=[0.5] * 8)
    found = assess(recorder.run)
    assert found.train_loss_slope == pytest.approx(-0.1)
    assert found.validation_loss_slope == pytest.approx(0.0)


@pytest.mark.requirement("PHASE-4", "MON-1")
def test_gradient_health_counts_what_is_not_finite(make_run):
    found = assess(make_run().steps("train/gradient_norm", [1.0, 2.0, 3.0, math.nan]).run).gradient
    assert (found.steps, found.median, found.maximum, found.non_finite_share) == (4, 2.0, 3.0, 0.25)


@pytest.mark.requirement("MON-1")
def test_resources_that_were_not_measured_read_none(make_run):
    use = assess(make_run().steps("system/cpu_percent", [40.0, 60.0]).run).resources
    assert (use.cpu_percent, use.gpu_percent) == (50.0, None)
