"""A folder of pictures, validated as a run validates it: what cannot be read, equal files, odd sizes; by their rows."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from PIL import Image

from trainwright.trainer.config import parse_config
from trainwright.trainer.data.sections import SplitSection
from trainwright.trainer.data.sources import load_source, scan_source
from trainwright.trainer.data.validation.expectations import Expectations
from trainwright.trainer.data.validation.frames import scanned
from trainwright.trainer.data.validation.suggest import suggested
from trainwright.trainer.evidence.validation import validation_of
from trainwright.trainer.run.validation import Validation

pytestmark = pytest.mark.requirement("PIPE-2")
EACH = 15


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """15 cats and 15 dogs of 48 by 48 pixels."""
    rng = np.random.default_rng(0)
    for name, most in (("cat", 256), ("dog", 128)):
        (tmp_path / "pets" / name).mkdir(parents=True)
        for number in range(EACH):
            blurred = Image.fromarray(rng.integers(0, most, (8, 8, 3), dtype=np.uint8)).resize((48, 48))
            blurred.save(tmp_path / "pets" / name / f"{number:02d}.png")
    return tmp_path


def validated(root: Path, **args: Any) -> Validation:
    data = {"use": "images", "args": {"path": "pets", "size": [32, 32], **args}}
    return validation_of(parse_config({"model": {"use": "cnn"}, "data": data}), root, {}, 0)


def found_frame(root: Path, **args: Any) -> pl.LazyFrame:
    frame = scan_source("images", {"path": "pets", "size": [32, 32], **args}, root)
    assert frame is not None
    return frame


def damage(pets: Path) -> None:
    """Break two pictures, copy one to the other class, and scale three."""
    (pets / "cat" / "10.png").write_bytes(b"not a picture at all")
    whole = (pets / "dog" / "11.png").read_bytes()
    (pets / "dog" / "11.png").write_bytes(whole[: len(whole) // 2])
    shutil.copyfile(pets / "cat" / "05.png", pets / "dog" / "05.png")
    for name, size in (("cat/03", (700, 500)), ("dog/04", (700, 500)), ("dog/09", (12, 12))):
        Image.open(pets / f"{name}.png").resize(size).save(pets / f"{name}.png")


def test_pictures_in_order_raise_no_warning(root: Path) -> None:
    found = validated(root)
    assert (found.problem, found.report.rows) == (None, 30)
    assert [one.place for one in found.report.worst_first()] == []
    text = suggested(scanned(found_frame(root), Expectations(), use="images", args={}))
    assert "problem" not in text
    assert "one_of: [cat, dog]" in text


def test_what_is_wrong_with_pictures_is_named_by_rows_and_files(root: Path) -> None:
    damage(root / "pets")
    found = validated(root)
    named = {one.place: (one.severity, one.rows) for one in found.report.worst_first()}
    assert named == {
        "path.corrupt": ("error", [10, 26]),
        "picture_sizes": ("warning", [3, 19, 24]),
        "picture_copies": ("warning", [5, 20]),
        "label_conflicts": ("warning", [5, 20]),
    }
    texts = {one.place: one.text for one in found.report.worst_first()}
    assert texts["path.corrupt"] == "2 of 30 pictures cannot be read: cat/10.png, dog/11.png"
    assert texts["label_conflicts"].endswith("cat/05.png, dog/05.png")
    assert texts["picture_sizes"].endswith("cat/03.png, dog/04.png, dog/09.png")


def test_the_remedy_of_a_corrupt_picture_leaves_it_out(root: Path) -> None:
    damage(root / "pets")
    (corrupt,) = validated(root).report.stopping
    assert "skip_unreadable: true" in corrupt.remedy
    report = validated(root, skip_unreadable=True).report
    assert report.stopping == []
    (left,) = [one for one in report.worst_first() if one.name == "corrupt"]
    assert (left.severity, left.count) == ("warning", 2)
    args = {"path": "pets", "size": [32, 32], "skip_unreadable": True}
    samples = load_source("images", args, root, SplitSection()).samples
    assert found_frame(root, skip_unreadable=True).collect()["problem"].null_count() == len(samples) == 28
