"""What the clean room computes of whole splits: any shape of rows, several tasks, samples with intervals."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from torch.nn import functional as F  # noqa: N812 - torch's own name for it

from trainwright.trainer.metrics import BUILT_IN

pytestmark = pytest.mark.requirement("GATE-6")


def test_rows_of_different_shapes_are_evaluated_one_shape_at_a_time(room: Any) -> None:
    draws = np.random.default_rng(1)
    lengths = draws.integers(1, 7, 40)
    tokens = [draws.normal(size=(length, 4)).astype(np.float32) for length in lengths]
    targets = [draws.integers(0, 3, length) for length in lengths]
    targets[3][0] = -100
    inputs = np.concatenate([row.reshape(-1) for row in tokens])
    record = room.order["rows"]["record"]["splits"]["validation"]
    record |= {"rows": 40, "size": 40, "target": room.array("target", np.concatenate(targets), lengths[:, None])}
    record["inputs"] = {"input": room.array("input", inputs, np.stack([lengths, np.full(40, 4)], 1))}
    weights = draws.normal(size=(4, 3)).astype(np.float32)
    room.order["program"] = room.program(weights[None], "tokens.onnx")
    room.order |= {"metrics": ["accuracy", "perplexity"], "task": "language_model", "loss": {"name": "next_token"}}
    found = room.validation()["metrics"]
    logits, wanted = torch.from_numpy(np.concatenate(tokens) @ weights), torch.from_numpy(np.concatenate(targets))
    loss = F.cross_entropy(logits, wanted, ignore_index=-100)
    counted = wanted != -100
    assert found["loss"] == pytest.approx(float(loss), rel=1e-6)
    assert found["perplexity"] == pytest.approx(float(loss.exp()), rel=1e-6)
    assert found["accuracy"] == pytest.approx(float((logits.argmax(1) == wanted)[counted].float().mean()))


def test_whole_numbers_become_what_the_program_takes(room: Any) -> None:
    whole = np.random.default_rng(2).integers(0, 255, (90, 4)).astype(np.uint8)
    room.fix(whole, room.targets)
    byte = room.validation()
    room.fix(whole.astype(np.float32), room.targets)
    assert byte == room.validation()


def test_a_batch_has_as_many_rows_as_their_outputs_allow(room: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    from trainwright.trainer.clean_room import evaluation

    batches: list[int] = []
    honest = evaluation.open_program

    def counting(order: Any, threads: int) -> Any:
        program = honest(order, threads)
        whole = type(program).__call__
        monkeypatch.setattr(
            type(program), "__call__", lambda self, given: (batches.append(len(given["input"])), whole(self, given))[1]
        )
        return program

    monkeypatch.setattr(evaluation, "open_program", counting)
    monkeypatch.setattr(evaluation, "OUTPUT_BYTES", 20 * 3 * 4)  # of twenty rows
    monkeypatch.setattr(evaluation.Alone, "compare", lambda *_: None)  # whose calls are of one row each
    small = evaluation.evaluate(room.order)["splits"]
    assert batches == [2, 20, 20, 20, 20, 8]
    assert small["validation"]["metrics"] == pytest.approx(room.validation()["metrics"])


@pytest.mark.parametrize("size", [90, 5000])
def test_numbers_of_all_rows_and_of_a_sample_come_with_intervals_round_them(room: Any, size: int) -> None:
    room.fix(room.inputs, room.targets, size=size)
    found = room.validation()
    assert (found["size"], found["rows"]) == (size, 90)
    assert set(found["intervals"]) == {"accuracy", "f1", "loss"}
    for name, (low, high) in found["intervals"].items():
        assert low < found["metrics"][name] < high


def test_rows_of_one_group_are_drawn_together_so_intervals_are_of_the_groups(room: Any) -> None:
    alone = room.validation()["intervals"]
    groups = np.repeat(np.arange(9), 10)
    right = np.where(groups % 3 > 0, room.logits.argmax(1), (room.logits.argmax(1) + 1) % 3)
    room.fix(room.inputs, right.astype(room.targets.dtype))
    rows = room.validation()
    room.order["rows"]["record"]["splits"]["validation"]["groups"] = room.array("groups", groups)
    found = room.validation()
    assert (rows.get("groups"), found["groups"], found["grouped_by"]) == (None, 9, "groups")
    assert found["metrics"] == rows["metrics"]
    widths = [np.diff(one["intervals"]["accuracy"])[0] for one in (rows, found)]
    assert widths[1] > 1.5 * widths[0]
    assert set(found["intervals"]) == set(alone)


def test_a_program_that_answers_by_the_rows_beside_a_row_is_refused(room: Any) -> None:
    from onnx import TensorProto, helper

    graph = helper.make_graph(
        [
            helper.make_node("ReduceMean", ["input"], ["mean"], keepdims=1, axes=[0]),
            helper.make_node("Sub", ["input", "mean"], ["output"]),
        ],
        "centred", [helper.make_tensor_value_info("input", TensorProto.FLOAT, ["rows", 4])],
        [helper.make_tensor_value_info("output", TensorProto.FLOAT, None)],
    )  # fmt: skip
    content = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=10).SerializeToString()
    room.order["program"] = room.written("centred.onnx", content)
    answer = room.answer()
    assert "of 90 rows drawn get other outputs" in answer["problem"]
    assert "track_running_stats=True" in answer["remedy"]


@pytest.mark.parametrize("offset", [0.0, 1e4])
def test_a_small_share_of_the_neighbours_is_too_much_and_a_constant_hides_it_not(room: Any, offset: float) -> None:
    from onnx import TensorProto, helper, numpy_helper

    graph = helper.make_graph(
        [
            helper.make_node("ReduceMean", ["input"], ["mean"], keepdims=1, axes=[0]),
            helper.make_node("Mul", ["mean", "share"], ["little"]),
            helper.make_node("Add", ["input", "little"], ["nudged"]),
            helper.make_node("Add", ["nudged", "offset"], ["output"]),
        ],
        "nudged", [helper.make_tensor_value_info("input", TensorProto.FLOAT, ["rows", 4])],
        [helper.make_tensor_value_info("output", TensorProto.FLOAT, None)],
        [numpy_helper.from_array(np.float32(value), name) for name, value in (("share", 0.5), ("offset", offset))],
    )  # fmt: skip
    content = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=10).SerializeToString()
    room.fix(room.inputs + np.float32(0.5), room.targets)
    room.order["program"] = room.written("nudged.onnx", content)
    assert "get other outputs" in room.answer()["problem"]


def test_rows_go_through_the_program_in_an_order_that_nobody_chose(room: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    from trainwright.trainer.clean_room import evaluation

    order = np.argsort(room.targets, kind="stable")
    room.fix(room.inputs[order], room.targets[order])
    room.order |= {"groups": [{"name": "class", "of": "target"}]}
    told, seen = room.validation(), list[np.ndarray]()
    honest = evaluation.Comparison.add
    monkeypatch.setattr(evaluation.Comparison, "add", lambda self, outputs, given: (
        seen.append(np.asarray(given)), honest(self, outputs, given))[1])  # fmt: skip
    again = evaluation.evaluate(room.order)["splits"]["validation"]
    targets = np.concatenate(seen)
    assert sorted(targets.tolist()) == sorted(room.targets.tolist())
    assert np.count_nonzero(np.diff(targets)) > 30, "sorted rows change their class twice"
    assert again["metrics"] == told["metrics"]
    shares = {name: found["rows"] for name, found in told["slices"].items()}
    assert shares == {f"class={value}": int((room.targets == value).sum()) for value in range(3)}
    right = (room.logits.argmax(1) == room.targets)[room.targets == 1].mean()
    assert told["slices"]["class=1"]["metrics"]["accuracy"] == pytest.approx(right)


def test_rows_whose_only_target_counts_nowhere_are_refused(room: Any) -> None:
    room.fix(room.inputs, np.where(np.arange(90) < 4, -100, room.targets))
    assert room.answer()["problem"].startswith("4 rows have the target -100, which no metric counts")


def test_what_is_not_built_in_is_named_with_its_reason(room: Any) -> None:
    room.order |= {"metrics": ["accuracy", "mine", "auc"], "loss": {"name": "mine"}}
    found = room.validation()
    assert set(found["metrics"]) == {"accuracy"}
    assert "none of the built-in" in found["not_computed"]["mine"]
    assert "do not fit" in found["not_computed"]["auc"]
    assert "mine" in found["not_computed"]["loss"]
    room.order["loss"] = {"name": "class_balanced", "args": {"beta": 0.9}}
    assert "measured on the train split" in room.validation()["not_computed"]["loss"]
    room.order |= {"loss": None, "metrics": ["perplexity"]}
    assert set(room.validation()["not_computed"]) == {"loss", "perplexity"}


def test_a_number_that_is_not_finite_is_not_computed(room: Any) -> None:
    room.fix(room.inputs[:, :4], np.zeros(90, dtype=np.int64))
    room.order |= {"metrics": ["r2"], "loss": None}
    room.order["program"] = room.program(np.zeros((4, 1), np.float32), "one.onnx")
    assert "all 90 targets are 0" in room.validation()["not_computed"]["r2"]


def test_soft_targets_count_as_the_likeliest_class(room: Any) -> None:
    soft = np.random.default_rng(3).dirichlet([1, 1, 1], 90).astype(np.float32)
    room.fix(room.inputs, soft)
    found = room.validation()["metrics"]
    assert found["accuracy"] == np.mean(room.logits.argmax(1) == soft.argmax(1))
    loss = F.cross_entropy(torch.from_numpy(room.logits), torch.from_numpy(soft))
    assert found["loss"] == pytest.approx(float(loss), rel=1e-6)


def test_scaled_targets_are_measured_in_units_and_their_loss_in_deviations(room: Any) -> None:
    prices = (room.logits[:, :1] * 3 + 50).astype(np.float32)
    weights = np.ones((4, 1), np.float32)
    room.fix(room.inputs, prices)
    room.order["program"] = room.program(weights, "price.onnx")
    room.order |= {"metrics": ["mae", "r2"], "loss": {"name": "mse"}, "task": "regression"}
    room.order["rows"]["record"]["target_scaling"] = {"mean": [50.0], "scale": [3.0]}
    found, guessed = room.validation()["metrics"], room.inputs @ weights
    assert found["mae"] == pytest.approx(np.abs(guessed - prices).mean(), rel=1e-5)
    assert found["loss"] == pytest.approx(np.square((guessed - prices) / 3.0).mean(), rel=1e-5)
    room.fix(np.abs(room.inputs), prices)
    room.order["rows"]["record"]["target_scaling"] = {"mean": [4.0], "scale": [0.5], "added": 1.0}
    logs = [np.log1p(numbers.astype(float)) for numbers in (np.abs(room.inputs) @ weights, prices)]
    assert room.validation()["metrics"]["loss"] == pytest.approx(np.square((logs[0] - logs[1]) / 0.5).mean(), rel=1e-5)


@pytest.mark.requirement("PIPE-3")
def test_each_of_several_targets_has_the_goals_metric_and_its_error_in_its_own_unit(room: Any) -> None:
    wide = np.random.default_rng(0).normal(size=(len(room.inputs), 3)).astype(np.float32) * [0.01, 9.0, 900.0]
    room.fix(room.inputs, wide.astype(np.float32))
    room.order |= {"metrics": ["worst_r2"], "loss": {"name": "mse"}, "task": "regression", "targets": ["p", "m", "kg"]}
    answer = room.validation()
    each = [target["metrics"] for target in answer["targets"]]
    assert answer["metrics"]["worst_r2"] == pytest.approx(min(one["r2"] for one in each))
    apart = np.abs(room.logits - wide.astype(np.float32)).mean(axis=0)
    assert [one["mae"] for one in each] == pytest.approx(apart.tolist(), rel=1e-5)


def test_several_tasks_are_compared_each_in_its_columns(room: Any) -> None:
    from trainwright.trainer.objectives.multi_task import MultiTask, build_parts, metrics_of
    from trainwright.trainer.objectives.sections import MultiTaskSection

    tasks = {
        "kind": {"loss": "cross_entropy", "outputs": 2, "metrics": ["accuracy", "f1"], "weight": 0.5},
        "size": {"loss": {"use": "huber", "args": {"delta": 0.5}}, "outputs": 1, "metrics": ["mae", "r2"]},
    }
    kinds, sizes = room.targets % 2, room.inputs[:, 0]
    targets = np.stack([kinds, sizes], axis=1)
    room.fix(room.inputs, targets)
    section = MultiTaskSection.model_validate({"name": "multi_task", "weighting": "fixed", "tasks": tasks})
    room.order["tasks"] = section.model_dump(mode="json")["tasks"]
    found = room.validation()["metrics"]
    parts, outputs = build_parts(section), torch.from_numpy(room.logits)
    wanted = torch.from_numpy(targets)
    total = sum(part.weight * part.compute(outputs, wanted) for part in MultiTask(parts, None).parts)
    values = {metric.name: float(metric.compute(outputs, wanted)) for metric in metrics_of(parts, section)}
    assert found == pytest.approx({"loss": float(total), **values}, rel=1e-5)


def test_a_program_is_not_given_the_targets_of_tasks_that_stand_among_the_samples_values(room: Any) -> None:
    kinds = room.targets % 2
    record = room.order["rows"]["record"]["splits"]["validation"]
    record |= {"target": None, "inputs": {**record["inputs"], "kind": room.array("kind", kinds)}}
    room.order["tasks"] = {"kind": {"loss": "cross_entropy", "outputs": 2, "metrics": ["accuracy"]}}
    honest = room.validation()["metrics"]["kind_accuracy"]
    assert honest == pytest.approx((room.logits[:, :2].argmax(1) == kinds).mean())
    room.order["program"] = room.program(np.array([[-1.0, 1.0]], np.float32), "answers.onnx", takes="kind")
    assert "The program wants kind; the rows have input." in room.answer()["problem"]


def test_a_metric_of_the_engine_is_the_clean_rooms(room: Any) -> None:
    outputs, targets = torch.from_numpy(room.logits), torch.from_numpy(room.targets)
    found = room.validation()["metrics"]
    assert found["f1"] == pytest.approx(BUILT_IN["f1"].compute(outputs, targets), abs=1e-12)
