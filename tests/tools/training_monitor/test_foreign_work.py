"""Findings that were wrong on foreign work (docs/agents.md, F): each would come back without its mechanism."""

from __future__ import annotations

from typing import Any

import pytest

from trainwright.tools.training_monitor import Alert, diagnose
from trainwright.tools.training_monitor.diagnosis import in_one_direction
from trainwright.trainer.run import Goal, RunDirectory
from trainwright.trainer.run.evidence import Data, Resolved, Split

GOAL = Goal(metric="accuracy", direction="maximize", target=0.9)


def ids(run: RunDirectory) -> set[str]:
    """What is said of a run as a warning or worse."""
    return {one.id for one in diagnose(run) if one.severity != "info"}


def stalled(make_run: Any, best: float, goal: Goal | None = None) -> RunDirectory:
    """A run that found its best early, and whose loss is high all the same."""
    recorder = make_run(f"best-{best}-{goal is not None}", goal=goal)
    recorder.steps("train/loss", [2.3] * 150).steps("train/gradient_norm", [1.0] * 150)
    return recorder.epochs(train_loss=[2.0] * 15, validation_accuracy=[0.5, best, *[0.6] * 13]).run


@pytest.mark.requirement("DIAG-6", "DIAG-8")
@pytest.mark.parametrize(
    ("best", "goal", "fires"), [(0.92, None, True), (0.92, GOAL, False), (0.88, GOAL, True), (1.0, None, False)]
)
def test_no_stall_is_reported_where_the_goal_is_met_or_nothing_is_left_to_gain(
    make_run: Any, best: float, goal: Goal | None, fires: bool
) -> None:
    assert ("convergence_stall" in ids(stalled(make_run, best, goal))) is fires


@pytest.mark.requirement("DIAG-7")
@pytest.mark.parametrize(("objective", "is_judged"), [("supervised", True), ("step", True), ("train_step", False)])
def test_the_losses_of_updates_of_the_users_own_are_not_judged(make_run: Any, objective: str, is_judged: bool) -> None:
    recorder = make_run(objective, metrics=[], selection={"metric": "loss", "direction": "minimize"})
    recorder.run.write_evidence(Resolved(objective=objective, loss="mse"))
    recorder.steps("train/loss", [1.0] * 5 + [20.0] * 115)
    rising = [2.0 + epoch for epoch in range(12)]
    recorder.epochs(train_loss=rising, validation_loss=rising)
    assert bool(ids(recorder.run) & {"underfitting", "learning_rate_too_high", "convergence_stall"}) is is_judged


@pytest.mark.requirement("DIAG-7")
def test_a_step_of_the_users_own_is_not_measured_by_the_entropy_of_classes(make_run: Any) -> None:
    recorder = make_run("vae", metrics=[], selection={"metric": "loss", "direction": "minimize"})
    recorder.run.write_evidence(Resolved(objective="step", loss="cross_entropy"))
    recorder.run.write_evidence(Data(splits={"train": Split(size=100, classes={"0": 50, "1": 50})}))
    recorder.steps("train/loss", [44.0] * 5 + [30.0] * 115)
    recorder.epochs(train_loss=[30.0 - epoch for epoch in range(12)], validation_loss=[30.0] * 12)
    assert "underfitting" not in ids(recorder.run), "30 of 44 is not 30 of the entropy of two classes"


def moved(make_run: Any, name: str, ratio: float) -> Any:
    """A run of which a step moves the weights by a share of their size, and which learns nothing."""
    recorder = make_run(name).steps("train/loss", [2.3] * 120).steps("train/learning_rate", [1e-3] * 120)
    return recorder.steps("watch/update_ratio_median", [ratio] * 3).steps("train/gradient_norm", [1.0] * 120)


def rates(alerts: list[Alert]) -> list[float]:
    """Every rate that is proposed."""
    key = "optimizer.learning_rate"
    return [fix.changes[key] for one in alerts for fix in one.fixes if key in fix.changes]


@pytest.mark.requirement("DIAG-10")
def test_no_fix_moves_a_key_against_an_alert_before_it(make_run: Any) -> None:
    recorder = moved(make_run, "torn", 0.5)
    recorder.epochs(train_loss=[2.2] * 12, validation_loss=[2.2] * 12, validation_accuracy=[0.5, *[0.4] * 11])
    found = diagnose(recorder.run)
    assert {"learning_rate_too_high", "underfitting", "convergence_stall"} <= {one.id for one in found}
    assert rates(found)
    assert all(rate < 1e-3 for rate in rates(found)), "the first says lower: none says higher"


@pytest.mark.requirement("DIAG-10")
def test_fixes_in_one_direction_all_stay(make_run: Any) -> None:
    found = diagnose(stalled(make_run, 0.5))
    assert rates(found)
    assert in_one_direction(found, {"optimizer": {"learning_rate": 1e-3}}) == found


@pytest.mark.requirement("DIAG-10")
@pytest.mark.parametrize("ratio", [1e-9, 5e3])
def test_no_rate_is_proposed_three_orders_away(make_run: Any, ratio: float) -> None:
    proposed = rates(diagnose(moved(make_run, f"ratio-{ratio}", ratio).run))
    assert proposed
    assert all(1e-6 < rate < 1 for rate in proposed)
