"""Several targets of a table: numbers, or columns of two values; a mixture and a loss of another kind are refused."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

from trainwright.trainer.assembly.build import build_work
from trainwright.trainer.base.errors import ConfigurationError, DataError
from trainwright.trainer.config import TrainingConfig
from trainwright.trainer.data import mapped
from trainwright.trainer.data.splits import Splits
from trainwright.trainer.data.validation.expectations import Expectations
from trainwright.trainer.data.validation.validate import validate
from trainwright.trainer.evidence.data import data_evidence
from trainwright.trainer.evidence.validation import context_of
from trainwright.trainer.user_code.context import Context

pytestmark = pytest.mark.requirement("PIPE-2", "TRAIN-1")

ROWS = 120
DRAW = np.random.default_rng(4)
X = DRAW.normal(size=ROWS).round(3)
TABLE: dict[str, Any] = {
    "x": X, "strength": (20 + 3 * X).round(2), "slump": (200 - 9 * X + DRAW.normal(size=ROWS)).round(2),
    "pumped": np.where(X > 0.3, "yes", "no"), "grade": np.arange(ROWS) % 3, "late": np.arange(ROWS) % 2,
}  # fmt: skip
NUMBERS: dict[str, Any] = {"loss": "mse", "metrics": ["r2"]}
LABELS: dict[str, Any] = {"loss": "bce_with_logits", "metrics": ["f1"]}


def built(folder: Path, target: list[str], wants: dict[str, Any], use: str = "csv", **args: Any) -> Any:
    """Return the built parts of a configuration that predicts columns of the table, as a file of this kind."""
    frame, path = pl.DataFrame(TABLE), folder / f"t.{use}"
    if use == "jsonl":
        frame.write_ndjson(path)
    elif use == "parquet":
        frame.write_parquet(path)
    elif not path.exists():
        frame.write_csv(path)
    data = {"use": use, "args": {"path": path.name, "target": target, "features": ["x"], **args}}
    config = TrainingConfig.model_validate({"model": {"use": "mlp"}, "data": data, **wants})
    return build_work(config, folder, Context(1, folder, "cpu"))


def targets_of(splits: Splits) -> np.ndarray:
    """Return all targets in the order of the file, (rows, targets)."""
    parts = [splits.samples[name] for name in ("train", "validation", "test")]
    found = np.zeros(parts[0].base[1].shape, dtype=np.float32)
    for part in parts:
        found[part.rows.numpy()] = part.column(1).numpy()
    return found


@pytest.mark.parametrize("use", ["csv", "jsonl", "parquet"])
def test_numbers_are_columns_of_one_target_and_the_model_has_an_output_for_each(use: str, tmp_path: Path) -> None:
    work = built(tmp_path, ["strength", "slump"], {**NUMBERS, "target_scaling": "standardize"}, use)
    expected = np.stack([TABLE["strength"], TABLE["slump"]], axis=1).astype(np.float32)
    assert (targets_of(work.splits) == expected).all()
    assert (work.splits.target_names, work.splits.class_names) == (["strength", "slump"], None)
    train = work.splits.samples["train"]
    assert work.model(train.gather(slice(None))[0]).shape == (len(train), 2)
    assert np.allclose(work.target_scaling.mean, train.column(1).numpy().mean(axis=0))
    told = data_evidence(work.splits, tmp_path).understood["target"]
    assert told.startswith("2 at once: strength: a number from ")
    assert "; slump: a number from " in told


@pytest.mark.parametrize("use", ["csv", "jsonl", "mapped"])
def test_columns_of_two_values_are_labels_of_which_the_second_value_is_1(
    use: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if use == "mapped":  # a large table, whose second reading is of the cache
        use = "csv"
        monkeypatch.setattr(mapped, "MAPPED_FROM_BYTES", 64)
        assert built(tmp_path, ["pumped", "late"], LABELS).splits.samples["train"].is_mapped
    splits = built(tmp_path, ["pumped", "late"], LABELS, use).splits
    expected = np.stack([TABLE["pumped"] == "yes", TABLE["late"] == 1], axis=1)
    assert (targets_of(splits) == expected).all()
    assert splits.class_names == splits.target_names == ["pumped", "late"]
    told = data_evidence(splits, tmp_path).understood["target"]
    assert "pumped: yes or no ('yes' is 1)" in told
    assert "without strata" in told


@pytest.mark.parametrize(
    ("target", "wants", "told"),
    [
        (["strength", "pumped"], {}, "'strength' numbers, 'pumped' 2 classes"),
        (["grade", "late"], LABELS, "'grade' 3 classes, 'late' 2 classes"),
        (["strength", "pumped"], NUMBERS, "'pumped' is read as a number"),
    ],
)
def test_a_mixture_is_refused_with_what_each_column_is(
    target: list[str], wants: dict[str, Any], told: str, tmp_path: Path
) -> None:
    with pytest.raises(DataError, match=told) as refused:
        built(tmp_path, target, wants)
    assert "multi_task" in refused.value.remedy or "classes" in refused.value.remedy
    assert built(tmp_path, ["grade", "late"], NUMBERS).splits.class_names is None, "whole numbers are numbers under mse"


@pytest.mark.parametrize(
    ("target", "wants", "fits"),
    [(["pumped", "late"], {"metrics": ["f1"]}, "bce_with_logits"), (["strength", "slump"], LABELS, "mse")],
)
def test_a_loss_of_another_kind_is_refused_with_the_one_that_fits(
    target: list[str], wants: dict[str, Any], fits: str, tmp_path: Path
) -> None:
    with pytest.raises(ConfigurationError, match="targets are several") as refused:
        built(tmp_path, target, wants)
    changes = refused.value.details["changes"]
    assert changes["loss"] == fits
    assert built(tmp_path, target, changes).splits.target_names == target


def test_a_row_that_lacks_one_of_them_is_refused_with_its_line_or_left_out(tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text(
        "x,strength,slump\n" + "".join(f"{n},{'' if n == 3 else n * 2},{'NA' if n == 5 else n}\n" for n in range(40))
    )
    with pytest.raises(DataError, match="line 5: the target 'strength' is empty"):
        built(tmp_path, ["strength", "slump"], NUMBERS)
    splits = built(tmp_path, ["strength", "slump"], NUMBERS, drop_without_target=True).splits
    assert splits.skipped == ["t.csv line 5", "t.csv line 7"]
    assert (targets_of(splits) == [[2 * n, n] for n in range(40) if n not in {3, 5}]).all()


def test_a_series_forecasts_all_columns_of_the_list(tmp_path: Path) -> None:
    lines = [f"2024-01-{1 + hour // 24:02} {hour % 24:02}:00,{hour},{1000 + hour}" for hour in range(240)]
    (tmp_path / "t.csv").write_text("\n".join(["date,wind,load", *lines]))
    split = {"by": "time", "time": "date"}
    found = []
    for target, more in ((["load", "wind"], {}), ("load", {"further_targets": ["wind"]})):
        args = {"path": "t.csv", "target": target, "series": {"window": 6, "horizon": 2, **more}}
        data = {"use": "csv", "args": args, "split": split}
        config = TrainingConfig.model_validate({"model": {"use": "dlinear"}, "data": data, **NUMBERS})
        found.append(build_work(config, tmp_path, Context(1, tmp_path, "cpu")).splits)
    first = found[0].samples["train"][0][1].tolist()
    assert first == [1006, 6, 1007, 7]
    assert found[1].samples["train"][0][1].tolist() == first
    assert data_evidence(found[0], tmp_path).understood["target"] == "2 at once: load; wind"


def test_texts_have_several_labels_too(tmp_path: Path) -> None:
    rows = [{"body": f"ticket {n} of {n % 2}", "pay": n % 2, "rude": n % 3 // 2} for n in range(90)]
    (tmp_path / "t.jsonl").write_text("\n".join(map(json.dumps, rows)))
    data = {"use": "jsonl", "args": {"path": "t.jsonl", "text": "body", "target": ["pay", "rude"]}}
    model = {"use": "bag.py:Bag"}
    (tmp_path / "bag.py").write_text("from torch import nn\nBag = lambda: nn.EmbeddingBag(300, 2)\n")
    config = TrainingConfig.model_validate({"model": model, "data": data, **LABELS})
    splits = build_work(config, tmp_path, Context(1, tmp_path, "cpu")).splits
    assert splits.class_names == ["pay", "rude"]
    found = [splits.samples["train"][row]["labels"].tolist() for row in range(len(splits.samples["train"]))]
    assert set(map(tuple, found)) == {(0.0, 0.0), (1.0, 0.0), (0.0, 1.0), (1.0, 1.0)}


def test_each_of_several_targets_is_validated_and_its_leaks_name_it(tmp_path: Path) -> None:
    wants = {**NUMBERS, "data": {}}
    splits = built(tmp_path, ["slump", "late"], NUMBERS).splits
    (tmp_path / "t.csv").unlink()
    table = TABLE | {"twin": TABLE["slump"] * 2 + 1, "late": DRAW.normal(size=ROWS)}
    pl.DataFrame(table).write_csv(tmp_path / "t.csv")
    data = {"use": "csv", "args": {"path": "t.csv", "target": ["slump", "late"]}}
    config = TrainingConfig.model_validate({"model": {"use": "mlp"}, **wants, "data": data})
    context = context_of(config, tmp_path, Expectations(), splits.samples, 1)
    assert context is not None
    report = validate(context)
    leaks = {one.column: one.text for one in report.checks if one.family == "leaks" and not one.passed}
    assert leaks["twin"].startswith("Of the target 'slump': Column 'twin' alone tells the target")
    assert not {"slump", "late"} & leaks.keys(), "a target is no input of another"
    assert {one.column for one in report.checks if one.name == "target_varies"} == {"slump", "late"}
