"""Slices of the rows, and two programs on the same rows."""

from __future__ import annotations

import numpy as np
import pytest
from tests.trainer.clean_room.conftest import Room

pytestmark = pytest.mark.requirement("PIPE-3")


def _accuracy(room: Room, chosen: np.ndarray) -> float:
    return float((room.logits.argmax(1) == room.targets)[chosen].mean())


def test_a_slice_is_evaluated_on_its_rows_alone(room: Room) -> None:
    high, wanted = room.inputs[:, 1] >= 0.5, room.targets == 2
    room.order["slices"] = [
        {"name": "b>=0.5", "tests": [{"name": "b", "column": 1, "test": ">=", "value": 0.5}]},
        {"name": "kind=c", "tests": [{"name": "kind", "of": "target", "test": "=", "value": 2}]},
        {"name": "both", "tests": [{"name": "b", "column": 1, "test": ">=", "value": 0.5},
                                   {"name": "kind", "of": "target", "test": "=", "value": 2}]},
        {"name": "none", "tests": [{"name": "b", "column": 1, "test": ">", "value": 1e9}]},
        {"name": "z=1", "tests": [{"name": "z", "column": 9, "test": "=", "value": 1}]},
    ]  # fmt: skip
    found = room.validation()["slices"]
    for name, chosen in (("b>=0.5", high), ("kind=c", wanted), ("both", high & wanted)):
        assert found[name]["rows"] == int(chosen.sum())
        assert found[name]["metrics"]["accuracy"] == pytest.approx(_accuracy(room, chosen))
        assert found[name]["metrics"]["loss"] > 0
    assert found["none"] == {"rows": 0, "metrics": {}, "problem": "no row is in it"}
    assert found["z=1"]["problem"] == "the rows have no column z"


def test_a_group_has_a_slice_for_each_of_its_values(room: Room) -> None:
    plan = np.arange(90) % 3
    room.inputs[:, 3] = plan
    room.fix(room.inputs, room.targets)
    room.order["groups"] = [{"name": "plan", "column": 3, "values": {"0": "basic", "1": "plus"}}]
    found = room.validation()["slices"]
    assert {name: one["rows"] for name, one in found.items()} == {"plan=basic": 30, "plan=plus": 30, "plan=2": 30}


def test_each_class_is_counted_as_scikit_learn_counts_it_and_labels_are_not(room: Room) -> None:
    from sklearn.metrics import precision_score, recall_score

    found, predicted = room.validation()["classes"], room.logits.argmax(1)
    of = {"labels": [0, 1, 2], "average": None, "zero_division": 0}
    assert [one["rows"] for one in found] == np.bincount(room.targets).tolist()
    assert [one["found"] / one["rows"] for one in found] == recall_score(room.targets, predicted, **of).tolist()
    assert [one["found"] / one["said"] for one in found] == precision_score(room.targets, predicted, **of).tolist()
    room.fix(room.inputs, (room.logits > 0).astype(np.float32))
    room.order |= {"metrics": ["accuracy"], "loss": {"name": "bce_with_logits", "args": {}}, "task": None}
    assert "classes" not in room.validation()


@pytest.mark.parametrize("kind", ["numbers", "labels"])
def test_each_of_several_targets_has_the_metrics_of_its_column_and_the_whole_is_their_mean(
    room: Room, kind: str
) -> None:
    from sklearn.metrics import f1_score, mean_absolute_error, r2_score, roc_auc_score

    draws = np.random.default_rng(2)
    noisy = room.logits + draws.normal(size=room.logits.shape).astype(np.float32)
    targets = noisy if kind == "numbers" else (noisy > 0).astype(np.float32)
    room.fix(room.inputs, targets)
    by_numbers = {"mae": mean_absolute_error, "r2": r2_score}
    by_labels = {"f1": lambda wanted, logits: f1_score(wanted, logits > 0), "auc": roc_auc_score}
    metrics = by_numbers if kind == "numbers" else by_labels
    loss = {"name": "mse" if kind == "numbers" else "bce_with_logits", "args": {}}
    room.order |= {"metrics": [*metrics], "loss": loss, "task": None, "targets": ["a", "b", "c"]}
    found = room.validation()
    for name, compute in metrics.items():
        each = [compute(targets[:, column], room.logits[:, column]) for column in range(3)]
        assert [one["name"] for one in found["targets"]] == ["a", "b", "c"]
        assert [one["metrics"][name] for one in found["targets"]] == pytest.approx(each)
        assert found["metrics"][name] == pytest.approx(np.mean(each))


def test_two_programs_are_compared_row_by_row(room: Room) -> None:
    other = np.random.default_rng(7).normal(size=(4, 3)).astype(np.float32)
    room.order["beside"] = room.program(other, name="other.onnx")
    found = room.validation()["beside"]
    first, second = (logits.argmax(1) == room.targets for logits in (room.logits, room.inputs @ other))
    assert found["metrics"]["accuracy"] == pytest.approx(float(second.mean()))
    assert found["paired"]["classes"] == {
        "both": int((first & second).sum()), "only_first": int((first & ~second).sum()),
        "only_second": int((~first & second).sum()), "none": int((~first & ~second).sum()),
    }  # fmt: skip
    low, high = found["paired"]["intervals"]["f1"]
    assert low < high
    assert found["paired"]["loss"]["rows"] == 90


def test_two_programs_are_compared_in_a_slice(room: Room) -> None:
    other = np.random.default_rng(7).normal(size=(4, 3)).astype(np.float32)
    beside = room.program(other, name="other.onnx")
    tests = [{"name": "x", "column": 0, "test": ">", "value": 0}]
    room.order |= {"beside": beside, "paired_slices": [{"name": "x>0", "tests": tests}, {"name": "none", "tests": [
        {"name": "x", "column": 0, "test": ">", "value": 99}]}]}  # fmt: skip
    found = room.validation()["beside"]["paired"]["slices"]
    chosen = room.inputs[:, 0] > 0
    right = [(logits.argmax(1) == room.targets)[chosen] for logits in (room.logits, room.inputs @ other)]
    assert found.keys() == {"x>0"}
    assert found["x>0"]["rows"] == chosen.sum()
    alone = {"only_first": int((right[0] & ~right[1]).sum()), "only_second": int((~right[0] & right[1]).sum())}
    assert alone.items() <= found["x>0"]["classes"].items()
    assert found["x>0"]["differences"]["accuracy"] == pytest.approx(right[0].mean() - right[1].mean())
    low, high = found["x>0"]["intervals"]["accuracy"]
    assert low < found["x>0"]["differences"]["accuracy"] < high


def test_two_programs_are_compared_on_rows_by_their_places_in_one_split(room: Room) -> None:
    other = np.random.default_rng(7).normal(size=(4, 3)).astype(np.float32)
    places = [*range(3, 60, 2)]
    slices = [
        {"name": "kept", "split": "validation", "places": places},
        {"name": "none", "split": "test", "places": places},
    ]
    room.order |= {"beside": room.program(other, name="other.onnx"), "paired_slices": slices}
    right = [logits.argmax(1) == room.targets for logits in (room.logits, room.inputs @ other)]
    for only in (None, [*range(3, 90)]):
        room.order["only"] = {} if only is None else {"validation": only}
        found = room.validation()["beside"]["paired"]["slices"]
        assert found.keys() == {"kept"}
        kept = found["kept"]
        assert kept["rows"] == len(places)
        assert kept["differences"]["accuracy"] == pytest.approx(right[0][places].mean() - right[1][places].mean())
        assert kept["loss"]["mean"] == pytest.approx(kept["differences"]["loss"])


def test_a_program_that_cannot_take_the_rows_is_a_problem_of_its_own(room: Room) -> None:
    room.order["beside"] = room.program(np.ones((7, 3), dtype=np.float32), name="other.onnx")
    found = room.validation()
    assert "problem" in found["beside"]
    assert found["metrics"]["accuracy"] == pytest.approx(_accuracy(room, np.ones(90, dtype=bool)))
