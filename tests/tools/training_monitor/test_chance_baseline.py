"""A score is set beside that of guessing: no fit is good that is not better, and no luck is called learning."""

from __future__ import annotations

import pytest

from trainwright.tools.training_monitor import Goal, assess, diagnose
from trainwright.tools.training_monitor.report import glance
from trainwright.trainer.run.evidence import Data, Resolved, Split
from trainwright.trainer.run.looked_at import LookedAt, SplitLook

ACCURACY = Goal(metric="accuracy", direction="maximize", target=0.5)
FALLING, FLAT = [0.9, 0.7, 0.5, 0.3, 0.2, 0.1], [0.69] * 6


@pytest.fixture
def scored(make_run):
    """`scored(classes, train_loss, **validation)` makes a run of six epochs with these scores; no classes: numbers."""

    def make(classes, train_loss=FLAT, rows=100, **validation):
        options = {} if classes else {"loss": "mse", "metrics": ["r2"], "selection": {"metric": "r2"}}
        recorder = make_run(**options).steps("train/loss", [train_loss[0]] * 60)
        recorder.epochs(train_loss=train_loss, **{f"validation_{name}": value for name, value in validation.items()})
        counts = {str(place): count for place, count in enumerate(classes)} if classes else None
        splits = {name: Split(size=sum(classes) or rows, classes=counts) for name in ("train", "validation")}
        recorder.run.write_evidence(Data(splits=splits))
        recorder.run.write_evidence(Resolved(loss="cross_entropy" if classes else "mse"))
        return recorder.run

    return make


def alerts(run):
    return [(one.id, one.consequence_of) for one in diagnose(run)]


@pytest.mark.requirement("PHASE-4")
@pytest.mark.parametrize(
    ("classes", "scores", "says"),
    [
        (
            [50, 50],
            {"accuracy": [0.5] * 6},
            "accuracy 0.5 at the best epoch (median of the later half 0.5), and always answering",
        ),
        ([90, 10], {"accuracy": [0.9] * 6}, "commonest class gives 0.9 (100 rows)"),
        (
            [],
            {"r2": [-1.0] * 6},
            "r2 -1 at the best epoch (median of the later half -1), and the mean for all gives 0",
        ),
        ([50, 50], {"auc": [0.52] * 6, "accuracy": [0.5] * 6}, "standard"),
        ([60, 40], {"f1_binary": [0.57] * 6}, "always answering with class 1 gives 0.571"),
        ([], {"spearman": [0.01] * 6}, "the mean for all gives 0 (100 rows)"),
    ],
)
def test_a_score_of_guessing_is_no_good_fit_and_stands_beside_it(scored, classes, scores, says):
    found = assess(scored(classes, **scores), ACCURACY)
    assert found.fit == "guessing"
    assert found.beside_guessing is not None
    if says != "standard":
        assert says in found.beside_guessing
        assert says in found.reasons[-1]


@pytest.mark.requirement("PHASE-4")
@pytest.mark.parametrize(
    ("classes", "scores"),
    [
        ([50, 50], {"accuracy": [0.5, 0.55, 0.6, 0.64, 0.66, 0.68]}),
        ([90, 10], {"accuracy": [0.9] * 6, "balanced_accuracy": [0.5, 0.6, 0.75, 0.75, 0.75, 0.75]}),
        ([90, 10], {"accuracy": [0.9] * 6, "auc": [0.5, 0.7, 0.8, 0.8, 0.8, 0.8]}),
        ([50, 50], {"accuracy": [0.5] * 6, "loss": [0.69, 0.66, 0.6, 0.6, 0.6, 0.6]}),
        ([], {"r2": [-1.0, 0.0, 0.1, 0.15, 0.2, 0.2]}),
        ([90, 10], {"accuracy": [0.9] * 6, "f1_binary": [0.0, 0.2, 0.4, 0.6, 0.6, 0.6]}),
        ([90, 10], {"accuracy": [0.9] * 6, "cohen_kappa": [0.0, 0.2, 0.4, 0.4, 0.4, 0.4]}),
        ([50, 50], {"accuracy": [0.5] * 6, "log_loss": [0.69, 0.66, 0.6, 0.6, 0.6, 0.6]}),
        ([], {"spearman": [0.0, 0.2, 0.4, 0.4, 0.4, 0.4]}),
        ([], {"concordance": [0.5, 0.55, 0.65, 0.65, 0.65, 0.65]}),
    ],
)
def test_one_score_beyond_luck_is_better_than_guessing(scored, classes, scores):
    run = scored(classes, [0.69, 0.6, 0.5, 0.4, 0.3, 0.25], **scores)
    assert assess(run, ACCURACY).fit in {"good", "overfitting"}
    assert not {"chance_level", "labels_unrelated"} & {name for name, _ in alerts(run)}


@pytest.mark.requirement("DIAG-7")
@pytest.mark.parametrize(("classes", "scores"), [([50, 50], {"accuracy": [0.52] * 6}), ([], {"r2": [-0.02] * 6})])
def test_a_run_that_stays_at_chance_is_told_to_look_at_labels_and_features_without_a_claim(scored, classes, scores):
    run = scored(classes, [0.69, 0.66, 0.6, 0.56, 0.54, 0.52], **scores)
    (found,) = [one for one in diagnose(run) if one.consequence_of is None]
    assert (found.id, found.title) == ("chance_level", "No better than guessing: check labels and features")
    assert "shuffled" in found.message
    assert "tell nothing" in found.message
    assert found.fixes[0].id == "look_at_pairs"
    assert glance(run, ACCURACY).verdict == "attention"


@pytest.mark.requirement("DIAG-7")
@pytest.mark.parametrize(
    ("classes", "scores"),
    [
        ([34, 33, 33], {"accuracy": [0.30, 0.42, 0.35, 0.33, 0.36, 0.34]}),
        ([], {"r2": [0.02, -0.1, -0.2, -0.3, -0.4, -0.5]}),
    ],
)
def test_what_is_learned_by_heart_and_guesses_on_others_is_suspected_of_shuffled_labels(scored, classes, scores):
    run = scored(classes, FALLING, **scores)
    found = diagnose(run)
    assert (found[0].id, found[0].title) == ("labels_unrelated", "Labels may not belong to their inputs")
    assert ("chance_level", "labels_unrelated") in alerts(run)
    assert assess(run, ACCURACY).fit == "guessing"


@pytest.mark.requirement("DIAG-7")
def test_a_goal_that_guessing_meets_is_no_reason_to_deploy(scored):
    found = assess(scored([90, 10], accuracy=[0.9] * 6), ACCURACY)
    assert (found.goal_met, found.recommendation) == (True, "optimize")


@pytest.mark.requirement("DIAG-7")
def test_few_validation_rows_raise_nothing_and_say_so(scored):
    run = scored([10, 10], [0.69, 0.6, 0.5, 0.4, 0.3, 0.25], accuracy=[0.55] * 6)
    assert "chance_level" not in {name for name, _ in alerts(run)}
    assert assess(run, ACCURACY).fit == "good"
    assert any("needs 30 validation rows, there are 20" in one for one in glance(run, ACCURACY).unjudged)


@pytest.mark.requirement("DIAG-7")
@pytest.mark.parametrize("name", ["mae", "mse"])
def test_an_error_of_numbers_counts_beside_that_of_the_mean_where_it_was_measured(scored, name):
    run = scored([], [0.9, 0.7, 0.6, 0.5, 0.5, 0.5], **{name: [3.0, 2.9, 2.9, 2.9, 2.9, 2.9]})
    assert assess(run).beside_guessing is None
    run.write_evidence(LookedAt(splits={"validation": SplitLook(size=100, constant={name: 2.9})}))
    assert f"{name} 2.9 at the best epoch (median of the later half 2.9), and the mean for all gives 2.9" in str(
        assess(run)
    )


@pytest.mark.requirement("DIAG-7", "DIAG-10")
@pytest.mark.parametrize(("r2", "fires"), [(0.9, False), (0.4, True), (-0.1, True)])
def test_a_loss_that_stays_where_it_began_is_no_underfitting_where_it_began_well(make_run, r2, fires):
    """A forecast that goes on from the last value, or pretrained weights, leave little loss to take away."""
    recorder = make_run(loss="mse", metrics=["r2"], selection={"metric": "r2"}).steps("train/loss", [0.04] * 120)
    recorder.epochs(train_loss=[0.04, *[0.037] * 9], validation_r2=[r2] * 10)
    recorder.run.write_evidence(Data(splits={name: Split(size=200) for name in ("train", "validation")}))
    recorder.run.write_evidence(Resolved(loss="mse"))
    assert ("underfitting" in {one.id for one in diagnose(recorder.run)}) is fires
