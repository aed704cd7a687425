"""Remedies of data: the changes that an error of the data carries, made as they stand, let the same data be read."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image

from trainwright.trainer.assembly.build import build_data
from trainwright.trainer.assembly.model import outputs_of
from trainwright.trainer.base.errors import ConfigurationError, DataError, TrainwrightError
from trainwright.trainer.config import TrainingConfig
from trainwright.trainer.config.merging import merge_changes
from trainwright.trainer.data.splits import Splits
from trainwright.trainer.data.validation.expectations import expectations_path
from trainwright.trainer.losses import built_in_loss

pytestmark = pytest.mark.requirement("TRAIN-1")
ROWS = "\n".join(f"{n * 7 % 201},{'abc'[n % 3]},{n % 40},{'yes' if n % 2 else 'no'}" for n in range(200))


def config_of(root: Path, data: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {"code_root": str(root), "model": {"use": "mlp"}, "data": data, **more}


def read(values: dict[str, Any], root: Path) -> Splits:
    return build_data(TrainingConfig.model_validate(values), root)


def changed(values: dict[str, Any], error: TrainwrightError) -> dict[str, Any]:
    """Return the configuration after the changes that the error proposes, as `configure` makes them."""
    assert error.details.get("changes"), f"no change is proposed: {error.remedy}"
    return merge_changes(error.details["changes"], values, argument="changes").values


def fixed(values: dict[str, Any], root: Path, *told: str) -> Splits:
    """Follow the remedies of as many errors as are expected, in turn, and return the data that is read then."""
    for what in told:
        with pytest.raises(TrainwrightError, match=what) as refused:
            read(values, root)
        values = changed(values, refused.value)
    return read(values, root)


@pytest.mark.parametrize(
    ("args", "split"),
    [
        ({"target": "Returns"}, {}),
        ({"features": ["visit", "ward"]}, {}),
        ({"columns": {"wards": "category"}}, {}),
        ({}, {"by": "group", "group": "patients"}),
        ({}, {"by": "hash", "group": "patients"}),
    ],
)
def test_a_column_under_a_name_that_is_nearly_right_is_found_by_following_the_remedy(
    args: dict[str, Any], split: dict[str, Any], tmp_path: Path
) -> None:
    (tmp_path / "visits.csv").write_text(f"visits,ward,patient,returns\n{ROWS}\n")
    data = {"use": "csv", "args": {"path": "visits.csv", "target": "returns", **args}, "split": split}
    found = fixed(config_of(tmp_path, data), tmp_path, "visits.csv has no column")
    assert found.class_names == ["no", "yes"]


def test_a_table_read_as_another_kind_of_file_is_read_as_its_own(tmp_path: Path) -> None:
    (tmp_path / "visits.csv").write_text(f"visits,ward,patient,returns\n{ROWS}\n")
    for use in ("parquet", "arrow", "orc"):
        data = {"use": use, "args": {"path": "visits.csv", "target": "returns"}}
        assert fixed(config_of(tmp_path, data), tmp_path, f"cannot be read as {use}").class_names == ["no", "yes"]


@pytest.mark.parametrize("target", ["return", "<ward|…|returns>"])
def test_what_is_predicted_is_not_told_by_its_spelling(target: str, tmp_path: Path) -> None:
    (tmp_path / "visits.csv").write_text(f"visits,ward,patient,returns\n{ROWS}\n")
    with pytest.raises(DataError, match="has no column") as refused:
        read(config_of(tmp_path, {"use": "csv", "args": {"path": "visits.csv", "target": target}}), tmp_path)
    assert "changes" not in refused.value.details


@pytest.mark.parametrize("use", ["csv", "jsonl", "parquet", "orc", "arrow", "sql"])
def test_a_table_without_a_target_is_refused_before_anything_runs(use: str, tmp_path: Path) -> None:
    args = {"url": "sqlite:///shop.db", "table": "orders"} if use == "sql" else {"path": f"visits.{use}"}
    with pytest.raises(ConfigurationError, match=r"data.args.target. is required"):
        merge_changes({"data": {"use": use, "args": args}}, config_of(tmp_path, {"use": "iris"}), argument="changes")


def test_a_target_of_one_class_is_not_to_be_predicted_as_a_number(tmp_path: Path) -> None:
    (tmp_path / "one.csv").write_text("a,y\n" + "\n".join(f"{n},yes" for n in range(50)))
    with pytest.raises(DataError, match="one class only") as refused:
        read(config_of(tmp_path, {"use": "csv", "args": {"path": "one.csv", "target": "y"}}), tmp_path)
    assert "regression" not in refused.value.remedy


def test_numbers_to_predict_under_the_default_loss_lead_to_a_loss_for_numbers(tmp_path: Path) -> None:
    (tmp_path / "houses.csv").write_text("area,price\n" + "\n".join(f"{n},{n * 1234.5}" for n in range(1, 60)))
    values = config_of(tmp_path, {"use": "csv", "args": {"path": "houses.csv", "target": "price"}})
    splits, price = read(values, tmp_path), torch.tensor(1234.5)
    with pytest.raises(DataError, match="cross_entropy needs class labels") as refused:
        outputs_of(splits, built_in_loss("cross_entropy", {}), price)
    after = TrainingConfig.model_validate(changed(values, refused.value))
    assert after.target_scaling == "standardize"
    assert outputs_of(splits, built_in_loss(after.loss, {}), price) == 1


def test_torn_pictures_of_several_sizes_are_read_after_two_remedies(tmp_path: Path) -> None:
    draw = np.random.default_rng(0)
    for kind in ("apple", "pear"):
        (tmp_path / "fruit" / kind).mkdir(parents=True)
        for n in range(20):
            mode, size = ("RGB", "L", "RGBA", "P")[n % 4], (12, 8) if n % 3 else (8, 8)
            pixels = draw.integers(0, 255, (size[1], size[0], 3), dtype=np.uint8)
            Image.fromarray(pixels).convert(mode).save(tmp_path / "fruit" / kind / f"{n}.png")
    torn = tmp_path / "fruit" / "pear" / "3.png"
    torn.write_bytes(torn.read_bytes()[:60])
    (tmp_path / "fruit" / ".DS_Store").write_bytes(b"Bud1")
    values = config_of(tmp_path, {"use": "images", "args": {"path": "fruit"}})
    found = fixed(values, tmp_path, "pear/3.png", "pixels high and wide")
    assert sum(len(samples) for samples in found.samples.values()) == 39


def test_a_text_of_another_encoding_is_named_with_its_line_and_what_it_would_say(tmp_path: Path) -> None:
    (tmp_path / "letters").mkdir()
    for n in range(3):
        text = "good day\n" * 80 + "über den Dächern\n"
        (tmp_path / "letters" / f"{n}.txt").write_bytes(text.encode("latin-1" if n == 1 else "utf-8"))
    values = config_of(tmp_path, {"use": "text", "args": {"path": "letters/*"}}, loss="next_token")
    with pytest.raises(DataError, match=r"^1.txt cannot be read as UTF-8 text: line 81 .*über den Däc") as refused:
        read(values | {"model": {"use": "gpt"}}, tmp_path)
    assert "iconv -f LATIN1 -t UTF-8 1.txt" in refused.value.remedy


def test_a_table_and_a_file_of_sqlite_under_names_that_are_nearly_right_are_found(tmp_path: Path) -> None:
    with closing(sqlite3.connect(tmp_path / "shop.db")) as shop:
        shop.execute("CREATE TABLE orders (amount REAL, returned INT)")
        shop.executemany("INSERT INTO orders VALUES (?, ?)", [(n / 3, n % 2) for n in range(60)])
        shop.commit()
    data = {"use": "sql", "args": {"url": "sqlite:///shopp.db", "table": "order", "target": "returned"}}
    told = ("no file at", "There is no table 'order'. Near: orders", "has no primary key")
    found = fixed(config_of(tmp_path, data), tmp_path, *told)
    assert found.class_names == ["0", "1"]


def test_expectations_under_a_name_that_is_nearly_right_are_found(tmp_path: Path) -> None:
    (tmp_path / "expectations.yaml").write_text("rows: {at_least: 10}\n")
    with pytest.raises(ConfigurationError, match="Near: expectations.yaml") as refused:
        expectations_path("expectation.yaml", tmp_path)
    assert refused.value.details["changes"] == {"data.expectations": "expectations.yaml"}
