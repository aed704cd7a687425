"""Whether a target is classes or a number is decided by loss and metrics; what contradicts them does not train."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from trainwright.trainer.assembly.build import build_work
from trainwright.trainer.assembly.raw_splits import raw_splits_of
from trainwright.trainer.base.errors import ConfigurationError, DataError
from trainwright.trainer.config import TrainingConfig
from trainwright.trainer.data.sources import scan_source
from trainwright.trainer.data.splits import Splits
from trainwright.trainer.evidence.data import data_evidence
from trainwright.trainer.user_code.context import Context

pytestmark = pytest.mark.requirement("PIPE-2", "TRAIN-1", "GATE-1")

DOSES = [0, 10, 50, 100]
NUMBERS: dict[str, Any] = {"loss": "mse", "metrics": ["r2"]}
OF_CLASSES: dict[str, Any] = {"loss": "cross_entropy", "metrics": ["accuracy"]}


def built(folder: Path, targets: list[Any], wants: dict[str, Any], **args: Any) -> Splits:
    """Return the splits of a table of so many rows."""
    (folder / "t.csv").write_text("a,y\n" + "\n".join(f"{n * 0.5},{cell}" for n, cell in enumerate(targets)))
    data = {"use": "csv", "args": {"path": "t.csv", "target": "y", **args}}
    return of_config({"model": {"use": "mlp"}, "data": data, **wants}, folder)


def of_config(config: dict[str, Any], folder: Path) -> Splits:
    (folder / "own.py").write_text("def gap(output, target):\n    return ((output - target) ** 2).mean()\nfar = gap\n")
    return build_work(TrainingConfig.model_validate(config), folder, Context(1, folder, "cpu")).splits


def targets_of(splits: Splits) -> list[float]:
    return sorted({float(splits.samples["train"][row][1]) for row in range(len(splits.samples["train"]))})


@pytest.mark.parametrize("wants", [NUMBERS, {"loss": "huber"}, {"loss": "own.py:gap", "metrics": ["mae"]}])
def test_few_whole_numbers_stay_numbers_where_loss_or_metrics_are_for_numbers(
    wants: dict[str, Any], tmp_path: Path
) -> None:
    splits = built(tmp_path, DOSES * 20, wants)
    assert (targets_of(splits), splits.class_names) == (DOSES, None)
    assert str(data_evidence(splits, tmp_path).understood["target"]).startswith("y: a number from 0 to 100, mean ")


def test_the_rows_that_a_program_is_judged_by_have_the_targets_that_it_learned(tmp_path: Path) -> None:
    built(tmp_path, DOSES * 20, NUMBERS)
    data = {"use": "csv", "args": {"path": "t.csv", "target": "y"}}
    raw = raw_splits_of(TrainingConfig.model_validate({"model": {"use": "mlp"}, "data": data, **NUMBERS}), tmp_path)
    seen = {float(raw.samples["train"][row][1]) for row in range(len(raw.samples["train"]))}
    assert sorted(seen) == DOSES


@pytest.mark.parametrize("wants", [OF_CLASSES, {"loss": "own.py:gap", "metrics": ["accuracy"]}])
def test_they_are_classes_where_these_are_for_classes(wants: dict[str, Any], tmp_path: Path) -> None:
    splits = built(tmp_path, DOSES * 20, wants)
    assert splits.class_names == ["0", "10", "50", "100"]
    assert data_evidence(splits, tmp_path).understood["target"] == "y: 4 classes"


@pytest.mark.parametrize("metrics", [[], ["own.py:far"]])
def test_classes_that_may_be_numbers_are_asked_about_where_loss_and_metrics_leave_it_open(
    metrics: list[str], tmp_path: Path
) -> None:
    own: dict[str, Any] = {"loss": "own.py:gap", "metrics": metrics}
    with pytest.raises(ConfigurationError, match=r"The target is 0, 10, 50, 100: nothing says whether") as asked:
        built(tmp_path, DOSES * 20, own)
    assert "data.args.task regression, or classification" in str(asked.value.remedy)
    assert targets_of(built(tmp_path, DOSES * 20, own, task="regression")) == DOSES
    assert targets_of(built(tmp_path, DOSES * 20, own, task="classification")) == [0, 1, 2, 3]
    assert targets_of(built(tmp_path, [0, 1] * 20, own)) == [0, 1]


def test_many_whole_numbers_that_recur_are_classes_for_a_loss_of_classes(tmp_path: Path) -> None:
    assert len(built(tmp_path, [*range(60)] * 4, OF_CLASSES).class_names or ()) == 60


@pytest.mark.parametrize("targets", [[n + 0.25 for n in range(60)], [*range(60)]])
def test_numbers_that_are_no_classes_are_refused_by_a_loss_of_classes(targets: list[float], tmp_path: Path) -> None:
    with pytest.raises(DataError, match="cross_entropy needs class labels") as refused:
        built(tmp_path, targets, OF_CLASSES)
    assert "mse" in str(refused.value.remedy)


@pytest.mark.parametrize("wants", [NUMBERS, {}])
def test_one_odd_word_among_prices_makes_no_classes_of_them(wants: dict[str, Any], tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"t.csv line 9: the target 'y' is read as a number, and 'sold'") as refused:
        built(tmp_path, [n + 0.5 if n != 7 else "sold" for n in range(60)], wants)
    assert "classes" in str(refused.value.remedy)


def test_spellings_of_a_class_are_joined_where_that_is_said(tmp_path: Path) -> None:
    cells = ["yes", "no", "yes.", "No"] * 20
    assert built(tmp_path, cells, OF_CLASSES).class_names == ["No", "no", "yes", "yes."]
    joined = built(tmp_path, cells, OF_CLASSES, labels={"yes.": "yes", "No": "no"})
    assert joined.class_names == ["no", "yes"]
    assert targets_of(joined) == [0, 1]


def test_a_spelling_that_no_row_has_is_named_where_another_is_there(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="labels has 'YES', and no row has it") as refused:
        built(tmp_path, ["Yes", "no", "yes"] * 20, OF_CLASSES, labels={"YES": "yes"})
    assert "'Yes'" in str(refused.value.remedy)
    assert built(tmp_path, ["yes", "no"] * 20, OF_CLASSES, labels={"yes.": "yes"}).class_names == ["no", "yes"]


@pytest.mark.parametrize("cells", [["1", " 2 ", "3"], ["true", " false "]])
def test_validation_joins_the_spellings_that_training_joins(cells: list[str], tmp_path: Path) -> None:
    name = cells[1].strip()
    splits = built(tmp_path, cells * 20, OF_CLASSES, labels={name: "other"})
    frame = scan_source("csv", {"path": "t.csv", "target": "y", "labels": {name: "other"}}, tmp_path)
    assert frame is not None
    assert sorted(set(frame.collect()["y"])) == splits.class_names == sorted({*cells, "other"} - {cells[1]})


@pytest.mark.parametrize("mark", ["?", "#N/A", "null"])
def test_a_mark_of_a_missing_value_is_no_number_and_no_class_of_numbers(mark: str, tmp_path: Path) -> None:
    for wants in (NUMBERS, OF_CLASSES):
        with pytest.raises(DataError, match="the target 'y' is empty") as refused:
            built(tmp_path, [1, mark, 2] * 20, wants)
        changes = {key.removeprefix("data.args."): value for key, value in refused.value.details["changes"].items()}
        assert len(built(tmp_path, [1, mark, 2] * 20, wants, **changes).skipped) == 20


def test_words_are_no_target_of_a_loss_for_numbers(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="'yes' is not a finite number"):
        built(tmp_path, ["yes", "no"] * 20, NUMBERS)


@pytest.mark.parametrize("wants", [NUMBERS, {"loss": "own.py:gap", "metrics": ["mae"]}])
def test_a_target_that_is_said_to_be_classes_contradicts_them(wants: dict[str, Any], tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match=r"data.args.task is classification, and .* for numbers") as refused:
        built(tmp_path, DOSES * 20, wants, task="classification")
    assert "cross_entropy" in str(refused.value.remedy)
    assert "mse" in str(refused.value.remedy)


def test_a_target_that_is_said_to_be_a_number_contradicts_a_loss_of_classes(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="data.args.task is regression, and loss cross_entropy is for classes"):
        built(tmp_path, DOSES * 20, OF_CLASSES, task="regression")


@pytest.mark.parametrize(("cells", "named"), [([f"name {n}" for n in range(60)], "60 classes in 60 rows")])
def test_a_class_for_every_row_is_none(cells: list[str], named: str, tmp_path: Path) -> None:
    with pytest.raises(DataError, match=named):
        built(tmp_path, cells, OF_CLASSES)


def test_one_and_one_point_nought_are_one_class(tmp_path: Path) -> None:
    assert built(tmp_path, ["1", "2", "1.0", "2.0"] * 20, OF_CLASSES).class_names == ["1", "2"]
    versions = ["v1", "v1.0", "1.10", "1.10.0"]
    assert built(tmp_path, versions * 20, OF_CLASSES).class_names == sorted(versions)


def test_classes_of_a_shipped_data_set_are_no_numbers(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="3 classes"):
        of_config({"model": {"use": "mlp"}, "data": {"use": "iris"}, **NUMBERS}, tmp_path)


def test_whole_numbers_of_an_archive_stay_numbers(tmp_path: Path) -> None:
    np.savez(tmp_path / "a.npz", x=np.random.default_rng(0).random((80, 3)), y=np.array(DOSES * 20))
    splits = of_config(
        {"model": {"use": "mlp"}, "data": {"use": "npz", "args": {"path": "a.npz"}}, **NUMBERS}, tmp_path
    )
    assert (targets_of(splits), splits.class_names) == (DOSES, None)


def test_whole_numbers_beside_pictures_stay_numbers(tmp_path: Path) -> None:
    for n in range(40):
        Image.new("L", (8, 8), n * 6).save(tmp_path / f"{n}.png")
    rows = [f"{n}.png,{DOSES[n % 4]}" for n in range(40)]
    (tmp_path / "t.csv").write_text("file_name,y\n" + "\n".join(rows))
    data = {"use": "images", "args": {"path": "t.csv", "target": "y"}}
    splits = of_config({"model": {"use": "cnn"}, "data": data, **NUMBERS}, tmp_path)
    assert (targets_of(splits), splits.class_names) == (DOSES, None)


def test_a_class_called_na_is_one_to_training_and_to_validation(tmp_path: Path) -> None:
    assert built(tmp_path, ["NA", "EU"] * 20, OF_CLASSES).class_names == ["EU", "NA"]
    frame = scan_source("csv", {"path": "t.csv", "target": "y"}, tmp_path)
    assert frame is not None
    assert frame.collect()["y"].to_list() == ["NA", "EU"] * 20
