"""Runs side by side: only what differs is told."""

from __future__ import annotations

import pytest

from trainwright.tools.training_monitor import Goal, compare_runs
from trainwright.trainer.run.evidence import Code, Data, Environment, Split


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


@pytest.fixture
def seeded(make_run):
    """`seeded(values, **sections)` makes a run of one configuration for each value, on seeds of its own."""

    def make(name, values, **sections):
        runs = []
        for seed, value in enumerate(values):
            recorder = make_run(f"{name}-{seed}", seed=seed, **sections)
            recorder.epochs(validation_accuracy=[value - 0.1, value])
            runs.append(recorder.run)
        return runs

    return make


@pytest.mark.requirement("MON-3")
def test_runs_that_differ_in_their_seed_alone_are_one_group_with_mean_and_deviation(seeded):
    values = [0.95, 0.96, 0.97]
    found = compare_runs([*seeded("one", values), *seeded("other", [0.90], loader={"batch_size": 64})])
    first, second = found.groups
    assert (first.runs, first.seeds, first.metric) == (["one-0", "one-1", "one-2"], 3, "validation/accuracy")
    assert first.mean == pytest.approx(0.96)
    assert first.deviation == pytest.approx(0.01)
    assert (second.seeds, second.deviation) == (1, None)
    assert any(note.startswith("No claim that one is better: 1 seed (other-0)") for note in found.notes)


@pytest.mark.requirement("MON-3")
def test_a_difference_is_claimed_only_of_enough_seeds_that_lie_apart(seeded):
    large = {"loader": {"batch_size": 64}}
    apart = compare_runs([*seeded("a", [0.91, 0.92, 0.93]), *seeded("b", [0.81, 0.82, 0.83], **large)])
    assert any(note.startswith("a-0 and 2 more is better than b-0 and 2 more") for note in apart.notes)
    near = compare_runs([*seeded("c", [0.90, 0.95, 0.85]), *seeded("d", [0.89, 0.94, 0.86], **large)])
    assert any(note.startswith("No claim that c-0 and 2 more is better") for note in near.notes)


@pytest.mark.requirement("MON-3")
def test_packages_code_and_data_that_differ_are_named(healthy):
    runs = [healthy("a").run, healthy("b").run]
    for run, version, mark in zip(runs, ("2.13", "2.14"), "xy", strict=True):
        run.write_evidence(Environment(fingerprint=mark, packages={"torch": version, "numpy": "2.4"}))
        run.write_evidence(Code(digest=mark, files={"net.py": mark, "same.py": "s", f"{mark}.py": "m"}))
        sizes = {"train": Split(size=100, fingerprint=mark), "test": Split(size=9, fingerprint="t")}
        run.write_evidence(Data(fingerprint=mark, files={"rows.csv": mark}, splits=sizes))
    found = compare_runs(runs)
    assert found.named == {
        "packages": ["torch 2.13 -> 2.14"],
        "code": ["net.py changed", "x.py gone", "y.py new"],
        "data": ["rows.csv changed", "train 100 -> 100 rows, other content"],
    }
    assert set(found.identity_differences) == {"environment", "data", "code"}


@pytest.mark.requirement("MON-3")
def test_of_many_runs_the_best_stand_side_by_side_and_the_rest_is_counted(seeded):
    runs = [seeded(f"r{n}", [0.5 + n / 100], optimizer={"learning_rate": 0.001 * (n + 1)})[0] for n in range(12)]
    found = compare_runs(runs, most=3)
    assert [row.run_id for row in found.runs] == ["r11-0", "r10-0", "r9-0"]
    assert (found.left_out, len(found.groups)) == (9, 12)
    arms = [*seeded("worse", [0.1, 0.2, 0.3], optimizer={"learning_rate": 0.5}), *seeded("better", [0.7, 0.8, 0.9])]
    shown = compare_runs(arms, most=4)
    assert [row.run_id for row in shown.runs] == ["better-2", "worse-2", "better-1", "worse-1"], "each arm in turn"


@pytest.fixture
def numbers(make_run):
    """`numbers(name, losses, r2, **sections)` makes a run that predicts numbers, and chooses by its loss."""

    def make(name, losses, r2, **sections):
        options = {"loss": "mse", "metrics": ["r2"], "selection": {}, **sections}
        return make_run(name, **options).epochs(validation_loss=losses, validation_r2=r2).run

    return make


@pytest.mark.requirement("MON-3")
@pytest.mark.parametrize(
    "other",
    [{"target_scaling": "standardize"}, {"loss": "huber"}, {"loss": {"use": "huber", "args": {"delta": 2.0}}}],
)
def test_losses_of_other_scales_are_refused_with_the_reason_and_the_goal_decides(numbers, other):
    runs = [numbers("raw", [900.0, 800.0], [0.5, 0.7]), numbers("other", [0.9, 0.8], [0.1, 0.2], **other)]
    found = compare_runs(runs, goal=Goal(metric="r2", direction="maximize", target=0.9))
    assert found.notes[0].startswith(f"The losses are not compared: the runs differ in {next(iter(other))} (")
    assert [row.best for row in found.runs] == [{"r2": 0.7}, {"r2": 0.2}]
    assert [(group.runs, group.metric) for group in found.groups] == [
        (["raw"], "validation/r2"), (["other"], "validation/r2"),
    ]  # fmt: skip
    assert compare_runs(runs, most=1).runs[0].run_id == "raw"  # without a goal the metric's own direction


@pytest.mark.requirement("MON-3")
def test_losses_of_other_scales_without_another_metric_claim_nothing(make_run):
    options = {"loss": "mse", "metrics": [], "selection": {}}
    runs = [
        make_run("a", **options).epochs(validation_loss=[900.0]).run,
        make_run("b", **options, target_scaling="standardize").epochs(validation_loss=[0.5]).run,
    ]
    found = compare_runs(runs)
    assert [group.mean for group in found.groups] == [None, None]
    assert not any("better" in note for note in found.notes)


@pytest.mark.requirement("MON-3")
def test_losses_of_one_scale_are_compared(numbers):
    runs = [numbers("a", [900.0, 800.0], [0.5, 0.7]), numbers("b", [90.0, 80.0], [0.8, 0.9], seed=2)]
    found = compare_runs(runs)
    assert (found.losses_compared, [row.best["loss"] for row in found.runs]) == (True, [800.0, 80.0])
