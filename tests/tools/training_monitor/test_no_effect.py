"""A key that was set and changed nothing is told: by the worker's own list, or by an earlier run that was the same."""

from __future__ import annotations

import math
import shutil

import pytest

from trainwright.tools.training_monitor import compare_runs, diagnose, no_effect
from trainwright.trainer.config import parse_config
from trainwright.trainer.run import RunKind, RunState
from trainwright.trainer.run.evidence import Resolved

LOSSES = [2.0, 1.5, 1.25, 1.125]


@pytest.fixture
def trained(make_run):
    """Make a run that took these losses, and began at a given second."""

    def make(name, began, losses=LOSSES, **options):
        recorder = make_run(name, **options)
        with recorder.run.metrics(writer=True) as metrics:
            metrics.write([("train/loss", step, loss, began + step) for step, loss in enumerate(losses, 1)])
        return recorder

    return make


def alerts(run):
    return [alert for alert in diagnose(run) if alert.id == "no_effect"]


@pytest.mark.requirement("DIAG-7")
def test_keys_that_the_worker_did_not_use_are_named_with_the_call_that_takes_them_out(make_run):
    run = make_run(loader={"prefetch_factor": 4}).run
    run.write_evidence(Resolved(ignored_keys=["loader.prefetch_factor"]))
    (alert,) = alerts(run)
    assert "1 keys are set (allowed: 0) of which this run makes no use: loader.prefetch_factor." in alert.message
    assert alert.fixes[0].changes == {"loader.prefetch_factor": None}
    assert alert.document == "diagnostics/no_effect.md"
    run.write_evidence(Resolved(ignored_keys=[]))
    assert alerts(run) == []


@pytest.mark.requirement("DIAG-7", "REPRO-5")
def test_a_changed_key_that_left_every_loss_as_it_was_is_told_on_the_later_run(trained):
    first = trained("first", began=100.0)
    second = trained("second", began=200.0, optimizer={"weight_decay": 0.5}, logging={"every_n_steps": 1})
    assert alerts(first.run) == []
    (alert,) = alerts(second.run)
    assert "optimizer.weight_decay 0.01 -> 0.5 (against first)" in alert.message
    assert "logging" not in alert.message
    assert not alert.fixes[0].changes, "what keeps it from acting is not known: advice only"
    (note,) = compare_runs([first.run, second.run]).notes
    assert note == "The losses of first and second are the same bit for bit: optimizer.weight_decay had no effect."


@pytest.mark.requirement("DIAG-7", "REPRO-1")
def test_a_seed_without_effect_is_told(trained):
    trained("first", began=100.0)
    (alert,) = alerts(trained("second", began=200.0, seed=7).run)
    assert "seed 42 -> 7" in alert.message


@pytest.mark.requirement("DIAG-7")
@pytest.mark.parametrize(
    ("losses", "options"),
    [
        ([2.0, math.nextafter(1.5, 2.0), 1.25, 1.125], {"seed": 7}),  # one bit of one step
        ([*LOSSES, 1.0], {"seed": 7}),  # one step more
        (LOSSES, {"checkpoints": {"checkpoint_every_n_epochs": 2}}),  # says what is kept, not how it trains
        (
            LOSSES,
            {"model": {"use": "mlp", "args": {"dropout": 0.1, "activation": "relu"}}},
        ),  # as it is where it is left out
        (LOSSES, {"loss": {"use": "cross_entropy", "args": {"label_smoothing": 0.0}}}),
        (LOSSES, {"data": {"use": "digits", "split": {"folds": 3}}}),  # the first fold has the same rows
        (LOSSES, {"seed": 7, "kind": RunKind.REPLAY}),
        (LOSSES, {"seed": 7, "kind": RunKind.SMOKE}),
    ],
)
def test_what_is_no_whole_training_or_differs_in_a_bit_raises_nothing(trained, losses, options):
    trained("first", began=100.0)
    assert alerts(trained("second", began=200.0, losses=losses, **options).run) == []


@pytest.mark.requirement("DIAG-7")
def test_a_run_is_compared_once_it_has_ended_and_damaged_neighbours_are_passed_over(trained):
    first = trained("first", began=100.0)
    second = trained("second", began=200.0, seed=7)
    second.ended(RunState.INTERRUPTED)
    assert alerts(second.run)
    (first.run.path / "run.json").write_text("{", encoding="utf-8")
    (first.run.path.parent / "stray").mkdir()
    assert alerts(second.run) == []
    shutil.rmtree(first.run.path)
    assert alerts(second.run) == []


@pytest.mark.requirement("DIAG-7")
def test_keys_of_evaluation_are_beside_training():
    assert no_effect.is_beside_training("evaluation_gate.reference")
    assert not no_effect.is_beside_training("optimizer.learning_rate")


def test_the_keys_beside_training_exist():
    whole = parse_config({"model": {"use": "mlp"}, "data": {"use": "digits"}}).model_dump(mode="json")
    for key in no_effect.BESIDE_TRAINING:
        if key.startswith("data.args."):
            continue  # of one source
        section = whole
        for part in key.split("."):
            assert part in section, key
            section = section[part]


@pytest.mark.requirement("DIAG-7", "MON-4")
def test_of_many_runs_none_that_is_later_is_read(trained, monkeypatch):
    first = trained("baseline-iris-20260101-000000-abcdef", began=1767225600.0)
    trained("trial-iris-20260101-000001-abcdef", began=1767225601.0)
    trained("trial-iris-20260301-000000-abcdef", began=1772323200.0)
    read, beginning = [], no_effect._beginning
    monkeypatch.setattr(no_effect, "_beginning", lambda path: (read.append(path.name), beginning(path))[1])
    assert alerts(first.run) == []
    assert read == ["baseline-iris-20260101-000000-abcdef", "trial-iris-20260101-000001-abcdef"]
