"""Fixes are computed from the run's own configuration, and what they give is valid."""

from __future__ import annotations

import math

import pytest

from trainwright.tools.training_monitor import DOCUMENTS, diagnose, load_diagnostics
from trainwright.tools.training_monitor.fixes import compute_fix
from trainwright.tools.training_monitor.record import RunRecord
from trainwright.trainer.config import apply_changes, parse_config
from trainwright.trainer.run.evidence import Resolved, Summary

CONFIGURATIONS = {
    "defaults": {},
    "at the bounds": {
        "optimizer": {"learning_rate": 0.5, "weight_decay": 0.5},
        "model": {"use": "mlp", "args": {"dropout": 0.6}},
        "loader": {"batch_size": 1, "num_workers": 64, "pin_memory": True},
        "training": {"epochs": 5000, "clip_norm": 0.1, "precision": "bf16"},
    },
    "a task": {"task": {"use": "adapter.py:build", "args": {"dropout": 0.0}}, "model": None, "data": None},
    "warmup in steps": {"schedule": {"warmup_steps": 7}, "early_stopping": {"enabled": False, "patience_epochs": 3}},
}


def fixes_of(run, name):
    (alert,) = [alert for alert in diagnose(run) if alert.id == name]
    return {fix.id: fix.changes for fix in alert.fixes}


@pytest.mark.requirement("DIAG-8")
@pytest.mark.parametrize("sections", CONFIGURATIONS.values(), ids=CONFIGURATIONS)
@pytest.mark.parametrize("diagnostic", load_diagnostics(), ids=lambda diagnostic: diagnostic.id)
def test_every_fix_of_every_document_gives_a_valid_configuration(make_run, diagnostic, sections):
    record = RunRecord(make_run(**sections).run)
    values = record.config.model_dump(mode="json")
    for rule in diagnostic.fixes:
        fix = compute_fix(rule, record)
        if fix is not None and fix.changes:
            changed = parse_config(apply_changes(values, fix.changes))
            assert changed != record.config


@pytest.mark.requirement("DIAG-1", "DIAG-8")
def test_the_fixes_of_a_nan_loss_divide_the_rate_by_ten_and_clip_at_one(make_run):
    run = make_run(optimizer={"learning_rate": 0.03}).steps("train/loss", [math.nan]).run
    fixes = fixes_of(run, "nan_loss")
    assert fixes["lower_learning_rate"] == {"optimizer.learning_rate": 0.003}
    assert fixes["clip_gradients"] == {"training.clip_norm": 1.0}
    assert fixes["check_preprocessing"] == {}
    assert "full_precision" not in fixes, "the run is in fp32 already"


@pytest.mark.requirement("DIAG-2", "DIAG-8")
def test_dropout_is_a_change_only_for_a_model_that_takes_it(make_run):
    def overfitted(name, **sections):
        return make_run(name, **sections).epochs(train_accuracy=[1.0] * 3, validation_accuracy=[0.7] * 3).run

    assert fixes_of(overfitted("has"), "overfitting")["dropout"] == {"model.args.dropout": 0.2}
    own = {"model": {"use": "mymodels:Net", "args": {"width": 32}}}
    assert fixes_of(overfitted("own", **own), "overfitting")["dropout"] == {}
    told = overfitted("told", **own)
    told.write_evidence(Resolved(model_arguments=["width", "dropout"]))
    assert fixes_of(told, "overfitting")["dropout"] == {"model.args.dropout": 0.1}


@pytest.mark.requirement("DIAG-7", "DIAG-8")
def test_more_epochs_are_no_fix_where_early_stopping_ended_the_run(make_run):
    def underfitted(name, reason):
        recorder = make_run(name).steps("train/loss", [1.0] * 100).epochs(train_loss=[0.99] * 10)
        recorder.epochs(validation_loss=[0.9] * 10, validation_accuracy=[0.5] * 10)
        recorder.run.write_evidence(Summary(stop_reason=reason))
        return recorder.run

    assert "training.epochs" in fixes_of(underfitted("whole", "completed"), "underfitting")["train_longer"]
    assert "train_longer" not in fixes_of(underfitted("early", "early_stopping"), "underfitting")


@pytest.mark.requirement("DIAG-3", "DIAG-8")
def test_a_tighter_clip_is_never_loosened(make_run):
    run = make_run(training={"clip_norm": 0.5}).steps("train/gradient_norm", [1e3] * 5).run
    assert "clip_gradients" not in fixes_of(run, "exploding_gradients")


@pytest.mark.requirement("DIAG-6", "DIAG-8")
def test_a_rate_past_the_bound_is_not_turned_the_other_way(make_run):
    run = make_run(optimizer={"learning_rate": 0.5}).epochs(validation_accuracy=[0.5] * 12).run
    assert "raise_learning_rate" not in fixes_of(run, "convergence_stall")


def test_half_of_a_batch_of_one_is_advice_because_the_update_would_grow(make_run):
    (diagnostic,) = [d for d in load_diagnostics(DOCUMENTS) if d.id == "out_of_memory"]
    fix = compute_fix(diagnostic.fixes[0], RunRecord(make_run(loader={"batch_size": 1}).run))
    assert fix.changes == {}


def test_a_fix_says_its_exact_call(make_run):
    (alert,) = diagnose(make_run().steps("train/gradient_norm", [1e3] * 5).run)
    assert alert.fixes[0].call("digits") == 'configure(project="digits", changes={"training.clip_norm": 1.0})'
