"""Tables of images: paths with labels, numbers, several labels or masks; what is missing is named."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
import torch
from PIL import Image
from pyarrow import parquet

from trainwright.tools.gates.staleness import file_changes
from trainwright.trainer.base.errors import ConfigurationError, DataError
from trainwright.trainer.data.assemble import from_loaded
from trainwright.trainer.data.sections import SplitSection
from trainwright.trainer.data.sources import load_source
from trainwright.trainer.data.splits import Splits
from trainwright.trainer.evidence.data import data_evidence

Write = Callable[..., Path]
BASIC = {"path": "labels.csv", "target": "label"}


def write_table(root: Path, header: str, row: Callable[[int, str], str], count: int = 40) -> None:
    files = sorted(file.relative_to(root).as_posix() for file in (root / "photos").rglob("*.png"))[:count]
    lines = [header, *(row(number, file) for number, file in enumerate(files))]
    (root / "labels.csv").write_text("\n".join(lines) + "\n")


def splits_of(root: Path, args: dict[str, Any], **split: Any) -> Splits:
    section = SplitSection(**split)
    return from_loaded(load_source("images", args, root, section), section, source="images")


@pytest.mark.requirement("TRAIN-1")
def test_labels_are_classes_fractions_are_numbers_and_several_are_yes_or_no(photos: Write) -> None:
    root = photos()

    def row(n: int, file: str) -> str:
        return f"{file},{'xyz'[n % 3]},{n / 2},{'r b'[: n % 3 + 1]},{n % 2},true"

    write_table(root, "file,label,age,tags,red,blue", row)
    classes = load_source("images", BASIC, root, SplitSection())
    assert classes.class_names == ["x", "y", "z"]
    assert classes.samples.targets[:4].tolist() == [0, 1, 2, 0]
    assert classes.files == [root / "labels.csv", root / "photos"]
    ages = load_source("images", {"path": "labels.csv", "target": "age"}, root, SplitSection())
    assert ages.class_names is None
    assert ages.samples.targets[:3].tolist() == [0.0, 0.5, 1.0]
    flags = load_source("images", {"path": "labels.csv", "target": ["red", "blue"]}, root, SplitSection())
    assert flags.class_names == ["red", "blue"]
    assert flags.samples.targets[:2].tolist() == [[0.0, 1.0], [1.0, 1.0]]
    tags = load_source("images", {"path": "labels.csv", "target": "tags", "separator": " "}, root, SplitSection())
    assert tags.class_names == ["b", "r"]
    assert tags.samples.targets[:3].tolist() == [[0.0, 1.0], [0.0, 1.0], [1.0, 1.0]]
    assert tags.samples[0][1].dtype == torch.float32


@pytest.mark.requirement("TRAIN-1")
def test_a_table_in_parquet_with_pictures_elsewhere_is_split_by_its_column(photos: Write) -> None:
    root = photos()
    names = sorted(file.relative_to(root / "photos").as_posix() for file in (root / "photos").rglob("*.png"))
    values = {"path": names, "label": [name[0] for name in names], "patient": [n // 4 for n in range(40)]}
    parquet.write_table(pa.table(values), root / "labels.parquet")
    args = {"path": "labels.parquet", "pictures": "photos", "target": "label"}
    splits = splits_of(root, args, by="group", group="patient")
    of = {name: {int(row) // 4 for row in part.rows} for name, part in splits.samples.items()}
    assert not of["train"] & of["test"]
    assert not of["train"] & of["validation"]
    assert splits.files == [root / "labels.parquet", root / "photos"]


@pytest.mark.requirement("TRAIN-1", "REPRO-4", "GATE-2")
@pytest.mark.parametrize("inside", ["", "data"])
def test_a_changed_picture_beside_a_table_makes_the_data_stale_however_many_there_are(
    inside: str, photos: Write, tmp_path: Path
) -> None:
    root, folder = photos(60), tmp_path / inside
    folder.mkdir(exist_ok=True)
    for number, file in enumerate(sorted((root / "photos").rglob("*.png"))):
        file.rename(folder / f"{number}.png")
    (folder / "labels.csv").write_text(
        "\n".join(["file,label", *(f"{number}.png,{number % 2}" for number in range(60))])
    )
    place = Path(inside, "labels.csv").as_posix()
    evidence = data_evidence(splits_of(root, {"path": place, "target": "label"}), root)
    run = SimpleNamespace(code=SimpleNamespace(files={}, meanings={}), data=evidence)
    assert file_changes(root, run) == []
    (root / "train.py").write_text("# code is no data")
    assert file_changes(root, run) == []
    Image.fromarray(np.zeros((8, 8, 3), dtype=np.uint8)).save(folder / "41.png")
    assert file_changes(root, run) == [f"data: {inside or '41.png'} changed"]


@pytest.mark.requirement("TRAIN-1", "PIPE-2")
@pytest.mark.parametrize(
    ("name", "content", "told"),
    [
        ("ragged.csv", "file,label\na.png,1\nb.png\n", "ragged.csv line 3 has 1 cells, the header has 2"),
        ("twice.csv", "file,label,label\na.png,1,2\n", "twice.csv has two columns named 'label'"),
        ("odd.csv", b"file,label\na.png,caf\xe9\n", "odd.csv cannot be read as utf-8: line 2 has the byte 0xe9"),
        ("header.csv", "file,label\n", "header.csv has no rows|header.csv has 1 line"),
        ("empty.csv", "", "empty.csv has 0 line"),
        ("torn.jsonl", '{"file": "a.png", "label": 1}\n{"file":', "torn.jsonl line 2 is no JSON"),
        ("torn.parquet", b"PAR1 and no more", "torn.parquet cannot be read"),
    ],
)
def test_a_table_of_pictures_is_held_to_what_a_table_is_held_to(
    name: str, content: Any, told: str, tmp_path: Path
) -> None:
    (tmp_path / name).write_bytes(content if isinstance(content, bytes) else content.encode())
    with pytest.raises(DataError, match=told) as caught:
        load_source("images", {"path": name, "target": "label"}, tmp_path, SplitSection())
    assert caught.value.remedy


@pytest.mark.requirement("TRAIN-1")
def test_a_table_of_pictures_is_read_with_any_delimiter_and_names_that_are_numbers(photos: Write) -> None:
    root = photos(4)
    for number, file in enumerate(sorted((root / "photos").rglob("*.png"))):
        file.rename(root / f"00{number}")
    lines = ["path;age", *(f"00{number};{number / 2}" for number in range(4))]
    (root / "labels.csv").write_text("\ufeff" + "\n".join(lines), encoding="utf-8")
    found = load_source("images", {"path": "labels.csv", "target": "age"}, root, SplitSection())
    assert found.samples.pictures.names == ["000", "001", "002", "003"]
    assert found.samples.targets.tolist() == [0.0, 0.5, 1.0, 1.5]


@pytest.mark.requirement("TRAIN-1")
def test_masks_go_with_pictures_and_their_numbers_are_held_to_the_classes(photos: Write) -> None:
    root = photos()
    names = sorted(file.relative_to(root / "photos").as_posix() for file in (root / "photos").rglob("*.png"))
    for file in (root / "photos").rglob("*.png"):
        mask = root / "masks" / file.relative_to(root / "photos").with_suffix(".bmp")
        mask.parent.mkdir(parents=True, exist_ok=True)
        numbers = np.zeros((8, 8), dtype=np.uint8)
        numbers[:4], numbers[5], numbers[7] = 2, 1, 255
        Image.fromarray(numbers).save(mask)
    args = {"path": "photos", "masks": "masks", "classes": ["ground", "water", "road"], "size": 4}
    splits = splits_of(root, args)
    picture, mask = splits.samples["validation"][0]
    assert picture.shape == (3, 4, 4)
    assert mask.tolist() == [[2] * 4, [2] * 4, [1] * 4, [-100] * 4]
    assert splits.class_names == ["ground", "water", "road"]
    with pytest.raises(DataError, match=r"class number 2, and there are 2 classes \(0 to 1; 255 is ignored\)"):
        splits_of(root, {**args, "classes": 2}).samples["train"][0]
    with pytest.raises(DataError, match="40 of 40 masks have class number 2, .*: a/000.png, a/002.png") as caught:
        splits_of(root, {**args, "classes": 2})
    assert caught.value.remedy.endswith("configure(project, changes={'data.args.classes': 3}).")
    odd = np.zeros((8, 8), dtype=np.int32)
    odd[3, 3], odd[4, 4] = 70000, 9
    Image.fromarray(odd).save(root / "masks" / "a" / "002.tif")
    (root / "masks" / "a" / "002.bmp").unlink()
    lines = [f"photos/{part},masks/{Path(part).with_suffix('.tif' if '002' in part else '.bmp')}" for part in names]
    (root / "labels.csv").write_text("\n".join(["file,mask", *lines]))
    table = {"path": "labels.csv", "masks": "mask", "classes": 3}
    with pytest.raises(DataError, match=r"1 of 40 masks have class number 9, 70000, .*: row 2 \(photos/a/002.png\)"):
        splits_of(root, table)
    (root / "masks" / "a" / "000.bmp").unlink()
    with pytest.raises(DataError, match="1 of 40 images have no mask in masks: a/000.png"):
        splits_of(root, args)


@pytest.mark.requirement("TRAIN-1")
@pytest.mark.parametrize(
    ("row", "args", "error", "told"),
    [
        (lambda n, file: f"{file}{'x' * (n in {1, 3})},a{n % 2}", BASIC, DataError, "2 of 40 rows .*row 2 .*row 4"),
        (lambda n, file: f"../{file},a{n % 2}", BASIC, ConfigurationError, "row 1: the picture .* leads out of"),
        (lambda n, file: f"/etc/passwd,a{n % 2}", BASIC, ConfigurationError, "row 1: the picture '/etc/passwd' leads"),
        (lambda n, file: f"{file},{'' if n == 2 else 'a'}", BASIC, DataError, "1 cells are empty, first in rows 3"),
        (lambda n, file: f"{file},same", BASIC, DataError, "All 40 pictures have one label, 'same'"),
        (lambda n, file: f"{file},a{n % 2}", {**BASIC, "target": "lable"}, DataError, "no column 'lable'.*label"),
        (lambda n, file: f"{file},a{n % 2}", {"path": "labels.csv"}, DataError, "data.args.target names no column"),
        (lambda n, file: f"{file},a{n % 2}", {**BASIC, "target": ["label", "file"]}, DataError, "neither yes"),
    ],
    ids=["missing", "outside", "absolute", "empty", "one class", "column", "no target", "flags"],
)  # fmt: skip
def test_what_is_wrong_with_a_table_is_told_with_its_rows(
    photos: Write, row: Callable[[int, str], str], args: dict[str, Any], error: type[Exception], told: str
) -> None:
    root = photos()
    write_table(root, "file,label", row)
    with pytest.raises(error, match=told) as caught:
        splits_of(root, args)
    assert caught.value.remedy
