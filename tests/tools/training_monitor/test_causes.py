"""Causes come before what follows from them, and each new signal fires past its threshold only."""

from __future__ import annotations

import math

import pytest

from trainwright.tools.training_monitor import diagnose
from trainwright.tools.training_monitor.diagnosis import Alert, ranked
from trainwright.tools.training_monitor.documents import load_diagnostics
from trainwright.tools.training_monitor.record import RunRecord
from trainwright.tools.training_monitor.signals.layers import first_gradient_norm
from trainwright.tools.training_monitor.signals.losses import train_loss_remaining
from trainwright.tools.training_monitor.signals.spikes import sudden_jump
from trainwright.trainer.run.evidence import Data, Resolved, Split
from trainwright.trainer.watch.signals import SIGNALS, Series

DIAGNOSTICS = {one.id: one for one in load_diagnostics()}


def alert(name: str, severity: str = "warning") -> Alert:
    return Alert.model_validate({
        "id": name, "severity": severity, "title": name, "message": "", "signal": "", "measured": 1.0, "threshold": 0.0,
        "unit": "", "step": 1, "document": "", "requirement": "DIAG-7", "fixes": [],
    })  # fmt: skip


def shown(alerts: list[Alert]) -> list[tuple[str, str, str | None]]:
    return [(one.id, one.severity, one.consequence_of) for one in alerts]


def ids(recorder):
    return [one.id for one in diagnose(recorder.run)]


@pytest.mark.requirement("DIAG-8")
def test_a_cause_comes_first_and_is_as_severe_as_what_follows_from_it():
    found = ranked([alert("nan", "critical"), alert("other"), alert("rate")], {"rate": ["nan"]})
    assert shown(found) == [("rate", "critical", None), ("nan", "critical", "rate"), ("other", "warning", None)]


@pytest.mark.requirement("DIAG-8")
def test_a_chain_of_consequences_ends_at_its_root():
    found = ranked([alert("a"), alert("b"), alert("c")], {"c": ["b"], "b": ["a"]})
    assert shown(found) == [("c", "warning", None), ("a", "warning", "c"), ("b", "warning", "c")]


@pytest.mark.requirement("DIAG-8")
def test_information_explains_nothing():
    found = ranked([alert("hint", "info"), alert("nan", "critical")], {"hint": ["nan"]})
    assert shown(found) == [("nan", "critical", None), ("hint", "info", None)]


@pytest.mark.requirement("DIAG-8")
def test_documents_explain_known_ones_and_never_each_other():
    def explained(name: str, path: tuple[str, ...] = ()) -> None:
        assert name not in path, path
        for other in DIAGNOSTICS[name].explains:
            explained(other, (*path, name))

    for name in DIAGNOSTICS:
        explained(name)


@pytest.mark.requirement("DIAG-8")
def test_what_keeps_a_model_from_learning_explains_that_it_misses_the_ends_and_a_wild_row_shuffled_labels():
    causes = [name for name, one in DIAGNOSTICS.items() if "underfitting" in one.explains]
    assert len(causes) > 20
    assert all("narrow_predictions" in DIAGNOSTICS[name].explains for name in [*causes, "underfitting", "chance_level"])
    assert "labels_unrelated" in DIAGNOSTICS["bad_samples"].explains


@pytest.mark.requirement("DIAG-7")
@pytest.mark.parametrize("steps", [[9.0, 40.0, 50.0, 60.0, 70.0], [1.0] * 5, [0.5, 0.4, math.nan, 0.3, 0.2, 0.1]])
@pytest.mark.parametrize("epochs", [[], [0.6, 0.3]])
def test_worker_and_server_read_the_same_share_of_the_loss(make_run, steps, epochs):
    recorder = classes(make_run().steps("train/loss", steps), [70, 30])
    recorder = recorder.epochs(train_loss=epochs) if epochs else recorder
    by_server = train_loss_remaining(RunRecord(recorder.run))
    series = Series(recorder.run.metrics(), 9, class_shares=[0.7, 0.3])
    with series.reading():
        by_worker = SIGNALS["train_loss_remaining"](series)
    assert by_server
    assert [one.value for one in by_worker] == pytest.approx([one.value for one in by_server])


def rated(make_run, ratio, losses):
    recorder = make_run().steps("train/loss", losses).steps("train/learning_rate", [0.1] * len(losses))
    return recorder.steps("watch/update_ratio_median", [ratio] * 3).steps("train/gradient_norm", [1.0] * len(losses))


@pytest.mark.requirement("DIAG-7")
@pytest.mark.parametrize(("ratio", "fires"), [(0.2, False), (0.3, True)])
def test_a_rate_is_too_high_where_a_step_moves_a_fifth_of_the_weights(make_run, ratio, fires):
    assert ("learning_rate_too_high" in ids(rated(make_run, ratio, [2.3] * 20))) is fires
    assert "learning_rate_too_high" not in ids(rated(lambda: make_run("learns"), ratio, [2.3] * 5 + [0.5] * 20))


@pytest.mark.requirement("DIAG-7", "TUNE-5")
def test_a_rate_and_a_decay_that_a_study_chose_are_not_called_unusual_and_a_divergence_is_still_named(make_run):
    def made(name, chosen, losses, ratio=0.3):
        values = {"learning_rate": 0.1, "weight_decay": 0.6}
        recorder = rated(lambda: make_run(name, chosen=chosen, optimizer=values), ratio, losses)
        recorder.run.write_evidence(Resolved(parameter_groups=[values]))
        return recorder

    rate, decay = "optimizer.learning_rate", "optimizer.weight_decay"
    flat = [2.3] * 30
    assert {"learning_rate_too_high", "regularisation_too_strong"} <= set(ids(made("by_hand", [], flat)))
    one = set(ids(made("rate", [rate], flat)))
    assert ("learning_rate_too_high" in one, "regularisation_too_strong" in one) == (False, True)
    assert not {"learning_rate_too_high", "regularisation_too_strong"} & set(ids(made("both", [rate, decay], flat)))
    fell = [2.3] * 5 + [1.5] * 20
    lost = diagnose(made("harm", [rate, decay], [*fell, *[9.0] * 10]).run)
    assert ("learning_rate_too_high", "critical") in {(one.id, one.severity) for one in lost}


@pytest.mark.requirement("DIAG-7", "DIAG-10")
@pytest.mark.parametrize(("ratio", "fires"), [(1e-4, False), (5e-5, True)])
def test_a_rate_that_is_too_low_is_brought_to_where_it_moves_the_weights(make_run, ratio, fires):
    found = {one.id: one for one in diagnose(rated(make_run, ratio, [2.3] * 30).run)}
    assert ("learning_rate_too_low" in found) is fires
    if fires:
        assert found["learning_rate_too_low"].fixes[0].changes == {"optimizer.learning_rate": pytest.approx(0.2)}


@pytest.mark.requirement("DIAG-7", "DIAG-10")
@pytest.mark.parametrize(("loss", "fires"), [(0.12, False), (0.98, True)], ids=["begins well", "begins as guessing"])
def test_what_begins_well_may_move_its_weights_little(make_run, loss, fires):
    recorder = rated(lambda: make_run(loss="mse", target_scaling="standardize"), 5e-5, [loss] * 30)
    recorder.run.write_evidence(Resolved(loss="mse"))
    assert ("learning_rate_too_low" in ids(recorder)) is fires


@pytest.mark.requirement("DIAG-7")
def test_a_warmup_is_counted_at_its_peak(make_run):
    recorder = make_run().steps("train/loss", [2.3] * 30)
    recorder.steps("train/learning_rate", [0.001, 0.002, 0.003, *[0.1] * 27]).steps("train/gradient_norm", [1.0] * 30)
    recorder.steps("watch/update_ratio_median", [5e-5, 1e-4, 1.5e-4])  # 0.005 of the weights at the peak
    assert "learning_rate_too_low" not in ids(recorder)


@pytest.mark.requirement("DIAG-7")
@pytest.mark.parametrize(("jump", "fires"), [(15.0, False), (30.0, True)])
def test_one_wild_batch_after_calm_steps_is_a_bad_sample(make_run, jump, fires):
    recorder = rated(make_run, 0.01, [2.3] * 10 + [jump] + [2.3] * 10)
    assert ("bad_samples" in ids(recorder)) is fires


@pytest.mark.requirement("DIAG-7")
def test_the_first_wild_row_is_the_cause_of_the_wilder_ones_behind_it(make_run):
    losses = [2.3] * 6 + [96.0] + [2.3] * 20 + [270.0] + [2.3] * 12
    recorder = make_run().steps("train/loss", losses).steps("train/learning_rate", [0.1] * len(losses))
    recorder.steps("watch/update_ratio_median", [0.003] * 3 + [0.01] * 9 + [0.4] * 15)
    assert next(one for one in diagnose(recorder.run) if one.id == "bad_samples").step == 7
    (jump,) = sudden_jump(RunRecord(recorder.run))
    assert (jump.step, round(jump.value)) == (7, 42)


@pytest.mark.requirement("DIAG-7")
@pytest.mark.parametrize(("rows", "fires"), [(324, False), (320, True)])
def test_one_wrong_row_in_an_epochs_last_batch_of_few_is_no_bad_sample(make_run, rows, fires):
    recorder = rated(make_run, 0.01, [0.7] * 5 + [0.2] * 34 + [2.5]).epochs(train_loss=[0.5, 0.2, 0.2, 0.2])
    recorder.run.write_evidence(Data(splits={"train": Split(size=rows)}))
    recorder.run.write_evidence(Resolved(batch_size=32, accumulation_steps=1))
    assert ("bad_samples" in ids(recorder)) is fires


@pytest.mark.requirement("DIAG-7")
@pytest.mark.parametrize(("loss", "fires"), [(math.nan, False), (2.3, True)])
def test_a_first_loss_that_is_no_number_is_no_gradient_that_begins_wild(make_run, loss, fires):
    recorder = make_run().steps("train/loss", [loss]).steps("train/gradient_norm", [math.nan if not fires else 5e3])
    assert bool(first_gradient_norm(RunRecord(recorder.run))) is fires
    assert "exploding_gradients" not in ids(recorder)


def classes(recorder, counts, loss="cross_entropy"):
    split = Split(size=sum(counts), classes={str(place): count for place, count in enumerate(counts)})
    recorder.run.write_evidence(Data(splits={"train": split, "validation": split}))
    recorder.run.write_evidence(Resolved(loss=loss))
    return recorder


@pytest.mark.requirement("DIAG-7")
def test_a_loss_that_climbs_in_its_only_two_steps_is_no_bad_sample(make_run):
    """Of two steps the median is their mean: the climb itself."""
    recorder = make_run().steps("train/loss", [67.6, 7.4e12, math.nan])
    recorder.steps("train/gradient_norm", [3.3e3, 6.0e13, math.nan])
    assert "bad_samples" not in ids(recorder)


@pytest.mark.requirement("DIAG-7")
@pytest.mark.parametrize(("accuracy", "fires"), [(0.9, True), (0.93, False)])
def test_a_model_that_answers_the_commonest_class_has_learned_nothing(make_run, accuracy, fires):
    recorder = make_run().epochs(validation_accuracy=[accuracy] * 4)
    assert ("class_imbalance" in ids(classes(recorder, [90, 10]))) is fires


@pytest.mark.requirement("DIAG-7")
def test_learned_by_heart_and_useless_on_others_is_unrelated_labels_and_not_overfitting_first(make_run):
    recorder = make_run().steps("train/loss", [2.3] * 5 + [1.0] * 45)
    recorder.epochs(
        train_loss=[2.3, 2.0, 1.5, 1.2, 1.0, 0.8], validation_loss=[2.31, 2.4, 2.6, 2.8, 3.0, 3.2],
        train_accuracy=[0.1, 0.2, 0.4, 0.5, 0.6, 0.7], validation_accuracy=[0.1] * 6,
    )  # fmt: skip
    found = shown(diagnose(classes(recorder, [100] * 10).run))
    assert found[0][0] == "labels_unrelated"
    assert ("overfitting", "warning", "labels_unrelated") in found


@pytest.mark.requirement("DIAG-7")
def test_a_good_start_has_nothing_to_lose_or_to_reduce(make_run):
    noise = [0.002, 0.004, 0.001, 0.03, 0.002] * 20
    recorder = make_run().steps("train/loss", noise).epochs(train_loss=[0.01] * 6, validation_loss=[0.01] * 6)
    assert ids(classes(recorder, [100] * 3)) == []


@pytest.mark.requirement("DIAG-7")
def test_two_networks_against_each_other_are_judged_by_who_wins(make_run):
    def gan(name, discriminator, generator):
        recorder = make_run(name).steps("train/loss", [2.0] * 50 + [15.0] * 50)
        recorder.steps("train/discriminator_loss", [discriminator] * 100)
        return ids(recorder.steps("train/generator_loss", [generator] * 100))

    assert gan("even", 1.3, 0.8) == []
    assert gan("won", 0.001, 15.0) == ["discriminator_wins"]
