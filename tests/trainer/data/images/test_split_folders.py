"""Pictures that come in folders train, validation and test."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from PIL import Image
from tests.trainer.data.test_given_files import sizes_of, splits_of

from trainwright.trainer.base.errors import DataError
from trainwright.trainer.data.sources import scan_source

pytestmark = pytest.mark.requirement("TRAIN-1", "PIPE-2")


def test_folders_for_the_splits_hold_the_class_folders(photos: Callable[..., Path]) -> None:
    root = photos(40)
    for name, split in (("a", "val"), ("b", "val"), ("a", "test")):
        files = sorted((root / "photos" / name).iterdir())[-4:]
        target = root / "set" / split / name
        target.mkdir(parents=True)
        for file in files:
            shutil.move(file, target)
    shutil.copytree(root / "set" / "test" / "a", root / "set" / "test" / "b")
    for number, file in enumerate(sorted((root / "set" / "test" / "b").iterdir())):
        file.write_bytes((root / "photos" / "b" / f"{2 * number + 1:03d}.png").read_bytes())
        (root / "photos" / "b" / f"{2 * number + 1:03d}.png").unlink()
    shutil.move(root / "photos", root / "set" / "train")
    splits = splits_of(root, "images", {"path": "set"})
    assert splits.class_names == ["a", "b"]
    assert sizes_of(splits) == {"train": 24, "validation": 8, "test": 8}
    frame: Any = scan_source("images", {"path": "set"}, root)
    held = [path for path in frame.collect()["path"].to_list() if path.startswith("test/")]
    assert len(held) == 8
    with pytest.raises(DataError, match=r"a folder for each split \(test, train, validation\)") as refused:
        splits_of(root, "images", {"path": "set"}, by="random")
    assert "configure(changes={'data.split': {'by': 'given'}})" in refused.value.remedy
    with pytest.raises(DataError, match="needs files, or folders of pictures"):
        splits_of(root, "images", {"path": "set/train"})


def test_masks_keep_the_splits_of_their_pictures_folders(tmp_path: Path) -> None:
    for number in range(12):
        split = "train" if number < 8 else "val" if number < 10 else "test"
        for folder, colour in (("photos", (number, 9, 9)), ("masks", number % 2)):
            file = tmp_path / folder / split / f"{number}.png"
            file.parent.mkdir(parents=True, exist_ok=True)
            Image.new("RGB" if folder == "photos" else "L", (8, 8), colour).save(file)
    args = {"path": "photos", "masks": "masks", "classes": 2}
    assert sizes_of(splits_of(tmp_path, "images", args)) == {"train": 8, "validation": 2, "test": 2}
