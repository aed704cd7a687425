"""Findings that were wrong on foreign work (docs/agents.md, F): each would come back without its mechanism."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from trainwright.tools.gates.overlay import is_allowed
from trainwright.tools.training_monitor import Alert, assess, diagnose
from trainwright.tools.training_monitor.assessment import fit_in_words
from trainwright.tools.training_monitor.diagnosis import in_one_direction
from trainwright.tools.training_monitor.report import glance
from trainwright.trainer.jobs.evaluation.outputs import Outputs
from trainwright.trainer.jobs.evaluation.record import ranges_of
from trainwright.trainer.run import Goal, RunDirectory, RunKind, RunState, RunStatus
from trainwright.trainer.run.evaluation import Evaluation, Ranges
from trainwright.trainer.run.evidence import BestEpoch, Data, Resolved, Split, Summary
from trainwright.trainer.run.rivals import Rival, Rivals

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


def masks(make_run: Any, name: str, scores: list[float], losses: list[float], **fields: Any) -> RunDirectory:
    """A run selected by a score in [0, 1], which its patience ended."""
    recorder = make_run(name, **fields).steps("train/loss", [1.0] * 60).steps("train/gradient_norm", [1.0] * 60)
    recorder.epochs(train_loss=losses, validation_loss=losses, validation_accuracy=scores)
    best, epoch = max(scores), scores.index(max(scores)) + 1
    found = BestEpoch(epoch=epoch, step=10 * epoch, metrics={"accuracy": best}, metric="accuracy", value=best)
    recorder.run.write_evidence(Summary(stop_reason="early_stopping", best=found))
    return recorder.run


@pytest.mark.requirement("DIAG-7")
@pytest.mark.parametrize(
    ("scores", "losses", "fires"),
    [
        ([4e-9, *[2e-9] * 9], [1.0 - 0.02 * epoch for epoch in range(10)], True),
        ([0.6, *[0.5] * 9], [1.0 - 0.03 * epoch for epoch in range(10)], True),
        ([0.6, *[0.5] * 9], [1.0 + 0.03 * epoch for epoch in range(10)], False),
        ([0.5, 0.5, 0.5, 0.5, 0.7, *[0.6] * 5], [1.0 - 0.03 * epoch for epoch in range(10)], False),
    ],
    ids=["collapsed", "stopped early", "overfits", "later best"],
)
def test_a_collapse_and_a_stop_before_the_score_moved_are_seen(
    make_run: Any, scores: list[float], losses: list[float], fires: bool
) -> None:
    found = {one.id: one for one in diagnose(masks(make_run, "masks", scores, losses))}
    assert ("stopped_too_soon" in found) is fires
    if fires:
        assert "early_stopping.patience_epochs" in found["stopped_too_soon"].fixes[0].changes


@pytest.mark.requirement("DIAG-7")
@pytest.mark.parametrize(("earlier", "fires"), [(0.95, True), (0.6, False)])
def test_a_run_far_below_an_earlier_baseline_says_so(make_run: Any, earlier: float, fires: bool) -> None:
    losses = [1.0 - 0.02 * epoch for epoch in range(10)]
    before = masks(make_run, "baseline-1", [*[earlier - 0.1] * 4, *[earlier] * 6], losses)
    now = masks(make_run, "baseline-2", [0.4, 0.4, 0.4, 0.4, 0.5, *[0.45] * 5], losses)
    for moment, run in enumerate((before, now)):
        run.write_status(RunStatus(state=RunState.COMPLETED, started_at=float(moment + 1)))
    few = masks(make_run, "smoke-3", [0.4, 0.4, 0.4, 0.4, 0.5, *[0.45] * 5], losses, kind=RunKind.SMOKE)
    few.write_status(RunStatus(state=RunState.COMPLETED, started_at=3.0))
    found = {one.id: one for one in diagnose(now)}
    assert ("stopped_too_soon" in found) is fires
    assert not {"stopped_too_soon"} & {one.id for run in (before, few) for one in diagnose(run)}


@pytest.mark.requirement("DIAG-8")
def test_a_run_that_misses_its_goal_is_not_healthy_and_says_by_how_much(healthy: Any) -> None:
    far = Goal(metric="accuracy", direction="maximize", target=0.999)
    seen = glance(healthy().run, far)
    assert seen.verdict == "attention"
    words = fit_in_words(seen.assessment.fit, seen.assessment.reasons)
    assert words == "good fit, but the goal is missed: validation accuracy 0.96 at the best epoch, goal ≥ 0.999"
    assert glance(healthy("met").run, GOAL).verdict == "healthy"


@pytest.mark.requirement("DIAG-6")
def test_a_stall_of_what_has_learned_what_can_be_learned_is_information(make_run: Any) -> None:
    recorder = make_run("noisy")
    recorder.run.write_evidence(Data(splits={"validation": Split(size=400, classes={"0": 200, "1": 200})}))
    recorder.steps("train/loss", [0.69] * 5 + [0.5] * 145)
    recorder.epochs(train_loss=[0.5] * 15, validation_accuracy=[0.74, 0.76, *[0.75] * 13])
    [stall] = [one for one in diagnose(recorder.run) if one.id == "convergence_stall"]
    assert stall.severity == "info"


@pytest.mark.requirement("DIAG-7")
@pytest.mark.parametrize(("metric", "fires"), [("auc", False), ("accuracy", True)])
def test_a_run_that_ranks_is_judged_by_its_order_and_not_by_where_the_classes_part(
    make_run: Any, metric: str, fires: bool
) -> None:
    recorder = make_run(metric, metrics=["accuracy", "auc"], selection={"metric": metric, "direction": "maximize"})
    counts = {"0": 190, "1": 10}
    recorder.run.write_evidence(
        Data(splits={name: Split(size=200, classes=counts) for name in ("train", "validation")})
    )
    recorder.epochs(train_loss=[0.2] * 5, validation_accuracy=[0.95] * 5, validation_auc=[0.8] * 5)
    assert ("class_imbalance" in ids(recorder.run)) is fires


@pytest.mark.requirement("DIAG-3")
@pytest.mark.parametrize(("optimizer", "fires"), [("adamw", False), ("sgd", True)])
def test_a_large_gradient_is_a_matter_of_units_where_the_optimizer_divides_it_out(
    make_run: Any, optimizer: str, fires: bool
) -> None:
    recorder = make_run(optimizer, optimizer={"name": optimizer, "learning_rate": 1e-3})
    recorder.steps("train/loss", [2.3] * 50).steps("train/gradient_norm", [2000.0] * 50)
    assert ("exploding_gradients" in ids(recorder.run)) is fires


@pytest.mark.requirement("DIAG-7")
def test_a_short_wait_for_data_is_information(make_run: Any) -> None:
    for name, samples_per_second, severity in (("short", 8_000.0, "info"), ("long", 800.0, "warning")):
        recorder = make_run(name).steps("throughput/data_wait_fraction", [0.4] * 10)
        recorder.run.write_evidence(Resolved(batch_size=32))
        recorder.steps("throughput/samples_per_second", [samples_per_second] * 10)
        [wait] = [one for one in diagnose(recorder.run) if one.id == "slow_data_loading"]
        assert wait.severity == severity


@pytest.mark.requirement("DIAG-7")
@pytest.mark.parametrize(("start", "fires"), [(1.0, True), (-0.1, False)])
def test_a_loss_that_begins_about_zero_has_no_share_to_lose(make_run: Any, start: float, fires: bool) -> None:
    recorder = make_run(f"start-{start}")
    recorder.steps("train/loss", [start] * 20 + [start - 0.5] * 60 + [start] * 60)
    assert ("loss_spike" in ids(recorder.run)) is fires


def gapped(make_run: Any, scores: list[float]) -> RunDirectory:
    """A run whose training score is perfect, and whose validation loss rises."""
    epochs = len(scores)
    recorder = make_run("gapped", early_stopping={"enabled": False}).steps("train/loss", [2.3] * 5 + [0.1] * 200)
    recorder.epochs(
        train_loss=[0.1] * epochs, validation_loss=[0.5 + 0.1 * epoch for epoch in range(epochs)],
        train_accuracy=[1.0] * epochs, validation_accuracy=scores,
    )  # fmt: skip
    return recorder.run


PLATEAU_THEN_RISE = [0.5, 0.6, *[0.6] * 5, 0.62, 0.64, 0.66, 0.68, 0.7, 0.72, 0.74]


@pytest.mark.requirement("DIAG-2", "DIAG-10")
@pytest.mark.parametrize(
    ("scores", "severity", "stops"),
    [(PLATEAU_THEN_RISE, "info", False), ([0.5, 0.7, *[0.69] * 12], "warning", True),
     ([0.5, 0.6, *[0.6] * 5, 0.7, *[0.69] * 6], "warning", False)],
    ids=["rises", "best early", "best after a plateau"],
)  # fmt: skip
def test_no_patience_is_proposed_that_the_runs_own_curve_refutes(
    make_run: Any, scores: list[float], severity: str, stops: bool
) -> None:
    (found,) = [one for one in diagnose(gapped(make_run, scores)) if one.id == "overfitting"]
    assert found.severity == severity, "while the score rises there is nothing to warn of"
    assert ("early_stopping" in {fix.id for fix in found.fixes}) is stops


@pytest.mark.requirement("DIAG-7")
@pytest.mark.parametrize(
    ("trees", "says"), [(0.98, "the features tell something"), (0.52, "features that tell nothing")]
)
def test_guessing_is_told_beside_what_trees_score_on_the_same_rows(make_run: Any, trees: float, says: str) -> None:
    recorder = make_run("guesses").steps("train/loss", [0.69] * 120)
    split = Split(size=200, classes={"0": 100, "1": 100})
    recorder.run.write_evidence(Data(splits={"train": split, "validation": split}))
    recorder.run.write_evidence(Resolved(loss="cross_entropy"))
    recorder.run.write_evidence(Rivals(rivals=[Rival(metrics={"accuracy": trees})]))
    recorder.epochs(train_loss=[0.69] * 12, validation_loss=[0.69] * 12, validation_accuracy=[0.5] * 12)
    (found,) = [one for one in diagnose(recorder.run) if one.id == "chance_level"]
    assert says in found.message
    assert found.consequence_of is None


@pytest.mark.requirement("DIAG-7", "DIAG-8")
@pytest.mark.parametrize(("target", "advice"), [(0.7, "deploy"), (0.9, "optimize")])
def test_a_run_that_still_improves_is_too_short_or_good_enough_and_never_both(
    make_run: Any, target: float, advice: str
) -> None:
    recorder = make_run("improves", training={"epochs": 6}).steps("train/loss", [1.0] * 60)
    losses = [1.0, 0.8, 0.6, 0.5, 0.4, 0.3]
    recorder.epochs(train_loss=losses, validation_loss=losses, validation_accuracy=[0.3, 0.4, 0.5, 0.6, 0.7, 0.75])
    found = assess(recorder.run, Goal(metric="accuracy", direction="maximize", target=target))
    assert found.recommendation == advice
    assert ("too_short" in {one.id for one in found.alerts}) is (advice == "optimize")
    asked = [one for one in found.reasons if 'kind="final", changes={"training.epochs": 12}' in one]
    assert bool(asked) is (advice == "deploy")
    assert is_allowed("training.epochs"), "a final run may set it, and no gate is opened again"


def scattered(draw: Any, inputs: Any, noise: float, bent: Any) -> Ranges:
    """Ranges of a target that is its inputs and noise, predicted by the inputs, bent."""
    target = inputs + noise * draw.normal(size=len(inputs))
    arrays = {"row": np.arange(len(inputs)), "target": 40 + 10 * target, "prediction": 40 + 10 * bent(inputs)}
    (found,) = ranges_of(Outputs("numbers", len(inputs), arrays))
    return found


@pytest.mark.requirement("DIAG-7", "DIAG-8")
@pytest.mark.parametrize(
    ("noise", "bent", "loss", "severity"),
    [
        (0.2, lambda inputs: inputs, "mse", None),
        (1.0, lambda inputs: inputs, "mse", "info"),
        (0.2, lambda inputs: np.maximum(inputs, -0.4), "mse", "warning"),
        (1.0, lambda inputs: 0.3 * inputs, "mse", "warning"),
        (1.0, lambda inputs: 0.3 * inputs, "mae", "info"),
        (1.0, lambda inputs: 0.3 * inputs, "quantile", None),
    ],
    ids=["little noise", "noise", "never below", "narrower than its noise", "no mean", "a loss of the user's"],
)
def test_a_deployable_model_that_is_wrong_at_the_ends_says_so_and_whether_noise_explains_it(
    make_run: Any, noise: float, bent: Any, loss: str, severity: str | None
) -> None:
    draw = np.random.default_rng(0)
    ranges = scattered(draw, draw.normal(size=4000), noise, bent)
    recorder = make_run("ends", metrics=["r2"], selection={"metric": "r2", "direction": "maximize"})
    losses = [1.0, 0.4, *[0.2] * 4]
    recorder.epochs(train_loss=losses, validation_loss=losses, validation_r2=[0.8] * 6)
    recorder.run.write_evidence(Evaluation(kind="numbers", ranges=[ranges]))
    recorder.run.write_evidence(Resolved(loss=loss))
    found = assess(recorder.run, Goal(metric="r2", direction="maximize", target=0.7))
    told = {one.id: one for one in found.alerts}.get("narrow_predictions")
    assert found.recommendation == "deploy"
    assert (told and told.severity) == severity
    assert any("in the lowest fifth" in one or "in the highest fifth" in one for one in found.reasons) is bool(told)
    if (
        severity == "info" and loss == "mse"
    ):  # the mean of a standard normal below its first quintile is -1.4: half of it is noise
        assert abs(ranges.by_target[0].error / ranges.deviation) == pytest.approx(0.5 * 1.4, abs=0.05)
        assert told is not None
        assert ranges.spread / ranges.deviation == pytest.approx(ranges.correlation, abs=0.02)
        assert "noise alone does so: r2 0.5 implies" in told.message
