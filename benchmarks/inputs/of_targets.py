"""Targets: loss, task, metric and goal decide together what they are; where these disagree, both ways out are named."""

from __future__ import annotations

from functools import partial
from pathlib import Path

from case import EITHER, REFUSED, ROWS, Case, Column, Right, chosen, followed, numbers
from tables import CLASSES, table
from writing import arrow, lines

DOSES = [0, 10, 50, 100]
NO_LOSS = {"loss": None}
ACCURACY = {"metrics": ["accuracy"]}
whole = partial(numbers, decimals=0)


def npz(values: list[object], dtype: str) -> object:
    """Return what writes a NumPy archive whose inputs are the signal."""

    def write(folder: Path) -> None:
        import numpy as np
        from case import signal

        x = np.array([[3 * row + 1, value] for row, value in enumerate(signal())], dtype=np.float32)
        np.savez(folder / "rows.npz", x=x, y=np.array(values, dtype=dtype))

    return write


def of_array(name: str, source: str, dtype: str, *, is_number: bool) -> Case:
    """Return an input of two arrays, whose targets are few whole numbers."""
    y = chosen(DOSES[:3])
    loss, metrics, goal = (
        ("mse", ["mae"], {"metric": "mae", "direction": "minimize", "target": 9}) if is_number else CLASSES
    )
    labels = y.meant if is_number else [DOSES.index(value) for value in y.meant]
    config = {
        "model": {"use": "mlp", "args": {"hidden": [8]}},
        "data": {"use": "npz", "args": {"path": "rows.npz"}},
        "loss": loss,
        "metrics": metrics,
        "training": {"epochs": 2},
    }

    def holds(seen: object) -> str:
        found = sorted(set(seen.targets.reshape(-1).tolist()))
        return "" if found == sorted(set(labels)) else f"the targets became {found}"

    right = Right(target="number" if is_number else None, rows=ROWS, holds=holds)
    return Case(name, source, npz(labels, dtype), config, goal, right)


ODD_WORD = numbers(odd={17: ("tbd", None)}, rows=ROWS)
FEW_NAMED = chosen(["low", "middle", "high"])
CASES = [
    table("doses-with-mse", "laresbernardo/lares#38", {"y": chosen(DOSES)}),
    table("doses-with-huber", "automl/auto-sklearn#293", {"y": chosen(DOSES)}, config={"loss": "huber"}),
    table("doses-with-l1-standardized", "laresbernardo/lares#38", {"y": chosen(DOSES)}, config={"loss": "mae",
          "target_scaling": "standardize"}),
    table("grades-with-mse", "scikit-learn/scikit-learn#31752", {"y": chosen([3, 4, 5, 6, 7, 8])}),
    table("years-with-mse", "scikit-learn/scikit-learn#31752", {"y": whole(low=2001, high=2021)}),
    table("two-numbers-with-mse", "kind: 0 and 1 as a number", {"y": chosen([0, 1])}),
    table("negative-steps-with-mse", "kind: signed whole numbers", {"y": chosen([-2, -1, 0, 1, 2])}),
    table("whole-floats-with-mse", "kind: 1.0, 2.0", {"y": chosen([1, 2, 5], lambda v: f"{v}.0")}),
    table("doses-with-task", "laresbernardo/lares#38", {"y": chosen(DOSES)}, args={"task": "regression"}),
    table("doses-by-goal-alone", "probabl-ai/skore#1080", {"y": chosen(DOSES)}, config=NO_LOSS,
          may=EITHER, words=("mae", "mse")),
    table("doses-in-parquet", "laresbernardo/lares#38", {"y": chosen(DOSES, int)}, use="parquet", path="rows.parquet",
          write=arrow({"y": chosen(DOSES, int)}, "rows.parquet")),
    table("doses-in-int8", "kind: narrow types of parquet", {"y": chosen(DOSES, int)}, use="parquet",
          path="rows.parquet", write=arrow({"y": chosen(DOSES, int)}, "rows.parquet", {"y": "int8"})),
    table("doses-in-json", "laresbernardo/lares#38", {"y": chosen(DOSES, int)}, use="jsonl", path="rows.jsonl",
          write=lines({"y": chosen(DOSES, int)})),
    of_array("doses-in-an-array", "automl/auto-sklearn#293", "int64", is_number=True),
    of_array("labels-int32-in-an-array", "jfzhang95/pytorch-video-recognition#71", "int32", is_number=False),
    of_array("labels-uint8-in-an-array", "kind: labels of uint8", "uint8", is_number=False),
    table("ranks-with-cross-entropy", "byu-dml/metalearn#48", {"y": chosen([0, 1, 2, 3, 4])}, target=list("01234")),
    table("ten-classes-in-order", "pytorch/vision#714", {"y": chosen(list(range(1, 11)))},
          target=[str(n) for n in range(1, 11)],
          holds=lambda seen: "" if [round(float(n)) for n in seen.data["class_names"]] == list(range(1,
          11)) else f"the order is {seen.data['class_names']}"),
    table("minus-one-and-one", "ludwig-ai/ludwig#3101", {"y": chosen([-1, 1])}, target=["-1", "1"]),
    table("true-and-false", "felixbur/nkululeko#243", {"y": chosen(["False", "True"])}, target=["False", "True"]),
    table("booleans-in-parquet", "felixbur/nkululeko#243", {"y": Column([v > 0.5 for v in followed()],
          [v > 0.5 for v in followed()])}, target=["false", "true"], use="parquet", path="rows.parquet",
          write=arrow({"y": Column([v > 0.5 for v in followed()], [])}, "rows.parquet")),
    table("whole-floats-with-cross-entropy", "kind: class numbers written 1.0", {"y": chosen([1, 2, 3],
          lambda v: f"{v}.0")}, target=["1", "2", "3"]),
    table("classes-in-a-dictionary", "kind: categorical of parquet", {"y": FEW_NAMED}, target=["low", "middle",
          "high"], use="parquet", path="rows.parquet", write=lambda folder: arrow({"y": FEW_NAMED}, "rows.parquet",
          {"y": __import__("pyarrow").dictionary("int8", "string")})(folder)),
    table("zero-one-with-bce", "kind: bce_with_logits of 0 and 1", {"y": chosen([0, 1])}, target=None,
          config={"loss": "bce_with_logits", "metrics": ["accuracy"]}, may=EITHER, words=("bce_with_logits",),
          holds=lambda seen: "" if set(seen.targets.reshape(-1).tolist()) == {0, 1} else "targets are not 0 and 1"),
    table("doses-with-bce", "kind: doses are no probabilities", {"y": chosen(DOSES)}, target=None,
          config={"loss": "bce_with_logits"}, may=REFUSED, words=("bce_with_logits",)),
    table("mse-beside-accuracy", "h2oai/wave-h2o-automl#50", {"y": chosen(DOSES)}, target=None, config={"loss": "mse",
          **ACCURACY}, may=REFUSED, words=("mse", "accuracy", "cross_entropy")),
    table("cross-entropy-beside-mae", "h2oai/wave-h2o-automl#50", {"y": chosen(DOSES)},
          config={"loss": "cross_entropy", "metrics": ["mae"]}, may=REFUSED,
          words=("cross_entropy|classification", "mae", "mse")),
    table("words-with-mse", "kind: names under a loss of numbers", {"y": FEW_NAMED}, may=REFUSED,
          words=("mse|regression|number", "low|middle|high|text|class", "cross_entropy")),
    table("floats-with-cross-entropy", "h2oai/wave-h2o-automl#50", {}, target=None, config={"loss": "cross_entropy",
          **ACCURACY}, goal=CLASSES[2], may=REFUSED, words=("cross_entropy|accuracy|classes",
          "number|mse|regression")),
    table("task-against-loss", "automl/auto-sklearn#1603", {"y": chosen(DOSES)}, args={"task": "classification"},
          may=REFUSED, words=("classification|classes", "mse")),
    table("regression-task-against-loss", "automl/auto-sklearn#1603", {"y": chosen(DOSES)}, target=None,
          args={"task": "regression"}, may=REFUSED, words=("regression", "cross_entropy")),
    table("decimal-comma-target", "dotnet/machinelearning-modelbuilder#107",
          {"y": numbers(lambda v: f"{v:.2f}".replace(".", ","))}, dialect={"sep": ";"}),
    table("german-target", "pandas-dev/pandas#59299", {"y": numbers(lambda v: f"{v:,.2f}".translate({44: ".",
          46: ","}), high=9000)}, dialect={"sep": ";"}, may=EITHER, words=(r"\d\.\d{3},\d\d", "y")),
    table("thousands-target", "pola-rs/polars#18465", {"y": whole(lambda v: f"{v:,}", low=500, high=9000)}, may=EITHER,
          words=(r"\d,\d{3}", "thousands")),
    table("dollar-target", "h2oai/datatable#1359", {"y": numbers(lambda v: f"${v:,.2f}", high=9000)}, may=EITHER,
          words=(r"\$", "y")),
    table("percent-target", "dotnet/machinelearning#3826", {"y": Column([f"{100 * v:.0f}%" for v in followed()],
          [None] * ROWS, ())}, may=EITHER, words=("%",)),
    table("odd-word-in-target", "dotnet/machinelearning-modelbuilder#149", {"y": ODD_WORD}, may=REFUSED, words=("tbd",
          "line 19")),
    table("odd-word-in-target-without-loss", "dotnet/machinelearning-modelbuilder#557", {"y": ODD_WORD},
          config=NO_LOSS, may=REFUSED, words=("tbd", "line 19")),
    table("dash-in-target", "dotnet/machinelearning-modelbuilder#149", {"y": numbers(odd={3: ("-", None), 70: ("-",
          None)})}, may=REFUSED, words=("'-'", "line 5")),
    table("unknown-among-counts", "kind: a word among few counts", {"y": Column([*chosen([0, 1, 2, 3]).cells[:-1],
          "unknown"], [*chosen([0, 1, 2, 3]).meant[:-1], None])}, may=REFUSED, words=("unknown", "121")),
    table("holes-in-target", "kind: rows without a target", {"y": numbers(odd={3: ("", None), 5: ("NA", None)})},
          may=REFUSED, words=("line 5", "drop_without_target")),
    table("holes-in-target-dropped", "kind: rows without a target", {"y": numbers(odd={3: ("", None), 5: ("NA",
          None)})}, args={"drop_without_target": True}, rows=ROWS - 2),
    table("constant-target", "kind: nothing to be learned", {"y": Column(["7.5"] * ROWS, [7.5] * ROWS)}, may=REFUSED,
          words=("constant|one value", "7.5")),
    table("one-class", "kind: one class", {"y": Column(["yes"] * ROWS, ["yes"] * ROWS)}, target=None, may=REFUSED,
          words=("one class|only", "yes")),
    table("names-as-target", "kind: a class for every row", {"y": Column([f"name {row}" for row in range(ROWS)], [])},
          target=None, may=REFUSED, words=("class", "name 1|120")),
    table("infinite-target", "kind: inf among numbers", {"y": numbers(odd={9: ("inf", None)})}, may=REFUSED,
          words=("inf", "line 11")),
    table("target-misspelt", "kind: another case of the name", {"y": numbers()}, args={"target": "Y"}, target=None,
          may=REFUSED, words=("'Y'", r"\by\b")),
    table("target-among-features", "kind: the target among the inputs", {}, args={"features": ["size", "y"]},
          may=REFUSED, words=("features", "target", "y")),
]  # fmt: skip
