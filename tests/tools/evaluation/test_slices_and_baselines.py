"""Slices, groups and a named baseline of the evaluation gate, and paired tests: by the exported programs alone."""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from scipy import stats
from tests.tools.evaluation.conftest import Evaluated

from trainwright.tools.evaluation import Others, evaluate_program
from trainwright.tools.evaluation.baseline import Named, record_beside
from trainwright.tools.evaluation.sealed import Sealed
from trainwright.tools.evaluation.slices import slice_orders
from trainwright.tools.evaluation.statistics import statistics_of
from trainwright.tools.reports.slices import _rows_text
from trainwright.tools.verification.evaluations import figures_again
from trainwright.trainer.base.errors import ConfigurationError
from trainwright.trainer.clean_room.intervals import Resampling
from trainwright.trainer.clean_room.paired import moments_of
from trainwright.trainer.config import parse_config
from trainwright.trainer.data.assemble import from_loaded
from trainwright.trainer.data.sections import SplitSection
from trainwright.trainer.data.sources.source import Loaded
from trainwright.trainer.data.splits import Splits
from trainwright.trainer.data.tensors import TensorSamples
from trainwright.trainer.evidence.split_rows import record_split_rows
from trainwright.trainer.run import RunDirectory, RunKind
from trainwright.trainer.run.artifacts import Program
from trainwright.trainer.run.digests import run_digests
from trainwright.trainer.run.evidence import Data

pytestmark = pytest.mark.requirement("PIPE-3")

GATE = {
    "slices": {"b>=0.5 & species=versicolor": {"accuracy": 0.5}},
    "groups": {"species": {}},  # told, without a bound
}
CLASSES = ["setosa", "versicolor", "virginica"]


def _with_columns(evaluated: Evaluated, **gate: Any) -> None:
    evaluated.rows.write_evidence(
        Data(places={"a": 0, "b": 1, "c": 2, "d": 3}, class_names=CLASSES, fingerprint="blake3:1")
    )
    evaluated.run.write_evidence(Data(fingerprint="blake3:1"))
    evaluated.configure(evaluation_gate=gate, data={"use": "csv", "args": {"path": "iris.csv", "target": "species"}})


def test_slices_and_groups_are_certified_with_the_run(evaluated: Evaluated) -> None:
    _with_columns(evaluated, **GATE)
    found = evaluated.evaluation()
    slices = found.slices()
    right, targets = evaluated.room.logits.argmax(1) == evaluated.room.targets, evaluated.room.targets
    chosen = (evaluated.room.inputs[:, 1] >= 0.5) & (targets == 1)
    assert slices["b>=0.5 & species=versicolor"]["metrics"]["accuracy"] == pytest.approx(right[chosen].mean())
    assert [slices[f"species={name}"]["rows"] for name in CLASSES] == [
        int((targets == code).sum()) for code in range(3)
    ]


@pytest.mark.parametrize(
    ("name", "error", "remedy"),
    [
        ("bb>=1", "no column 'bb'", "Columns: a, b, c, d, species"),
        ("species=setos", "'setos' is no value of the column. Near: setosa", "Values: setosa, versicolor, virginica"),
        ("b=high", "'high' is no value of the column", "The column holds numbers"),
        ("basic plan", "no test of a column", "Write plan=basic"),
    ],
)
def test_a_slice_that_is_not_in_the_data_is_named(name: str, error: str, remedy: str) -> None:
    config = parse_config({
        "model": {"use": "mlp"}, "data": {"use": "csv", "args": {"path": "iris.csv", "target": "species"}},
        "evaluation_gate": {"slices": {name: {"accuracy": 0.5}}},
    })  # fmt: skip
    with pytest.raises(ConfigurationError, match=error) as refused:
        slice_orders(config, Data(places={"a": 0, "b": 1, "c": 2, "d": 3}, class_names=CLASSES))
    assert remedy in refused.value.remedy


def test_slices_test_each_of_several_targets_by_its_name() -> None:
    gate = {"slices": {"slump>=40": {"mae": 5}, "late=yes": {"f1": 0.5}}}
    values = {"model": {"use": "mlp"}, "data": {"use": "csv", "args": {"path": "t.csv", "target": ["age", "slump"]}}}
    found = {}
    for name, names, labels in (
        ("slump>=40", ["age", "slump"], None),
        ("late=yes", ["rude", "late"], ["rude", "late"]),
    ):
        config = parse_config({**values, "evaluation_gate": {"slices": {name: gate["slices"][name]}}})
        (found[name],) = slice_orders(config, Data(class_names=labels, target_names=names))["slices"]
    assert found["slump>=40"]["tests"] == [{"name": "slump", "of": "target", "column": 1, "test": ">=", "value": 40.0}]
    assert found["late=yes"]["tests"] == [{"name": "late", "of": "target", "column": 1, "test": "=", "value": 1.0}]


def _other(evaluated: Evaluated, folder: Path, weights: np.ndarray) -> RunDirectory:
    other = evaluated._run(folder / "final-1", RunKind.FINAL, {"model": {"use": "mlp"}, "data": {"use": "iris"}})
    named = copy.deepcopy(evaluated.room.program(weights, name="other.onnx"))
    target = other.artifacts / "model" / "model.onnx"
    target.parent.mkdir()
    Path(named.pop("path")).rename(target)
    other.write_evidence(Program.model_validate({**named, "path": "model/model.onnx"}))
    other.write_evidence(Data(fingerprint="blake3:1"))
    return other


def test_a_named_baseline_is_evaluated_on_the_same_rows(evaluated: Evaluated, tmp_path: Path) -> None:
    weights = np.random.default_rng(5).normal(size=(4, 3)).astype(np.float32)
    _with_columns(evaluated, baseline="churn/final-1")
    other = _other(evaluated, tmp_path, weights)
    named = Named("churn/final-1", "churn", Sealed(other, run_digests(other)), {"validation": {"accuracy": 0.1}})
    found = evaluate_program(evaluated.sealed()[0], Others(evaluated.sealed()[1], baseline=named))
    assert found is not None
    right = (evaluated.room.inputs @ weights).argmax(1) == evaluated.room.targets
    assert (found.beside["same_rows"], found.beside["same_splits"]) == (True, True)
    assert found.beside["splits"]["validation"]["metrics"]["accuracy"] == pytest.approx(right.mean())
    assert found.certified()["accuracy"] == pytest.approx(evaluated.accuracy)


def test_figures_of_slices_and_baseline_are_evaluated_again_by_verify(evaluated: Evaluated, tmp_path: Path) -> None:
    _with_columns(evaluated, baseline="churn/final-1", **GATE)
    other = _other(evaluated, tmp_path, np.random.default_rng(5).normal(size=(4, 3)).astype(np.float32))
    named = Named("churn/final-1", "churn", Sealed(other, run_digests(other)), {})
    run, rows = evaluated.sealed()
    found = evaluate_program(run, Others(rows, baseline=named))
    assert found is not None
    assert figures_again(run, Others(rows, None, named), found) == []
    embellished = found.model_copy(deep=True)
    embellished.splits["validation"]["slices"]["species=setosa"]["metrics"]["accuracy"] = 2.0
    embellished.beside["splits"]["validation"]["metrics"]["accuracy"] = 3.0
    detected = figures_again(run, Others(rows, None, named), embellished)
    assert len(detected) == 2
    assert "accuracy of species=setosa recorded 2.0" in detected[0]
    assert "accuracy of churn/final-1 recorded 3.0" in detected[1]
    gone = figures_again(run, Others(rows, None, named._replace(run=None)), embellished)
    assert gone == detected[:1], "a baseline of another project may rightly be gone"


def test_a_baseline_that_cannot_take_the_rows_counts_with_its_own_figures(evaluated: Evaluated, tmp_path: Path) -> None:
    _with_columns(evaluated, baseline="churn/final-1")
    other = _other(evaluated, tmp_path, np.ones((9, 3), dtype=np.float32))
    named = Named("churn/final-1", "churn", Sealed(other, run_digests(other)), {"validation": {"accuracy": 0.1}})
    found = evaluate_program(evaluated.sealed()[0], Others(evaluated.sealed()[1], baseline=named))
    assert found is not None
    assert found.beside["same_rows"] is False
    assert "The program fails on the stored rows" in found.beside["why"]
    assert found.beside["splits"] == {"validation": {"metrics": {"accuracy": 0.1}}}


def test_how_many_of_the_rows_a_baseline_was_trained_on_is_counted_or_said_to_be_unknown(
    evaluated: Evaluated, tmp_path: Path
) -> None:
    def of_rows(name: str, last: int, seed: int) -> tuple[Sealed, Splits]:
        run = evaluated._run(tmp_path / name, RunKind.SMOKE, {"model": {"use": "mlp"}, "data": {"use": "iris"}})
        numbers = torch.arange(last, dtype=torch.float32)
        loaded = Loaded(TensorSamples(torch.stack([numbers, numbers.sin()], 1), numbers.long() % 2), ["b", "c"])
        section = SplitSection.model_validate({"by": "random", "seed": seed})
        splits = from_loaded(loaded, section, source="csv")
        record_split_rows(run, splits)
        return Sealed(run, run_digests(run)), splits

    (before, old), (now, new) = of_rows("rows-1", 300, 1), of_rows("rows-2", 310, 2)
    numbers = {name: set(new.samples[name].column(0)[:, 0].tolist()) for name in ("validation", "test")}
    trained = set(old.samples["train"].column(0)[:, 0].tolist())
    shared = {name: len(found & trained) for name, found in numbers.items()}
    assert min(shared.values()) > 10
    other = _other(evaluated, tmp_path / "other", np.ones((4, 3), dtype=np.float32))
    named = Named("churn@v1", "churn", Sealed(other, run_digests(other)), {}, rows=before)
    answers = {split: {"rows": len(found), "metrics": {"accuracy": 0.5}} for split, found in numbers.items()}
    found = record_beside(named, evaluated.run, answers, now)
    assert found["trained_on"] == shared
    assert _rows_text(found) == (
        f"; it was trained on {shared['validation']} of the {len(numbers['validation'])} validation rows "
        f"and {shared['test']} of the {len(numbers['test'])} test rows"
    )
    unknown = record_beside(named._replace(rows=None), evaluated.run, answers, now)
    assert "may have been trained on" in _rows_text(unknown)


def test_paired_tests_are_those_of_scipy() -> None:
    draws = np.random.default_rng(0)
    first, second = draws.normal(size=50), draws.normal(0.3, size=50)
    difference = first - second
    found = statistics_of({
        "rows": 50, "classes": {"both": 30, "only_first": 4, "only_second": 12, "none": 4},
        "intervals": {"f1": [-0.2, 0.1]},
        "loss": {"mean": float(difference.mean()), "deviation": float(difference.std(ddof=1)), "rows": 50},
    })  # fmt: skip
    assert found["classes"]["p_value"] == pytest.approx(stats.binomtest(4, 16).pvalue, rel=1e-5)
    test = stats.ttest_rel(first, second)
    assert found["loss"]["p_value"] == pytest.approx(test.pvalue, rel=1e-5)
    assert found["loss"]["interval"] == pytest.approx(list(test.confidence_interval()), rel=1e-5)
    assert found["intervals"] == {"f1": [-0.2, 0.1]}


def test_rows_in_groups_are_compared_by_whole_groups() -> None:
    draws = np.random.default_rng(0)
    of_groups = draws.normal(0.1, size=20)
    losses = np.repeat(of_groups, 30)
    moments = moments_of(losses, Resampling(600, groups=np.repeat(np.arange(20), 30)))["loss"]
    assert moments["rows"] == 20
    assert moments["deviation"] == pytest.approx(of_groups.std(ddof=1))
    rows = moments_of(losses, Resampling(600))["loss"]
    assert rows["deviation"] == pytest.approx(losses.std(ddof=1))
    assert moments_of(losses, Resampling(600, groups=np.repeat(np.arange(3), 200))) == {}, "too few groups"
    found = [statistics_of({"rows": 600, "loss": one})["loss"]["interval"] for one in (moments, rows)]
    assert np.ptp(found[0]) > 4 * np.ptp(found[1])


def test_programs_that_never_differ_are_no_better_than_each_other() -> None:
    found = statistics_of({"rows": 9, "classes": {"both": 9, "only_first": 0, "only_second": 0, "none": 0},
                      "loss": {"mean": 0.0, "deviation": 0.0, "rows": 9}, "intervals": {}})  # fmt: skip
    assert found["classes"]["p_value"] == found["loss"]["p_value"] == 1.0
