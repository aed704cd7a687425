"""Runs side by side: only what differs is told."""

from __future__ import annotations

import pytest

from trainwright.tools.training_monitor import compare_runs
from trainwright.trainer.run.evidence import Data, Environment


@pytest.mark.requirement("MON-3")
def test_results_and_differing_keys_stand_beside_each_other(make_run):
    first = make_run("first").epochs(validation_accuracy=[0.8, 0.9, 0.85], validation_loss=[0.5, 0.4, 0.45])
    second = make_run("second", optimizer={"learning_rate": 0.01}, loader={"batch_size": 64}).epochs(
        validation_accuracy=[0.7, 0.75]
    )
    found = compare_runs([first.run, second.run])
    assert found.differences == {
        "loader.batch_size": {"first": 32, "second": 64},
        "optimizer.learning_rate": {"first": 0.001, "second": 0.01},
    }
    row = found.runs[0]
    assert (row.best_epoch, row.best, row.final) == (
        2,
        {"accuracy": 0.9, "loss": 0.4},
        {"accuracy": 0.85, "loss": 0.45},
    )
    assert [row.epochs for row in found.runs] == [3, 2]


@pytest.mark.requirement("MON-3")
def test_equal_runs_differ_in_nothing(healthy):
    found = compare_runs([healthy("a").run, healthy("b").run])
    assert (found.differences, found.identity_differences, found.notes) == ({}, {}, [])


@pytest.mark.requirement("MON-3")
def test_other_data_or_environment_is_told_with_its_meaning(healthy):
    runs = [healthy("a").run, healthy("b", seed=7).run]
    for run, mark in zip(runs, "xy", strict=True):
        run.write_evidence(Data(fingerprint=f"blake3:{mark * 64}"))
        run.write_evidence(Environment(fingerprint="blake3:same"))
    found = compare_runs(runs)
    assert set(found.identity_differences) == {"data"}
    assert any("not comparable" in note for note in found.notes)
    assert any("seeds differ" in note for note in found.notes)


def test_a_key_that_only_one_model_has_reads_none_for_the_other(make_run):
    runs = [make_run("a").run, make_run("b", model={"use": "cnn"}).run]
    assert compare_runs(runs).differences["model.args.dropout"] == {"a": 0.1, "b": None}
